//! Rows in a table of PostgreSQL, a batch at a time.
//!
//! A [`PostgresTable`] is a [`Resource`](crate::owner::Resource): an owner, or the members of a pool, hold one connection
//! each, and a job is a batch of [rows](Row), written in one transaction. With a
//! [`BatchExecutor`](crate::batch::BatchExecutor) before a [`ResourcePool`](crate::pool::ResourcePool), thousands of callers
//! write through as many connections as the pool has members.
//!
//! ```no_run
//! use mainstay::prelude::*;
//! use mainstay::governance::batch::{BatchExecutor, BatchSettings, RetryPolicy, SplitPolicy};
//! use mainstay::governance::pool::ResourcePool;
//! use mainstay::governance::sink::postgres::{PostgresTable, Row, Values};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Clone, Serialize, Deserialize)]
//! struct Event {
//!     id: i64,
//!     text: String,
//! }
//!
//! impl Row for Event {
//!     const SERVICE: &'static str = "event-rows";
//!     const COLUMNS: &'static [&'static str] = &["id", "text"];
//!
//!     fn put(&self, values: &mut Values<'_>) {
//!         values.push(&self.id).push(&self.text);
//!     }
//! }
//!
//! # #[tokio::main]
//! # async fn main() -> Result<()> {
//! let table = PostgresTable::<Event>::new("host=localhost user=app", "events")?.once_by(&["id"])?;
//! let node = ResourcePool::serve(Node::builder(), table).start().await?;
//! let pool = ResourcePool::<PostgresTable<Event>>::open(&node, "events").await?;
//! let settings = BatchSettings {
//!     in_flight_max: 5, // as many as the pool has members
//!     retry: RetryPolicy::attempts(10),
//!     split: SplitPolicy::bisect(),
//!     ..BatchSettings::default()
//! };
//! let events = BatchExecutor::start("events", pool, settings)?;
//! events.submit(Event { id: 1, text: "written, once".into() }).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Once each
//!
//! With [`once_by`](PostgresTable::once_by) rows are known by a key, and a batch is *one* statement that leaves out those
//! that are there already. Once there were none for a while it is written without looking first, which costs the server half
//! as much, and again by looking if the unique index objects: that is then an error in the server's log, and none of ours. The
//! index has to be there when a session is opened, and to stay. Whatever becomes of the connection, the batch may be written again: its error is `Retry`. Without a
//! key a batch is written by COPY in a transaction; if the connection goes away during the commit, the outcome is unknown, and the
//! error is `OutcomeUnknown`.
//!
//! # Never by two
//!
//! The table `mainstay_fences` has a row for every owner, such as `event-rows("events")`, and every member of a pool, such as
//! `event-rows.member("events/3")`: `resource text primary key, fence bigint, backend integer,
//! backend_start timestamptz`. An opening ends the session of the one before, makes its fencing token the highest, and is
//! refused if it was seen, or a higher one. Two clusters that write to one database have different [services](Row::SERVICE), or
//! tables of tokens ([`fenced_by`](PostgresTable::fenced_by)): by one name they would take each other for a predecessor. A batch reads and locks that row in its own transaction, and writes nothing if the token is
//! not its own any more (`NotPrimary`). The lock makes a new opening wait until a batch that has begun is written or
//! not, so that nothing is written by an older one after it.
//!
//! # How many connections
//!
//! A pool of n has n connections, and closing one waits until the server has let go of it. That also holds for what did not
//! come to its end: an opening or a batch that took too long is cancelled at the server, its session is seen out, and the next
//! opening waits until it is gone. Only a server that does not answer at all for half a minute is not waited for. Each session
//! shows whose it is and its token as `application_name`.
//!
//! The server may keep the session of a process that was killed for a moment longer: until it looks for its client, which
//! it is told to do every second, or for a minute if the whole machine is gone. So that no more than n are open even then,
//! give the user of the database a limit: `ALTER ROLE app CONNECTION LIMIT 5`. An owner that comes too early is refused with
//! 53300, and opens again after a pause. With one more than n it gets in at once, and ends what is left of its predecessor.
//!
//! # What errors mean
//!
//! | of the server | kind | a batch is |
//! |---|---|---|
//! | connection lost, shutdown (57P01), too many (53300), serialization, deadlock | `Retry` (`OutcomeUnknown` in a commit without a key) | written again |
//! | data and constraints (classes 22 and 23) | `Invalid`, `Conflict` for one that is unique | split, to find the row |
//! | statement too long or too slow | `TooLarge`, `Timeout` | the callers' |
//! | disk full | `StorageFull` | the callers' |
//! | table, column, right that is missing | `Fatal` | the callers'; opened again |

mod row;

mod values;

mod table;

mod session;

mod dial;
mod door;
mod link;

mod statements;

mod failure;

pub use row::Row;
pub use session::PostgresSession;
pub use table::PostgresTable;
pub use tokio_postgres;
pub use values::Values;
