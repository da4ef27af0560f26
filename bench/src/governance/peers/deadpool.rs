//! One statement per call, on a pool of clients: the usual way.

use deadpool_postgres::{Manager, ManagerConfig, Pool, RecyclingMethod};
use tokio_postgres::NoTls;

use super::super::callers::{Submit, Written, write};
use super::super::row::Event;
use crate::load::Load;
use crate::outcome::Outcome;

#[derive(Clone)]
struct Clients(Pool);

impl Submit for Clients {
    async fn submit(&self, event: Event) -> Outcome<()> {
        let client = self.0.get().await?;
        let statement = "INSERT INTO events (id, caller, text) VALUES ($1, $2, $3) ON CONFLICT (id) DO NOTHING";
        let statement = client.prepare_cached(statement).await?;
        client.execute(&statement, &[&event.id, &event.caller, &event.text]).await?;
        Ok(())
    }
}

/// Rows into a table.
pub(in super::super) async fn postgres(load: Load, database: &str, connections: usize) -> Outcome<Written> {
    // Without a statement to see whether the client is still good: its fastest way.
    let config = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    let pool = Pool::builder(Manager::from_config(database.parse()?, NoTls, config)).max_size(connections).build()?;
    let written = write(load, &Clients(pool.clone())).await;
    pool.close();
    written
}
