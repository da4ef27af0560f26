use mainstay::prelude::*;

#[interface]
trait Store {
    async fn put<T: Send>(&self, value: T) -> Result<()>;
    async fn get(&self, key: impl Into<String>) -> Result<()>;
}

fn main() {}
