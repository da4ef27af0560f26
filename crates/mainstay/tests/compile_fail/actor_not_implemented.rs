use mainstay::prelude::*;

pub struct Order;

#[interface]
trait Cart {
    async fn put(&mut self, order: Order) -> Result<()>;
    async fn orders(&self) -> Result<Vec<Order>>;
}

#[interface]
trait Counter {
    async fn add(&mut self, n: i64) -> Result<i64>;
}

#[derive(Actor)]
#[actor(implements(Counter))]
struct NotACounter;

struct NotAnActor;

fn main() {
    let _ = Node::builder().actor::<NotAnActor>();
}
