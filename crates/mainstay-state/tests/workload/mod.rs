//! Random transactions on few keys of two dictionaries, on random schedules, with a record of what each saw and did.
#![allow(dead_code, unreachable_pub, unused_imports, reason = "not every test uses all of it")]

mod history;
mod schedule;
mod session;

use std::future::Future;
use std::pin::Pin;

use mainstay_core::{Level, random, task};
use mainstay_state::{Dictionary, StateManager};
use rand::SeedableRng as _;
use rand::rngs::StdRng;

pub use history::{Event, Place, Recorded, Seen, check};
use session::Session;

use crate::support::TestNode;

const SESSIONS: u64 = 6;
const TRANSACTIONS: u32 = 6;
pub const KEYS: u8 = 3;
/// How many commits of a run nobody waits for: the checker tries every place for them.
const UNKNOWN_MAX: u32 = 2;

pub type Dictionaries = [Dictionary<u8, u64>; 2];

/// The seeds that a test runs: those asked for, or the one that `MAINSTAY_SEED` names.
pub fn seeds(count: u64) -> Vec<u64> {
    match std::env::var("MAINSTAY_SEED") {
        Ok(seed) => vec![seed.parse().unwrap()],
        Err(_) => (1..=count).collect(),
    }
}

async fn dictionaries(state: &StateManager) -> Dictionaries {
    [state.collection("left").await.unwrap(), state.collection("right").await.unwrap()]
}

/// One run on one thread. The same seed gives the same run, where nothing waits for a disk.
pub fn run(seed: u64, level: Level) -> Vec<Recorded> {
    random::seed_thread(seed);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let node = TestNode::start_small().await;
        let state = node.state(level).await;
        let dictionaries = dictionaries(&state).await;
        let record = session::Record::new(UNKNOWN_MAX);
        let new = |number| {
            let random = StdRng::seed_from_u64(seed.wrapping_mul(1000) + number);
            Session::new(number, random, &state, &dictionaries, &record)
        };
        let sessions: Vec<Session> = (0..SESSIONS).map(new).collect();
        let futures = sessions.into_iter().map(|session| {
            let future: Pin<Box<dyn Future<Output = ()>>> = Box::pin(session.run(TRANSACTIONS));
            future
        });
        schedule::drive(futures.collect(), &mut StdRng::seed_from_u64(seed)).await;
        session::read_all(&state, &dictionaries, &record).await;
        node.replicas.stop().await;
        record.into_history()
    })
}

/// One run on several threads, which no seed replays.
pub async fn run_on_threads(seed: u64, level: Level, transactions: u32) -> Vec<Recorded> {
    let node = TestNode::start_small().await;
    let state = node.state(level).await;
    let dictionaries = dictionaries(&state).await;
    let record = session::Record::new(UNKNOWN_MAX);
    let tasks: Vec<_> = (0..SESSIONS)
        .map(|number| {
            let random = StdRng::seed_from_u64(seed.wrapping_mul(1000) + number);
            task::spawn(Session::new(number, random, &state, &dictionaries, &record).run(transactions))
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    session::read_all(&state, &dictionaries, &record).await;
    node.replicas.stop().await;
    record.into_history()
}
