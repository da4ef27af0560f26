use mainstay::prelude::*;

#[interface]
trait Store {
    fn put(&self, key: String) -> Result<()>;
    async fn forget(&self, key: String);
}

fn main() {}
