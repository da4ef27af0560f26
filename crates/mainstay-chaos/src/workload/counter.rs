//! A counter that only grows, by one at a time: each answer is a number that no other add may be given.

use mainstay::prelude::*;

/// One counter.
#[interface]
pub trait Counter {
    /// Adds one, and says how many there are then.
    async fn add(&mut self) -> Result<u64>;

    /// How many there are.
    async fn total(&self) -> Result<u64>;
}

/// The actor: its id is the number of the counter.
#[derive(Actor)]
#[actor(implements(Counter), persistence = "persisted")]
pub struct CounterActor {
    total: State<u64>,
}

impl Counter for CounterActor {
    async fn add(&mut self) -> Result<u64> {
        *self.total += 1;
        Ok(*self.total)
    }

    async fn total(&self) -> Result<u64> {
        Ok(*self.total)
    }
}
