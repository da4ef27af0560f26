use mainstay::prelude::*;

#[interface]
trait Shop {
    async fn open() -> Result<()>;
    async fn close(self) -> Result<()>;
    async fn other(&self, other: Self) -> Result<()>;
}

fn main() {}
