//! The node, in a process of its own: callers, a batch executor, a pool, a table.

use std::io::{BufRead as _, Write as _};
use std::path::Path;
use std::time::Duration;

use mainstay::prelude::*;
use mainstay_governance::batch::{BatchExecutor, BatchSettings, RetryPolicy};
use mainstay_governance::owner::{Backoff, OwnerSettings};
use mainstay_governance::pool::{BreakerSettings, PoolSettings, ResourcePool};
use mainstay_governance::sink::postgres::{PostgresTable, Row, Values};
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;

use super::acknowledged_file;
use super::callers::EVENTS_EACH;

/// Tells the test binary, started once more, that it is the node.
pub(super) const FOLDER_VARIABLE: &str = "MAINSTAY_POSTGRES_TEST_FOLDER";
pub(super) const DATABASE_VARIABLE: &str = "MAINSTAY_POSTGRES_TEST_DATABASE";

/// What the lines start with that it prints; the test harness prints too.
pub(super) const ACKNOWLEDGED: &str = "acknowledged ";
pub(super) const RESIZED: &str = "resized ";
pub(super) const DONE: &str = "all events are acknowledged";

/// Many small batches, so that all members of the pool have something to do.
const BATCH_ITEMS_MAX: usize = 200;

/// More batches than the pool ever has members.
const BATCHES_AT_ONCE: usize = 10;

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Event {
    caller: i32,
    number: i32,
}

impl Row for Event {
    const SERVICE: &'static str = "event-rows";
    const COLUMNS: &'static [&'static str] = &["id", "caller", "number"];

    fn put(&self, values: &mut Values<'_>) {
        let id = i64::from(self.caller) << 32 | i64::from(self.number);
        values.push(&id).push(&self.caller).push(&self.number);
    }
}

/// In one piece, and past the buffer of the process: what is not written is not acknowledged.
fn print(line: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("\n{line}\n").as_bytes()).and_then(|()| out.flush()).unwrap();
}

fn table(database: &str) -> Result<PostgresTable<Event>> {
    // Quick tries, because a test waits for them.
    let backoff = Backoff::new(Duration::from_millis(20), Duration::from_millis(200));
    let owner = OwnerSettings { backoff, ..OwnerSettings::default() };
    let breaker = BreakerSettings { open_time: backoff, ..BreakerSettings::default() };
    let pool = PoolSettings { initial_size: 5, breaker, ..PoolSettings::default() };
    Ok(PostgresTable::new(database, "events")?.once_by(&["id"])?.with_owner_settings(owner).with_pool_settings(pool))
}

fn batches() -> BatchSettings {
    let retry = RetryPolicy {
        attempts_max: RetryPolicy::ATTEMPTS_LIMIT,
        backoff_initial: Duration::from_millis(10),
        backoff_max: Duration::from_millis(200),
        // Events have a key: what may have been written already may be written again.
        retries: |error| error.is_retryable() || error.kind() == ErrorKind::OutcomeUnknown,
    };
    BatchSettings { items_max: BATCH_ITEMS_MAX, in_flight_max: BATCHES_AT_ONCE, retry, ..BatchSettings::default() }
}

#[test]
fn the_node_that_is_killed() {
    let Some(folder) = std::env::var_os(FOLDER_VARIABLE) else { return };
    let database = std::env::var(DATABASE_VARIABLE).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(run(Path::new(&folder), &database)).unwrap();
}

async fn run(folder: &Path, database: &str) -> Result<()> {
    let builder = Node::builder().isolated().data_dir(folder.join("node"));
    let node = ResourcePool::serve(builder, table(database)?).start().await?;
    let pool = ResourcePool::<PostgresTable<Event>>::open(&node, "events").await?;
    let batch = BatchExecutor::start("events", pool.clone(), batches())?;
    obey(pool);

    let acknowledged = std::fs::read_to_string(acknowledged_file(folder)).unwrap();
    let mut callers = JoinSet::new();
    for (caller, next) in (0..).zip(acknowledged.lines().map(|line| line.parse::<i32>().unwrap())) {
        let batch = batch.clone();
        callers.spawn(async move {
            for number in next..i32::try_from(EVENTS_EACH).unwrap() {
                batch.submit(Event { caller, number }).await.unwrap();
                print(&format!("{ACKNOWLEDGED}{caller} {number}"));
            }
        });
    }
    callers.join_all().await;
    batch.close().await;
    node.stop().await;
    print(DONE);
    Ok(())
}

/// Resizes the pool as the test asks for it, line by line.
fn obey(pool: ResourcePool<PostgresTable<Event>>) {
    let runtime = tokio::runtime::Handle::current();
    let listen = move || {
        for size in std::io::stdin().lock().lines().map_while(std::io::Result::ok) {
            let size = size.parse().unwrap();
            runtime.block_on(pool.resize(size)).unwrap();
            print(&format!("{RESIZED}{size}"));
        }
    };
    std::thread::Builder::new().name("commands of the test".to_owned()).spawn(listen).unwrap();
}
