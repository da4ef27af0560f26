//! The clock goes on, whatever openraft waits for: in virtual time it does so only when everybody waits for a timer.

use std::sync::Arc;
use std::sync::mpsc;

use mainstay_core::time::{self, Duration};
use mainstay_core::{Level, NodeId, ReplicaId, SetId, random};
use mainstay_store::log::MemoryLog;
use mainstay_store::state::MemoryStore;
use openraft::{AsyncRuntime as _, Instant as _};
use openraft_rt_tokio::TokioInstant;

use crate::in_process::InProcessNetwork;
use crate::options::ReplicaOptions;
use crate::replica::{Identity, Replica};
use crate::runtime::ReplicaRuntime;
use crate::tests::CLUSTER;

/// Far more than the body takes, for a test that would otherwise never end.
const REAL_TIME_MAX: Duration = Duration::from_secs(60);

#[tokio::test(start_paused = true)]
async fn whoever_asks_until_its_time_has_come_gets_there() {
    for nanos in [1, 500, 1_000, 1_001, 400_000, 499_999, 500_000, 999_999] {
        let deadline = TokioInstant::now() + Duration::from_nanos(nanos);
        let mut asked = 0;
        while TokioInstant::now() < deadline {
            ReplicaRuntime::sleep_until(deadline).await;
            asked += 1;
            assert!(asked < 10_000, "the clock stands still {nanos} ns before the time");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_moment_is_not_made_a_thousand_times_as_long() {
    let before = time::now();
    for _ in 0..500 {
        ReplicaRuntime::sleep_until(TokioInstant::now() + Duration::from_micros(1)).await;
    }
    assert_eq!(time::now(), before);
}

/// Switches the ticks of a replica off and on at every millisecond of their period.
async fn switch_ticks(seed: u64) {
    random::seed_thread(seed);
    let identity = Identity {
        cluster: CLUSTER,
        set: SetId { level: Level::Volatile, number: 0 },
        replica: ReplicaId(1),
        node: NodeId(1),
        data_loss: 0,
    };
    let mut options = ReplicaOptions::default();
    // Openraft ticks every 13 ms then.
    options.timing.heartbeat = Duration::from_millis(64);
    let transport = InProcessNetwork::new().endpoint(NodeId(1));
    let (log, store) = (Arc::new(MemoryLog::new()), Arc::new(MemoryStore::new()));
    let replica = Replica::start(identity, options, log, store, transport).await.unwrap();
    for _ in 0..13 {
        replica.inner.raft.runtime_config().tick(false);
        // Longer than a tick. Off and on take 201 ms, which has nothing in common with 13: each time it is another moment.
        time::sleep(Duration::from_millis(101)).await;
        replica.inner.raft.runtime_config().tick(true);
        time::sleep(Duration::from_millis(100)).await;
    }
    replica.stop().await;
}

#[test]
fn ticks_that_are_switched_on_just_before_they_are_due_let_the_clock_go_on() {
    let (done, is_done) = mpsc::sync_channel(1);
    let switching = std::thread::Builder::new().name("switching ticks".to_owned()).spawn(move || {
        // Where within a millisecond the ticks are due depends on the seed.
        for seed in 0..8 {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
            runtime.unwrap().block_on(switch_ticks(seed));
        }
        done.send(()).unwrap();
    });
    is_done.recv_timeout(REAL_TIME_MAX).expect("the clock stands still, or the thread has panicked");
    switching.unwrap().join().unwrap();
}
