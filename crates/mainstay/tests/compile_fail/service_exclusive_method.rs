use mainstay::prelude::*;

#[interface]
trait Counter {
    async fn count(&self) -> Result<i64>;
    async fn add(&mut self, n: i64) -> Result<i64>;
}

#[derive(Service)]
#[service(implements(Counter))]
struct CounterService {}

impl Counter for CounterService {
    async fn count(&self) -> Result<i64> {
        Ok(0)
    }

    async fn add(&mut self, n: i64) -> Result<i64> {
        Ok(n)
    }
}

fn main() {}
