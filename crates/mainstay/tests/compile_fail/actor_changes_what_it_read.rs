//! What was read cannot be changed in place: memory and store would disagree.
use mainstay::prelude::*;

#[derive(Actor)]
struct CartActor {
    ctx: Context,
}

impl CartActor {
    fn put(&mut self, item: String) -> Result<()> {
        let items = self.ctx.state().get::<Vec<String>>("items")?;
        items.push(item);
        Ok(())
    }

    fn put_shared(&self, item: String) -> Result<()> {
        self.ctx.state_mut().set("item", item)
    }
}

fn main() {}
