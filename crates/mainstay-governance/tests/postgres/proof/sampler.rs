//! Looks at the database's list of sessions, over and over.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio_postgres::Client;

use crate::server::{connect, connect_in_the_end};
use crate::shared::TIME_MAX;

/// The pause between two looks, which leaves the server time for the others.
const PERIOD: Duration = Duration::from_millis(2);

/// An administrator who counts the sessions of a user, and fails if there are ever more than allowed.
pub(super) struct Sampler {
    connection_string: String,
    user: &'static str,
    shared: Arc<Shared>,
    seen: watch::Receiver<i64>,
}

#[derive(Default)]
struct Shared {
    cap: AtomicI64,
    stop: Notify,
}

impl Sampler {
    /// Starts to look. The task ends with how often it has looked when it is stopped, and with a panic when it has seen too
    /// many.
    pub(super) fn start(connection_string: String, user: &'static str) -> (Self, JoinHandle<u64>) {
        let shared = Arc::new(Shared::default());
        let (told, seen) = watch::channel(0);
        let task = tokio::spawn(sample(connection_string.clone(), user, shared.clone(), told));
        (Self { connection_string, user, shared, seen }, task)
    }

    /// Runs a statement.
    pub(super) async fn administer(&self, statement: &str) {
        let admin = connect_in_the_end(&self.connection_string).await;
        admin.batch_execute(statement).await.unwrap();
    }

    /// Allows so many sessions from now on, and has the database allow no more.
    pub(super) async fn set_cap(&self, cap: i64) {
        self.administer(&format!("ALTER ROLE {} CONNECTION LIMIT {cap}", self.user)).await;
        self.shared.cap.store(cap, Ordering::SeqCst);
    }

    /// Returns when a look has found so many sessions.
    pub(super) async fn until_seen(&self, sessions: i64) {
        let mut seen = self.seen.clone();
        let found = tokio::time::timeout(TIME_MAX, seen.wait_for(|seen| *seen == sessions)).await;
        assert!(found.expect("so many sessions were never seen").is_ok(), "the sampler has ended");
    }

    /// Returns when so many sessions wait for a lock.
    pub(super) async fn until_waiting(&self, sessions: i64) {
        let admin = connect_in_the_end(&self.connection_string).await;
        let query = "SELECT count(*) FROM pg_stat_activity WHERE usename = $1 AND wait_event_type = 'Lock'";
        let waiting = async {
            while admin.query_one(query, &[&self.user]).await.unwrap().get::<_, i64>(0) != sessions {
                tokio::time::sleep(super::PAUSE).await;
            }
        };
        tokio::time::timeout(TIME_MAX, waiting).await.expect("so many sessions have never waited for a lock");
    }

    /// The sessions that there are.
    pub(super) async fn sessions(&self) -> BTreeSet<i32> {
        let admin = connect_in_the_end(&self.connection_string).await;
        let query = "SELECT pid FROM pg_stat_activity WHERE usename = $1";
        let rows = admin.query(query, &[&self.user]).await.unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    }

    /// Returns when these sessions are gone and as many others are there.
    pub(super) async fn until_replaced(&self, before: &BTreeSet<i32>) {
        let replaced = async {
            loop {
                let sessions = self.sessions().await;
                if sessions.len() == before.len() && sessions.is_disjoint(before) {
                    return;
                }
                tokio::time::sleep(super::PAUSE).await;
            }
        };
        tokio::time::timeout(TIME_MAX, replaced).await.expect("the sessions were never replaced");
    }

    pub(super) fn stop(&self) {
        self.shared.stop.notify_one();
    }
}

async fn sample(connection_string: String, user: &'static str, shared: Arc<Shared>, seen: watch::Sender<i64>) -> u64 {
    let query = format!("SELECT count(*) FROM pg_stat_activity WHERE usename = '{user}'");
    let mut samples = 0;
    let mut admin: Option<Client> = None;
    let mut period = tokio::time::interval(PERIOD);
    loop {
        tokio::select! {
            _ = period.tick() => {}
            () = shared.stop.notified() => return samples,
        }
        // While the server is being restarted there is nothing to see.
        let Some(client) = &admin else {
            admin = connect(&connection_string).await.ok();
            continue;
        };
        let before = shared.cap.load(Ordering::SeqCst);
        let Ok(row) = client.query_one(&query, &[]).await else {
            admin = None;
            continue;
        };
        // What is allowed may have changed between the look and the answer.
        let cap = before.max(shared.cap.load(Ordering::SeqCst));
        let sessions: i64 = row.get(0);
        assert!(sessions <= cap, "{sessions} sessions where {cap} are allowed");
        samples += 1;
        seen.send_replace(sessions);
    }
}
