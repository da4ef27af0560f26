use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use futures_util::{SinkExt as _, future};
use mainstay::{Error, ErrorKind, Result};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Config, Statement};

use super::dial::Dial;
use super::failure::{Certainty, failure};
use super::link::{Link, SessionOwner};
use super::statements::Names;
use super::values::{Array, Column, copy_form, encode};
use super::{PostgresTable, Row};
use crate::owner::{Fence, Holder, Opening};
use crate::pool::names;

/// Where openings wait for each other that all want to make the table of the fencing tokens: an advisory lock of our own.
const MAKING_FENCES: i64 = 0x6d61_696e_7374_6179;

/// Has the server notice soon when we are gone: while it works for us, or while a whole machine does not answer. Whoever runs
/// the database, or gave the role or the connection a setting of its own, knows better; older servers lack some.
const NOTICE_WHEN_WE_ARE_GONE: &str = "SELECT set_config(s.name, wanted.value, false) FROM pg_settings s JOIN (VALUES \
    ('client_connection_check_interval', '1s'), ('tcp_keepalives_idle', '30'), ('tcp_keepalives_interval', '10'), \
    ('tcp_keepalives_count', '3')) wanted (name, value) USING (name) WHERE s.source = 'default'";

/// Everything that a session can have that was not there when it was opened, but for the statements that it has prepared:
/// `DISCARD ALL` would take those as well.
const RESET: &str = "ROLLBACK; CLOSE ALL; SET SESSION AUTHORIZATION DEFAULT; RESET ALL; UNLISTEN *; \
    SELECT pg_advisory_unlock_all(); DISCARD PLANS; DISCARD TEMP; DISCARD SEQUENCES";

/// An open connection to a table, with a fencing token.
pub struct PostgresSession {
    link: Link,
    /// Whom the token belongs to, and the token.
    resource: String,
    fence: Fence,
    number: i64,
    types: Vec<Type>,
    hold: Statement,
    highest: Statement,
    write: Write,
}

/// How rows are written.
enum Write {
    /// As they come, by COPY in a transaction.
    Copy(Statement),
    /// Those whose key is not there yet, by one statement.
    Insert(Insert),
}

/// Two statements that write rows with a key. That no key is there yet is the rule, and a row costs the server half as much
/// if it need not look first. If one is there, that statement writes nothing, and the other one leaves it out.
struct Insert {
    all: Statement,
    missing: Statement,
    /// How many batches are still written by looking first.
    suspicious: AtomicU32,
}

/// So many batches look first after a session was opened or a key was there: they may be retries, and each that fails is a
/// line in the server's log. The first is the one of nothing, which so finds out if there is no unique index.
const SUSPICIOUS_BATCHES: u32 = 64;

impl Insert {
    /// Whether the next batch may have keys that are there.
    fn is_suspicious(&self) -> bool {
        let one_less = |batches: u32| batches.checked_sub(1);
        self.suspicious.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok()
    }

    fn grow_suspicious(&self) {
        self.suspicious.store(SUSPICIOUS_BATCHES, Ordering::Relaxed);
    }
}

impl fmt::Debug for PostgresSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { resource, fence, .. } = self;
        f.debug_tuple("PostgresSession").field(resource).field(fence).finish()
    }
}

impl PostgresSession {
    /// Connects, makes the token of the opening the highest, and learns what the table looks like.
    pub(super) async fn open<R: Row>(
        dial: &Arc<dyn Dial>,
        mut config: Config,
        names: &Names,
        opening: &Opening,
        place: SessionOwner,
    ) -> Result<Self> {
        let failed =
            |cause| failure(&format!("opening {} for {}", names.table, opening.key), cause, Certainty::Repeatable);
        let resource = resource::<R>(opening);
        let number = i64::try_from(opening.fence.get()).map_err(|_| {
            Error::fatal(format!("fencing token {} of {resource} is larger than a bigint", opening.fence))
        })?;
        config.application_name(application_name(&format!("{}/{}", R::SERVICE, opening.key), opening.fence));
        let link = Link::open(dial, config, place, failed).await?;
        let prepared = Prepared::by(&link.client, names, &resource, number, failed);
        let Prepared { is_raised, types, hold, highest, write } = link.drive(prepared).await?;
        let fence = opening.fence;
        let session = Self { link, resource, fence, number, types, hold, highest, write };
        let is_ready = async {
            if !is_raised {
                return Err(session.seen().await);
            }
            // A batch of nothing: a right or a unique index that is missing is found out now.
            session.send(&encode::<R>(&session.types, &[])?, 0).await
        };
        session.link.drive(is_ready).await?;
        Ok(session)
    }

    /// Writes rows in one transaction, all or none, unless the token is stale.
    pub(super) async fn write<R: Row>(&self, rows: &[R]) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let columns = encode(&self.types, rows)?;
        self.link.drive(self.send(&columns, rows.len())).await
    }

    /// Says whether the server answers, and whether the token is still the highest.
    pub(super) async fn check(&self) -> Result<()> {
        self.link.drive(self.is_the_highest()).await
    }

    /// Makes the session as it was when it was opened.
    pub(super) async fn reset(&self) -> Result<()> {
        let failed = |cause| self.failure(cause, Certainty::Repeatable);
        let client = &self.link.client;
        self.link
            .drive(async {
                client.batch_execute(RESET).await.map_err(failed)?;
                client.batch_execute(NOTICE_WHEN_WE_ARE_GONE).await.map_err(failed)
            })
            .await
    }

    /// Ends the session, and returns when the server has let go of it.
    pub(super) async fn close(self) {
        self.link.close().await;
    }

    async fn send(&self, columns: &[Column], rows: usize) -> Result<()> {
        match &self.write {
            Write::Copy(statement) => self.copy(statement, columns, rows).await,
            Write::Insert(insert) => self.insert(insert, columns, rows).await,
        }
    }

    async fn insert(&self, insert: &Insert, columns: &[Column], rows: usize) -> Result<()> {
        let arrays: Vec<Array<'_>> = columns.iter().map(|column| Array { column, rows }).collect();
        let mut parameters: Vec<&(dyn ToSql + Sync)> = vec![&self.resource, &self.number];
        parameters.extend(arrays.iter().map(|array| array as &(dyn ToSql + Sync)));
        let client = &self.link.client;
        let written = if insert.is_suspicious() {
            client.execute(&insert.missing, &parameters).await
        } else {
            match client.execute(&insert.all, &parameters).await {
                Err(cause) if cause.code() == Some(&SqlState::UNIQUE_VIOLATION) => {
                    insert.grow_suspicious();
                    client.execute(&insert.missing, &parameters).await
                }
                written => written,
            }
        };
        let written = written.map_err(|cause| self.failure(cause, Certainty::Repeatable))?;
        // What has written a row has found the token. Otherwise all rows were there before, or the token is stale.
        if written > 0 { Ok(()) } else { self.is_the_highest().await }
    }

    async fn copy(&self, statement: &Statement, columns: &[Column], rows: usize) -> Result<()> {
        let form = copy_form(columns, rows)?;
        match self.copy_uncommitted(statement, form.freeze()).await {
            Ok(()) => {
                let committed = self.link.client.batch_execute("COMMIT").await;
                committed.map_err(|cause| self.failure(cause, Certainty::Unknown))
            }
            Err(error) => {
                // If this does not get through, the session is over, and the transaction with it.
                let _ = self.link.client.batch_execute("ROLLBACK").await;
                Err(error)
            }
        }
    }

    async fn copy_uncommitted(&self, statement: &Statement, form: bytes::Bytes) -> Result<()> {
        let client = &self.link.client;
        let failed = |cause| self.failure(cause, Certainty::Repeatable);
        let parameters: [&(dyn ToSql + Sync); 2] = [&self.resource, &self.number];
        // Sent together, in this order.
        let begun = future::try_join(client.batch_execute("BEGIN"), client.query_opt(&self.hold, &parameters));
        let ((), held) = begun.await.map_err(failed)?;
        if held.is_none() {
            return Err(self.stale().await);
        }
        let mut sink = std::pin::pin!(client.copy_in(statement).await.map_err(failed)?);
        sink.send(form).await.map_err(failed)?;
        sink.finish().await.map_err(failed)?;
        Ok(())
    }

    /// An error if there is a higher token: a stale one never becomes the highest again.
    async fn is_the_highest(&self) -> Result<()> {
        match self.highest().await? {
            Some(highest) if highest == self.fence => Ok(()),
            _ => Err(self.stale().await),
        }
    }

    async fn highest(&self) -> Result<Option<Fence>> {
        let row = self.link.client.query_opt(&self.highest, &[&self.resource]).await;
        let row = row.map_err(|cause| self.failure(cause, Certainty::Repeatable))?;
        // Only numbers that were tokens are stored.
        Ok(row.map(|row| Fence::new(row.get::<_, i64>(0).unsigned_abs())))
    }

    /// Why the token cannot open: it, or a higher one, has been seen.
    async fn seen(&self) -> Error {
        match self.highest().await {
            Err(error) => error,
            Ok(Some(highest)) if self.fence <= highest => self.fence.stale(highest),
            Ok(_) => self.forgotten(),
        }
    }

    /// Why the token is not the highest.
    async fn stale(&self) -> Error {
        match self.highest().await {
            Err(error) => error,
            Ok(Some(mut highest)) => match self.fence.admit(&mut highest) {
                Err(stale) => stale,
                Ok(()) => self.forgotten(),
            },
            Ok(None) => self.forgotten(),
        }
    }

    fn forgotten(&self) -> Error {
        let Self { resource, fence, .. } = self;
        let message =
            format!("the database has lost fencing token {fence} of {resource}: it is opened again, try again");
        Error::new(ErrorKind::Fatal, message)
    }

    fn failure(&self, cause: tokio_postgres::Error, certainty: Certainty) -> Error {
        failure(&format!("writing by {}", self.resource), cause, certainty)
    }
}

/// What a session finds out and makes ready before its first batch.
struct Prepared {
    /// False if the token was seen, or a newer one.
    is_raised: bool,
    types: Vec<Type>,
    hold: Statement,
    highest: Statement,
    write: Write,
}

impl Prepared {
    async fn by(
        client: &Client,
        names: &Names,
        resource: &str,
        number: i64,
        failed: impl Fn(tokio_postgres::Error) -> Error,
    ) -> Result<Self> {
        client.batch_execute(NOTICE_WHEN_WE_ARE_GONE).await.map_err(&failed)?;
        let raised = match raise(client, names, resource, number).await {
            Err(cause) if cause.code() == Some(&SqlState::UNDEFINED_TABLE) => {
                make_fences(client, names).await.map_err(&failed)?;
                raise(client, names, resource, number).await
            }
            other => other,
        };
        let is_raised = raised.map_err(&failed)?;
        let highest = client.prepare(&names.highest()).await.map_err(&failed)?;
        let hold = client.prepare(&names.hold()).await.map_err(&failed)?;
        let types = client.prepare(&names.types()).await.map_err(&failed)?;
        let types: Vec<Type> = types.columns().iter().map(|column| column.type_().clone()).collect();
        let write = match &names.key {
            None => Write::Copy(client.prepare(&names.copy()).await.map_err(&failed)?),
            Some(key) => Write::Insert(Insert {
                all: client.prepare(&names.insert(&types)?).await.map_err(&failed)?,
                missing: client.prepare(&names.insert_missing(key, &types)?).await.map_err(&failed)?,
                suspicious: AtomicU32::new(SUSPICIOUS_BATCHES),
            }),
        };
        Ok(Self { is_raised, types, hold, highest, write })
    }
}

/// Whom a token belongs to. The owner of `orders/3` and member 3 of the pool `orders` have one key, and are two.
fn resource<R: Row>(opening: &Opening) -> String {
    let service = match opening.member {
        None => R::SERVICE,
        Some(_) => names::Names::<PostgresTable<R>>::MEMBER,
    };
    Holder::actor(service, &opening.key.as_str().into()).as_str().to_owned()
}

/// Ends what an older opening has left and takes its place; false if there is a newer one.
async fn raise(client: &Client, names: &Names, resource: &str, number: i64) -> Result<bool, tokio_postgres::Error> {
    client.query_one(&names.evict(), &[&resource, &number]).await?;
    Ok(client.query_opt(&names.raise(), &[&resource, &number]).await?.is_some())
}

async fn make_fences(client: &Client, names: &Names) -> Result<(), tokio_postgres::Error> {
    // Even `IF NOT EXISTS` fails for one of two that come at the same time.
    let make = format!("BEGIN; SELECT pg_advisory_xact_lock({MAKING_FENCES}); {}; COMMIT", names.create_fences());
    client.batch_execute(&make).await
}

/// What the server shows of a session: whom it belongs to, and its token. The server cuts longer ones, and so the end
/// would be lost, and shows only the printable letters of ASCII.
fn application_name(resource: &str, fence: Fence) -> String {
    const BYTES_MAX: usize = 63;
    let token = format!(" #{fence}");
    let shown = resource.chars().map(|letter| if matches!(letter, ' '..='~') { letter } else { '?' });
    let mut name: String = shown.take(BYTES_MAX - token.len()).collect();
    name.push_str(&token);
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_shows_its_resource_and_its_token_however_long_the_key() {
        assert_eq!(application_name("event-rows/main/3", Fence::new(7)), "event-rows/main/3 #7");
        let long = application_name(&"ä\0".repeat(100), Fence::new(u64::MAX));
        assert!(long.len() == 63 && long.starts_with("????") && long.ends_with(" #18446744073709551615"), "{long}");
    }
}
