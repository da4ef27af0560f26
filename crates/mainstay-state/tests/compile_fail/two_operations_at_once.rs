//! A transaction does one thing at a time.

use mainstay_core::Result;
use mainstay_state::{Dictionary, StateManager};

async fn sum(state: &StateManager, stock: &Dictionary<String, u32>) -> Result<u32> {
    let mut tx = state.begin();
    let (apples, pears) = tokio::join!(stock.get(&mut tx, "apple"), stock.get(&mut tx, "pear"));
    Ok(apples?.map_or(0, |count| *count) + pears?.map_or(0, |count| *count))
}

fn main() {}
