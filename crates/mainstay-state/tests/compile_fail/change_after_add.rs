//! The first sample of the guide to reliable collections: a value is changed after it was handed over.

use mainstay_core::Result;
use mainstay_core::time::{self, WallTime};
use mainstay_state::{Dictionary, StateManager};
use serde::{Deserialize, Serialize};

#[derive(Clone, Serialize, Deserialize)]
struct User {
    last_login: WallTime,
}

async fn log_in(state: &StateManager, users: &Dictionary<String, User>, name: &str, mut user: User) -> Result<()> {
    let mut tx = state.begin();
    users.add(&mut tx, name.to_owned(), user).await?;
    // Would change a copy in memory alone.
    user.last_login = time::wall();
    tx.commit().await?;
    Ok(())
}

fn main() {}
