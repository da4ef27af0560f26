use mainstay::prelude::*;

trait Plain {
    async fn count(&self) -> Result<u64>;
}

#[derive(Actor)]
#[actor(implements(Plain))]
struct Counter {
    count: State<u64>,
}

impl Plain for Counter {
    async fn count(&self) -> Result<u64> {
        Ok(*self.count)
    }
}

fn main() {}
