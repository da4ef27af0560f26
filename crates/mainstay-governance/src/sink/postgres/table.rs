use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use mainstay::{Error, Result};
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::{Config, NoTls, Socket};

use super::dial::{By, Dial};
use super::door::Door;
use super::failure::ends_session;
use super::link::SessionOwner;
use super::statements::{Names, list, quoted};
use super::{PostgresSession, Row};
use crate::owner::{Opening, OwnerSettings, Reset, Resource};
use crate::pool::PoolSettings;

/// Where the fencing tokens of all openings are kept unless told otherwise.
const FENCES: &str = "mainstay_fences";

/// A table of PostgreSQL that batches of rows are added to: see the [module](super).
pub struct PostgresTable<R> {
    config: Config,
    dial: Arc<dyn Dial>,
    door: Arc<Door>,
    names: Names,
    owner: OwnerSettings,
    pool: PoolSettings,
    row: PhantomData<fn(R)>,
}

impl<R: Row> PostgresTable<R> {
    /// A table by its name, and how to connect to its database: `host=db.example.org user=app dbname=app`, or a URL.
    ///
    /// # Errors
    /// `Invalid` if the text or a name makes no sense.
    pub fn new(connection: &str, table: &str) -> Result<Self> {
        let config = connection.parse().map_err(|cause| {
            Error::invalid("the text says not how to connect: use `host=… user=… dbname=…`").with_source(cause)
        })?;
        Self::with_config(config, table)
    }

    /// A table by its name, and how to connect to its database. The name of the application is set by each opening.
    ///
    /// # Errors
    /// `Invalid` if a name makes no sense.
    pub fn with_config(config: Config, table: &str) -> Result<Self> {
        if R::COLUMNS.is_empty() {
            return Err(Error::invalid(format!("rows of {} have no columns: name those that are written", R::SERVICE)));
        }
        let names = Names { table: quoted(table)?, columns: list(R::COLUMNS)?, key: None, fences: quoted(FENCES)? };
        let (owner, pool) = (OwnerSettings::default(), PoolSettings::default());
        let (dial, door) = (Arc::new(By(NoTls)), Arc::default());
        Ok(Self { config, dial, door, names, owner, pool, row: PhantomData })
    }

    /// The same in a schema that is not on the search path.
    ///
    /// # Errors
    /// `Invalid` if it is no name.
    pub fn in_schema(mut self, schema: &str) -> Result<Self> {
        self.names.table = format!("{}.{}", quoted(schema)?, self.names.table);
        Ok(self)
    }

    /// Rows are known by a key: of two with the same, the first is kept. So a batch whose outcome is unknown is written again
    /// without doubling a row. There must be a unique index over exactly these columns.
    ///
    /// # Errors
    /// `Invalid` if they are no columns of the rows.
    pub fn once_by(mut self, key: &[&str]) -> Result<Self> {
        if key.is_empty() || key.iter().any(|name| !R::COLUMNS.contains(name)) {
            return Err(Error::invalid(format!("{key:?} is no key of rows with {:?}", R::COLUMNS)));
        }
        self.names.key = Some(list(key)?);
        Ok(self)
    }

    /// Keeps the fencing tokens in another table than `mainstay_fences`. It is made if it does not exist; who has no right
    /// to make it finds the columns in the [module](super).
    ///
    /// # Errors
    /// `Invalid` if it is no name.
    pub fn fenced_by(mut self, table: &str) -> Result<Self> {
        self.names.fences = quoted(table)?;
        Ok(self)
    }

    /// Connects with encryption.
    #[must_use]
    pub fn with_tls<T>(mut self, tls: T) -> Self
    where
        T: MakeTlsConnect<Socket> + Clone + Send + Sync + 'static,
        T::Stream: Send,
        T::TlsConnect: Send,
        <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
    {
        self.dial = Arc::new(By(tls));
        self
    }

    /// How its owners behave.
    #[must_use]
    pub fn with_owner_settings(mut self, settings: OwnerSettings) -> Self {
        self.owner = settings;
        self
    }

    /// How pools of it behave.
    #[must_use]
    pub fn with_pool_settings(mut self, settings: PoolSettings) -> Self {
        self.pool = settings;
        self
    }
}

impl<R> fmt::Debug for PostgresTable<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the configuration, which may have a password.
        f.debug_struct("PostgresTable").field("names", &self.names).finish_non_exhaustive()
    }
}

impl<R: Row> Resource for PostgresTable<R> {
    const NAME: &'static str = R::SERVICE;
    type Handle = PostgresSession;
    type Job = Vec<R>;
    type Reply = Vec<()>;

    async fn open(&self, opening: &Opening) -> Result<PostgresSession> {
        // What is left of the one before would be one too many.
        self.gone(opening).await;
        let place = SessionOwner { door: self.door.clone(), key: opening.key.clone() };
        PostgresSession::open::<R>(&self.dial, self.config.clone(), &self.names, opening, place).await
    }

    async fn run(&self, session: &mut PostgresSession, rows: Vec<R>) -> Result<Vec<()>> {
        session.write(&rows).await?;
        Ok(vec![(); rows.len()])
    }

    async fn check(&self, session: &mut PostgresSession) -> Result<()> {
        session.check().await
    }

    async fn reset(&self, session: &mut PostgresSession) -> Result<Reset> {
        session.reset().await.map(|()| Reset::Clean)
    }

    async fn close(&self, session: PostgresSession) {
        session.close().await;
    }

    async fn gone(&self, opening: &Opening) {
        self.door.clear(&opening.key).await;
    }

    fn breaks(&self, error: &Error) -> bool {
        ends_session(error)
    }

    fn owner_settings(&self) -> OwnerSettings {
        self.owner
    }

    fn pool_settings(&self) -> PoolSettings {
        self.pool
    }
}
