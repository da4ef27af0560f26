//! Rows into PostgreSQL.

use std::path::Path;
use std::sync::Arc;

use mainstay_core::task;
use mainstay_governance::testkit::{PostgresOptions, PostgresServer};
use tokio_postgres::{Client, NoTls};

use super::callers::Written;
use super::peers::{by_hand, deadpool};
use super::{CALLERS, SHARE_OF_BY_HAND, load, name, ours, runtime};
use crate::contest::Contest;
use crate::goal::Target;
use crate::measurement::Unit;
use crate::outcome::Outcome;
use crate::report::Report;
use crate::scratch::Scratch;
use crate::settings::Settings;

/// How many connections a pool has.
const CONNECTIONS: u32 = 5;

/// How many times the rows of an insert per call are to be reached. Fewer callers than so many for each connection cannot: the
/// README says why, and the line is printed all the same.
const TIMES_INSERT_PER_CALL: f64 = 10.0;

const POOL: &str = "pool of 5";
const ONE: &str = "pool of 1";
const BY_HAND: &str = "one task by hand";
const PER_CALL: &str = "deadpool of 5, an insert per call";

pub(super) fn run(settings: &Settings, scratch: &Scratch, report: &mut Report) -> Outcome<()> {
    let database = Arc::new(Database::start(&settings.dir)?);
    let mut contest = Contest::new();
    for callers in CALLERS {
        let load = load(settings, callers);
        for (who, connections) in [(POOL, CONNECTIONS), (ONE, 1)] {
            let database = database.clone();
            contest.enter(&name(who, callers), Unit::PerSecond, move |folder| {
                database.measure(async |connection: &str| ours::postgres(folder, load, connection, connections).await)
            });
        }
        let by_hand = database.clone();
        contest.enter(&name(BY_HAND, callers), Unit::PerSecond, move |_| {
            by_hand.measure(async |connection: &str| by_hand::postgres(load, connect(connection).await?).await)
        });
        let per_call = database.clone();
        contest.enter(&name(PER_CALL, callers), Unit::PerSecond, move |_| {
            let connections = CONNECTIONS as usize;
            per_call.measure(async |connection: &str| deadpool::postgres(load, connection, connections).await)
        });
    }
    let results = contest.run(settings.rounds(), scratch)?;
    for callers in CALLERS {
        let goal = format!("postgres-{callers}-vs-by-hand");
        // One connection each.
        let ratio = results.ratio(&name(ONE, callers), &name(BY_HAND, callers), &goal);
        report.goal(ratio, Target::AtLeast(SHARE_OF_BY_HAND));
    }
    for callers in CALLERS {
        let goal = format!("postgres-{callers}-vs-insert-per-call");
        // Five connections each.
        let ratio = results.ratio(&name(POOL, callers), &name(PER_CALL, callers), &goal);
        report.goal(ratio, Target::AtLeast(TIMES_INSERT_PER_CALL));
    }
    report
        .group("rows per second into PostgreSQL, each durable before its caller goes on", results.into_measurements());
    Ok(())
}

/// A server with a table.
struct Database {
    server: PostgresServer,
}

impl Database {
    fn start(folder: &Path) -> Result<Self, mainstay::Error> {
        let options = PostgresOptions::default().with_data_below(folder);
        // Nobody is to pay for what others wrote.
        let options = options.with_setting("autovacuum", "off").with_setting("max_wal_size", "8GB");
        Ok(Self { server: PostgresServer::start(options)? })
    }

    /// Rows per second into an empty table, which has as many at the end as were acknowledged.
    fn measure(&self, write: impl AsyncFnOnce(&str) -> Outcome<Written>) -> Outcome<f64> {
        let connection = self.server.connection_string();
        runtime()?.block_on(async {
            let admin = connect(&connection).await?;
            let table = "DROP TABLE IF EXISTS events; CREATE TABLE events (id bigint PRIMARY KEY, caller int NOT NULL, text \
                         text NOT NULL)";
            admin.batch_execute(table).await?;
            admin.batch_execute("CHECKPOINT").await?;
            let Written { rate, rows } = write(&connection).await?;
            let stored: i64 = admin.query_one("SELECT count(*) FROM events", &[]).await?.get(0);
            if stored.unsigned_abs() != rows {
                return Err(format!("the table has {stored} rows of {rows} that were acknowledged").into());
            }
            Ok(rate)
        })
    }
}

async fn connect(connection: &str) -> Outcome<Client> {
    let (client, driver) = tokio_postgres::connect(connection, NoTls).await?;
    // Ends with the client; what has ended it before is told there.
    drop(task::spawn(async move { drop(driver.await) }));
    Ok(client)
}
