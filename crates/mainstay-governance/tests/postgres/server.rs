//! The server that tests start.

use std::path::Path;
use std::process::{Command, Stdio};

use mainstay::ErrorKind;
use mainstay_governance::testkit::{PostgresOptions, PostgresServer, Stop};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, NoTls};

use crate::shared::TIME_MAX;

/// Tells the test binary, started once more, that it is the one that dies with its server.
const DYING_VARIABLE: &str = "MAINSTAY_POSTGRES_TEST_DYING";
const SERVER_AT: &str = "server at ";

/// A client whose connection is driven until it ends.
pub(crate) async fn connect(connection_string: &str) -> Result<Client, tokio_postgres::Error> {
    let (client, connection) = tokio_postgres::connect(connection_string, NoTls).await?;
    tokio::spawn(async move {
        // What ends a session is told to its client.
        let _ = connection.await;
    });
    Ok(client)
}

/// A client of the administrator, once the database has a place for it: sessions that have ended take a moment to go.
pub(crate) async fn connect_in_the_end(connection_string: &str) -> Client {
    let connected = async {
        loop {
            match connect(connection_string).await {
                Ok(client) => return client,
                Err(error) if error.code() == Some(&SqlState::TOO_MANY_CONNECTIONS) => tokio::task::yield_now().await,
                Err(error) => panic!("the administrator cannot connect: {error:?}"),
            }
        }
    };
    tokio::time::timeout(TIME_MAX, connected).await.expect("the database never has a place for the administrator")
}

async fn count(server: &PostgresServer) -> i64 {
    let client = connect(&server.connection_string()).await.unwrap();
    client.query_one("SELECT count(*) FROM kept", &[]).await.unwrap().get(0)
}

/// The folder of its socket.
fn folder(connection_string: &str) -> &Path {
    let host = connection_string.split(' ').find_map(|word| word.strip_prefix("host="));
    Path::new(host.unwrap())
}

#[tokio::test]
async fn what_is_committed_survives_every_way_to_stop_and_nothing_is_left_when_dropped() {
    let mut server = PostgresServer::start(PostgresOptions::default()).unwrap();
    let client = connect(&server.connection_string()).await.unwrap();
    client.batch_execute("CREATE TABLE kept (n int)").await.unwrap();
    for (so_far, how) in (0..).zip([Stop::Fast, Stop::Immediate, Stop::Kill]) {
        assert_eq!(count(&server).await, so_far);
        let client = connect(&server.connection_string()).await.unwrap();
        client.execute("INSERT INTO kept VALUES (1)", &[]).await.unwrap();
        server.stop(how);
        // Sessions of a server that was killed notice that on their own, and one may answer a last time.
        while client.execute("SELECT 1", &[]).await.is_ok() {}
        assert!(connect(&server.connection_string()).await.is_err(), "{how:?} lets nobody in");
        server.resume().unwrap();
    }
    assert_eq!(count(&server).await, 3);
    let socket = folder(&server.connection_string()).to_owned();
    assert!(socket.exists());
    drop(server);
    assert!(!socket.exists());
}

#[test]
fn a_server_that_cannot_start_says_why() {
    let options = PostgresOptions::default().with_setting("no_such_setting", "1");
    let error = PostgresServer::start(options).unwrap_err();
    assert!(error.to_string().contains("no_such_setting"), "{error}");
    let error = PostgresServer::start(PostgresOptions::default().with_max_connections(3)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

#[test]
fn the_process_that_dies_with_its_server() {
    if std::env::var_os(DYING_VARIABLE).is_none() {
        return;
    }
    let server = PostgresServer::start(PostgresOptions::default()).unwrap();
    println!("\n{SERVER_AT}{}", server.connection_string());
    std::process::abort();
}

#[test]
fn a_server_does_not_outlive_a_process_that_dies() {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "server::the_process_that_dies_with_its_server", "--nocapture"])
        .env(DYING_VARIABLE, "1")
        .stderr(Stdio::null())
        .output()
        .unwrap();
    assert!(!child.status.success(), "it was to die");
    let printed = String::from_utf8(child.stdout).unwrap();
    let connection_string = printed.lines().find_map(|line| line.strip_prefix(SERVER_AT)).unwrap();
    let socket = folder(connection_string);
    // The folder of the socket is the last that goes; the test harness ends a test that never ends.
    while socket.exists() {
        std::thread::yield_now();
    }
}
