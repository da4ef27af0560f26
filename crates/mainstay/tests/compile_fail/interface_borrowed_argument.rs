use mainstay::prelude::*;

#[interface]
trait Store {
    async fn put(&self, key: &str, value: &[u8], more: Option<&'static str>) -> Result<()>;
    async fn get(&self, key: String) -> Result<&str>;
}

fn main() {}
