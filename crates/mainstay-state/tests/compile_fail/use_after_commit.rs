//! A transaction that was committed is gone.

use mainstay_core::Result;
use mainstay_state::{Dictionary, StateManager};

async fn count(state: &StateManager, stock: &Dictionary<String, u32>) -> Result<()> {
    let mut tx = state.begin();
    stock.set(&mut tx, "apple".into(), 1).await?;
    tx.commit().await?;
    stock.set(&mut tx, "pear".into(), 1).await
}

fn main() {}
