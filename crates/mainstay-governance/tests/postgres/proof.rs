//! The proof with a real database: 2,000 callers and a server that takes few connections.

mod callers;
mod node;
mod sampler;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mainstay_governance::testkit::{PostgresOptions, PostgresServer, Stop};
use tokio::sync::{Barrier, Semaphore};
use tokio::task::JoinSet;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use crate::server::{connect, connect_in_the_end};
use callers::{Callers, EVENTS_EACH};
use sampler::Sampler;

/// How many callers want to write at the same time.
const CALLERS: u32 = 2_000;

/// What the database takes: 8 of the pool at its largest, 3 of the test that looks on, and 3 that only an administrator gets.
const MAX_CONNECTIONS: u32 = 14;

/// How many connections are asked for in the same moment: more than the queue of the socket holds would not reach the
/// database at all.
const ASKING_AT_ONCE: usize = 16;

/// So long everything may take before it counts as stuck.
const TIME_MAX: Duration = Duration::from_secs(900);

/// How long to wait before looking again at what cannot be waited for.
const PAUSE: Duration = Duration::from_millis(10);

/// Who writes without governance, and who writes with it.
const UNGOVERNED: &str = "ungoverned";
const GOVERNED: &str = "governed";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_thousand_callers_write_through_five_connections_whatever_happens() {
    let options = PostgresOptions::default().with_max_connections(MAX_CONNECTIONS);
    let mut server = PostgresServer::start(options).unwrap();
    let admin = connect(&server.connection_string()).await.unwrap();
    let roles =
        format!("CREATE ROLE {UNGOVERNED} LOGIN; CREATE ROLE {GOVERNED} LOGIN; GRANT ALL ON SCHEMA public TO PUBLIC");
    admin.batch_execute(&roles).await.unwrap();
    drop(admin);

    everybody_with_a_connection_of_its_own(&server).await;
    let governed = everybody_through_a_pool(&mut server);
    tokio::time::timeout(TIME_MAX, governed).await.expect("it is stuck");
}

/// The problem: whoever comes after the first few is turned away.
async fn everybody_with_a_connection_of_its_own(server: &PostgresServer) {
    let connection_string = server.connection_string_of(UNGOVERNED);
    let asking = Arc::new(Semaphore::new(ASKING_AT_ONCE));
    // Everybody is there at the same time: who has a connection keeps it until all have asked for one.
    let all_have_asked = Arc::new(Barrier::new(CALLERS as usize));
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        let (connection_string, asking, all_have_asked) =
            (connection_string.clone(), asking.clone(), all_have_asked.clone());
        callers.spawn(async move {
            let turn = asking.acquire().await.unwrap();
            let asked = connect(&connection_string).await;
            drop(turn);
            all_have_asked.wait().await;
            asked.map(drop)
        });
    }
    let failures: Vec<_> = callers.join_all().await.into_iter().filter_map(Result::err).collect();
    let places = server.connections_for_users();
    assert!(failures.len() >= (CALLERS - places) as usize, "{} of {CALLERS} failed", failures.len());
    for failure in &failures {
        assert_eq!(failure.code(), Some(&SqlState::TOO_MANY_CONNECTIONS), "{failure:?}");
    }
    let texts = failures.iter().filter_map(|failure| Some(failure.as_db_error()?.message()));
    assert!(texts.into_iter().any(|text| text.contains("too many clients")));
}

/// The same callers behind a batch executor and a pool.
async fn everybody_through_a_pool(server: &mut PostgresServer) {
    let (sampler, mut samples) = Sampler::start(server.connection_string(), GOVERNED);
    tokio::select! {
        () = go_through_everything(server, &sampler) => {}
        ended = &mut samples => panic!("there were too many sessions: {ended:?}"),
    }
    sampler.stop();
    println!("{} samples, and never more sessions than the pool had members", samples.await.unwrap());
    check_rows(server).await;
}

/// All that may happen to a pool under load.
async fn go_through_everything(server: &mut PostgresServer, sampler: &Sampler) {
    let folder = tempfile::tempdir().unwrap();
    sampler.administer("CREATE TABLE events (id bigint PRIMARY KEY, caller int NOT NULL, number int NOT NULL)").await;
    sampler.administer(&format!("GRANT ALL ON events TO {GOVERNED}")).await;
    // A server that does not look whether its clients are still there.
    sampler.administer(&format!("ALTER ROLE {GOVERNED} SET client_connection_check_interval = 0")).await;
    // The second line: what the database lets in even while sessions of a process that was killed are still there.
    sampler.set_cap(5).await;
    let mut callers = Callers::new(CALLERS);

    let start = |server: &PostgresServer, callers: &Callers| {
        let connection_string = server.connection_string_of(GOVERNED);
        callers.start(folder.path(), &connection_string)
    };
    let mut node = start(server, &callers);
    callers.until_acknowledged(&mut node, 0.10).await;
    sampler.until_seen(5).await;

    restart(server, Stop::Fast);
    callers.until_acknowledged(&mut node, 0.25).await;

    sampler.set_cap(8).await;
    node.resize(&mut callers, 8).await;
    callers.until_acknowledged(&mut node, 0.40).await;
    sampler.until_seen(8).await;
    assert_eq!(refusals(server), 0, "as long as nobody was killed, governance alone has kept the cap");

    // The process is killed while the database is busy with a batch of each member, and so does not notice for a while. The
    // next one comes to a database that is full of its sessions.
    let lock = lock_events(server).await;
    sampler.until_waiting(8).await;
    let killed = sampler.sessions().await;
    callers.kill(node).await;
    node = start(server, &callers);
    while refusals(server) == 0 {
        tokio::time::sleep(PAUSE).await;
    }
    drop(lock);
    // Behind the batches of before, and ahead of everything that comes: from here on the cap is in the hands of governance
    // alone again.
    let lock = lock_events(server).await;
    sampler.until_replaced(&killed).await;
    let before = refusals(server);
    drop(lock);
    callers.until_acknowledged(&mut node, 0.55).await;
    node.resize(&mut callers, 3).await;
    sampler.set_cap(3).await;
    callers.until_acknowledged(&mut node, 0.70).await;

    restart(server, Stop::Immediate);
    callers.until_acknowledged(&mut node, 0.80).await;
    assert_eq!(refusals(server), before, "governance alone has kept the cap");
    // So that it cannot end before it is killed.
    let lock = lock_events(server).await;
    callers.kill(node).await;
    node = start(server, &callers);
    drop(lock);
    callers.until_acknowledged(&mut node, 1.0).await;
    node.end().await;
    sampler.until_seen(0).await;
}

/// How often the database had to keep somebody out whom governance has let through. That is to be never, except after a kill:
/// the sessions of a process that is gone count at the database until it notices, and governance cannot know of them.
fn refusals(server: &PostgresServer) -> usize {
    server.log().matches(&format!("too many connections for role \"{GOVERNED}\"")).count()
}

/// Lets no batch be written until what it returns is dropped.
async fn lock_events(server: &PostgresServer) -> Client {
    let admin = connect_in_the_end(&server.connection_string()).await;
    admin.batch_execute("BEGIN; LOCK TABLE events IN ACCESS EXCLUSIVE MODE").await.unwrap();
    admin
}

/// Restarts the server while the load goes on.
fn restart(server: &mut PostgresServer, how: Stop) {
    tokio::task::block_in_place(|| server.restart(how)).unwrap();
}

/// Every event that was acknowledged is there, once, and nothing else.
async fn check_rows(server: &PostgresServer) {
    let admin = connect_in_the_end(&server.connection_string()).await;
    let query = "SELECT caller, number, count(*) FROM events GROUP BY caller, number ORDER BY caller, number";
    let rows = admin.query(query, &[]).await.unwrap();
    let found = rows.iter().map(|row| (row.get::<_, i32>(0), row.get::<_, i32>(1), row.get::<_, i64>(2)));
    let callers = 0..i32::try_from(CALLERS).unwrap();
    let numbers = || 0..i32::try_from(EVENTS_EACH).unwrap();
    let expected = callers.flat_map(|caller| numbers().map(move |number| (caller, number, 1)));
    assert!(found.eq(expected), "every event is there once, of {} rows", rows.len());
}

/// Where the acknowledged events of all callers are written down for the next start of the node.
fn acknowledged_file(folder: &Path) -> std::path::PathBuf {
    folder.join("acknowledged")
}
