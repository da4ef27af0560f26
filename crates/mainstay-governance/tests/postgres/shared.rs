//! One server for the tests that only need some.

use std::sync::OnceLock;
use std::time::Duration;

use mainstay_governance::testkit::{PostgresOptions, PostgresServer};
use tokio_postgres::Client;

use crate::server::connect;

/// Started by whoever is first. Nobody drops it: it goes when the process ends.
static SERVER: OnceLock<PostgresServer> = OnceLock::new();

/// So long something may take to be seen in the database before it counts as never.
pub(crate) const TIME_MAX: Duration = Duration::from_secs(60);

/// A database of a test's own on the server that all share.
pub(crate) struct Database {
    /// How the tables under test are reached: under a name of their own.
    pub(crate) app: String,
    /// Somebody who may look at and do everything.
    pub(crate) admin: Client,
    admin_at: String,
}

impl Database {
    /// Makes one by the name of a test.
    pub(crate) async fn new(name: &str) -> Self {
        let start = || PostgresServer::start(PostgresOptions::default().with_max_connections(50)).unwrap();
        let server = SERVER.get_or_init(start);
        let everywhere = connect(&server.connection_string()).await.unwrap();
        everywhere.batch_execute(&format!("CREATE ROLE {name} LOGIN")).await.unwrap();
        everywhere.batch_execute(&format!("CREATE DATABASE {name} OWNER {name} TEMPLATE template0")).await.unwrap();
        let admin_at = format!("{} dbname={name}", server.connection_string());
        let admin = connect(&admin_at).await.unwrap();
        admin.batch_execute(&format!("GRANT ALL ON SCHEMA public TO {name}")).await.unwrap();
        let app = format!("{} dbname={name}", server.connection_string_of(name));
        admin.batch_execute(&format!("SET ROLE {name}")).await.unwrap();
        Self { app, admin, admin_at }
    }

    /// Another session of somebody who may do everything, and is not counted with the tables under test.
    pub(crate) async fn another(&self) -> Client {
        connect(&self.admin_at).await.unwrap()
    }

    /// Lets nobody use a table until what it returns is dropped. Of somebody else than `admin`, because a transaction sees the
    /// list of sessions as it was.
    pub(crate) async fn lock(&self, table: &str) -> Client {
        let admin = self.another().await;
        let lock = format!("BEGIN; LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE");
        admin.batch_execute(&lock).await.unwrap();
        admin
    }

    /// Returns when somebody waits for a table.
    pub(crate) async fn until_waiting(&self, table: &str) {
        self.until_any(&format!("SELECT count(*) FROM pg_locks WHERE relation = '{table}'::regclass AND NOT granted"))
            .await;
    }

    /// Returns when a query counts any.
    pub(crate) async fn until_any(&self, count: &str) {
        let found = async {
            while self.count(count).await == 0 {
                tokio::task::yield_now().await;
            }
        };
        let found = tokio::time::timeout(TIME_MAX, found).await;
        assert!(found.is_ok(), "there never was any: {count}");
    }

    /// Has the database take no more than so many sessions of the tables under test.
    pub(crate) async fn set_limit(&self, sessions: u32) {
        let role: String = self.admin.query_one("SELECT current_user::text", &[]).await.unwrap().get(0);
        let limit = format!("RESET ROLE; ALTER ROLE {role} CONNECTION LIMIT {sessions}; SET ROLE {role}");
        self.run(&limit).await;
    }

    /// Runs statements.
    pub(crate) async fn run(&self, statements: &str) {
        self.admin.batch_execute(statements).await.unwrap();
    }

    /// One number.
    pub(crate) async fn count(&self, query: &str) -> i64 {
        self.admin.query_one(query, &[]).await.unwrap().get(0)
    }

    /// How many sessions the tables under test have.
    pub(crate) async fn sessions(&self) -> i64 {
        self.count("SELECT count(*) FROM pg_stat_activity WHERE usename = current_user AND application_name <> ''")
            .await
    }

    /// Returns when the tables under test have so many sessions.
    pub(crate) async fn until_sessions(&self, expected: i64) {
        let reached = async {
            while self.sessions().await != expected {
                tokio::task::yield_now().await;
            }
        };
        let reached = tokio::time::timeout(TIME_MAX, reached).await;
        assert!(reached.is_ok(), "{} sessions, where {expected} were to be", self.sessions().await);
    }
}
