//! The second sample of the guide to reliable collections: a value is changed that was read.

use mainstay_core::Result;
use mainstay_core::time::{self, WallTime};
use mainstay_state::{Dictionary, StateManager};
use serde::{Deserialize, Serialize};

#[derive(Clone, Serialize, Deserialize)]
struct User {
    last_login: WallTime,
}

async fn log_in(state: &StateManager, users: &Dictionary<String, User>, name: &str) -> Result<()> {
    let mut tx = state.begin();
    if let Some(mut user) = users.get(&mut tx, name).await? {
        // Would change what others read, and nothing of what is stored.
        user.last_login = time::wall();
        tx.commit().await?;
    }
    Ok(())
}

fn main() {}
