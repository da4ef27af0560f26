use mainstay::prelude::*;

#[derive(Actor)]
struct Counter {
    counts: Dictionary<String, u64>,
    waiting: Queue<u64>,
}

fn main() {}
