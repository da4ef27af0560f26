//! Leases of connections: what one holder leaves in a session is not found by the next.

use mainstay::node::Node;
use mainstay::{Error, ErrorKind, Result};
use mainstay_governance::owner::{Fence, Opening, Reset, Resource};
use mainstay_governance::pool::{Coordination, PoolSettings, ResourcePool};
use mainstay_governance::sink::postgres::{PostgresTable, Row, Values};
use serde::{Deserialize, Serialize};
use tokio_postgres::Client;

use crate::server::connect;
use crate::shared::Database;

/// Connections that run any statements.
struct Connections {
    at: String,
}

fn refused(error: tokio_postgres::Error) -> Error {
    Error::new(ErrorKind::Retry, "the server says no").with_source(error)
}

impl Resource for Connections {
    const NAME: &'static str = "connections";
    type Handle = Client;
    type Job = String;
    type Reply = ();

    async fn open(&self, _: &Opening) -> Result<Client> {
        connect(&self.at).await.map_err(refused)
    }

    async fn run(&self, client: &mut Client, statements: String) -> Result<()> {
        client.batch_execute(&statements).await.map_err(refused)
    }

    fn pool_settings(&self) -> PoolSettings {
        PoolSettings { initial_size: 1, coordination: Coordination::Server, ..PoolSettings::default() }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acknowledged_row_is_not_within_the_transaction_of_the_holder_before() {
    let database = Database::new("handed").await;
    database.run("CREATE TABLE taken (name text)").await;
    let folder = tempfile::tempdir().unwrap();
    let connections = Connections { at: database.app.clone() };
    let node = ResourcePool::serve(Node::builder().data_dir(folder.path()), connections).start().await.unwrap();
    let pool = ResourcePool::<Connections>::open(&node, "main").await.unwrap();

    let first = pool.lease().await.unwrap();
    first.run("BEGIN".into()).await.unwrap();
    first.run("INSERT INTO taken VALUES ('a')".into()).await.unwrap();
    drop(first);
    let second = pool.lease().await.unwrap();
    second.run("INSERT INTO taken VALUES ('b')".into()).await.unwrap();
    drop(second);
    assert_eq!(database.count("SELECT count(*) FROM taken WHERE name = 'b'").await, 1);
    pool.run("ROLLBACK".into()).await.unwrap();
    assert_eq!(database.count("SELECT count(*) FROM taken").await, 1, "what the first began was never committed");
    node.stop().await;
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Marked {
    id: i64,
}

impl Row for Marked {
    const SERVICE: &'static str = "marked";
    const COLUMNS: &'static [&'static str] = &["id"];

    fn put(&self, values: &mut Values<'_>) {
        values.push(&self.id);
    }
}

/// A trigger that leaves in the session whatever one can.
const LEAVING: &str = "CREATE TABLE marked (id bigint PRIMARY KEY, number serial);
    CREATE FUNCTION leave() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF current_setting('left.here', true) = 'yes' THEN RAISE EXCEPTION 'a setting was left'; END IF;
        PERFORM set_config('left.here', 'yes', false);
        PERFORM pg_advisory_lock(7);
        CREATE TEMPORARY TABLE left_here (id int);
        LISTEN left_here;
        RETURN NULL;
    END $$;
    CREATE TRIGGER leaving AFTER INSERT ON marked EXECUTE FUNCTION leave()";

#[tokio::test]
async fn a_session_that_was_reset_is_as_it_was_opened_and_can_be_written_on() {
    let database = Database::new("resetting").await;
    database.run(LEAVING).await;
    let plain = PostgresTable::<Marked>::new(&database.app, "marked").unwrap();
    let keyed = PostgresTable::<Marked>::new(&database.app, "marked").unwrap().once_by(&["id"]).unwrap();
    let locks = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'";
    let held = "SELECT count(*) FROM pg_stat_activity WHERE usename = current_user AND state <> 'idle' AND \
                application_name <> ''";
    for (fence, table) in [(1, &plain), (2, &keyed)] {
        let opening = Opening::of_member("main", 0, Fence::new(fence));
        let mut session = table.open(&opening).await.unwrap();
        // Opening has tried a batch of nothing, for which the trigger is called as well.
        for id in 0..3 {
            assert_eq!(table.reset(&mut session).await.unwrap(), Reset::Clean);
            assert_eq!((database.count(locks).await, database.count(held).await), (0, 0));
            table.run(&mut session, vec![Marked { id: id + 10 * fence as i64 }]).await.unwrap();
            assert!(database.count(locks).await > 0, "the trigger has left something");
        }
        let left = table.run(&mut session, vec![Marked { id: -1 }]).await.unwrap_err();
        assert!(format!("{left:?}").contains("a setting was left"), "{left:?}");
        table.close(session).await;
    }
    assert_eq!(database.count("SELECT count(*) FROM marked").await, 6);
}
