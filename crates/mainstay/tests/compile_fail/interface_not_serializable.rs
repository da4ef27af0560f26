use mainstay::prelude::*;

pub struct Order;

#[interface]
trait Shop {
    async fn buy(&self, order: Order) -> Result<()>;
}

#[interface]
trait Desk {
    async fn last(&self) -> Result<Order>;
}

fn main() {}
