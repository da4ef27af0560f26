//! What the samples of mistakes should have been.

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
    user.last_login = time::wall();
    users.add(&mut tx, name.to_owned(), user).await?;
    tx.commit().await?;

    let mut tx = state.begin();
    if let Some(user) = users.get_for_update(&mut tx, name).await? {
        let mut changed = User::clone(&user);
        changed.last_login = time::wall();
        users.set(&mut tx, name.to_owned(), changed).await?;
    }
    users.update(&mut tx, name, |user| user.last_login = time::wall()).await?;
    tx.commit().await?;
    Ok(())
}

fn main() {
    _ = log_in;
}
