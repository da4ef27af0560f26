use mainstay::prelude::*;

#[interface(remote)]
trait Shop<'t>: Clone {
    type Item;

    async fn open(&self) -> Result<()> {
        Ok(())
    }

    async fn add(&self, (a, b): (u8, u8)) -> Result<()>;
}

fn main() {}
