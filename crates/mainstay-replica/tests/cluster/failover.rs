//! How long nobody is primary after the primary was killed, by seed.

use mainstay_core::time::{self, Duration};
use mainstay_core::{ErrorKind, NodeId, random};
use mainstay_replica::{ReplicaOptions, Role, Timing, Troubles};
use rand::RngExt as _;

use crate::harness::{Cluster, partition, put};

const SEEDS: u64 = 60;

/// Kills the primary at a random moment, and returns how long it took until the next write was acknowledged.
async fn fail_over(seed: u64, timing: Timing) -> Duration {
    random::seed_thread(seed);
    let mut cluster = Cluster::founded(3, ReplicaOptions { timing, ..ReplicaOptions::default() }).await;
    let (delay_min, delay_max) = (Duration::from_micros(200), Duration::from_millis(5));
    cluster.network.set_troubles(Troubles { delay_min, delay_max, ..Troubles::default() });
    let primary = cluster.primary().await;
    put(&partition(&primary), "a", "1").await.unwrap();
    // Anywhere between two heartbeats, under load or not.
    time::sleep(timing.heartbeat * 4 + random::rng().random_range(Duration::ZERO..=timing.heartbeat)).await;
    if seed.is_multiple_of(2) {
        put(&partition(&primary), "a", "2").await.unwrap();
    }
    let killed: NodeId = primary.status().identity.node;
    cluster.kill(killed);
    let begun = time::now();
    loop {
        for member in cluster.members.values().filter(|member| member.replica.role_state().role == Role::Primary) {
            match put(&partition(&member.replica), "a", "3").await {
                Ok(_) => return begun.elapsed(),
                Err(error) => assert!(matches!(error.kind(), ErrorKind::NotPrimary { .. }), "{error}"),
            }
        }
        time::sleep(Duration::from_millis(1)).await;
        assert!(begun.elapsed() < Duration::from_secs(60), "seed {seed}: no primary");
    }
}

/// The slowest of many, with its seed.
fn slowest(timing: Timing) -> (Duration, u64) {
    let by_seed = (0..SEEDS).map(|seed| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        (runtime.block_on(fail_over(seed, timing)), seed)
    });
    by_seed.max().unwrap()
}

#[test]
fn a_write_is_acknowledged_soon_after_the_primary_was_killed() {
    for (timing, limit) in [
        (Timing::DEFAULT, Duration::from_secs(2)),
        (Timing::FAST, Duration::from_millis(500)),
        (Timing::WAN, Duration::from_secs(8)),
    ] {
        let (took, seed) = slowest(timing);
        println!("{timing:?}: {took:?} at most, by seed {seed}");
        assert!(took < limit, "{took:?} by seed {seed} with {timing:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn word_that_the_primary_is_unreachable_disturbs_no_primary_that_is_there() {
    let cluster = Cluster::founded(3, ReplicaOptions::default()).await;
    let primary = cluster.primary().await;
    let epoch = primary.role_state().epoch;
    for _ in 0..100 {
        cluster.members.values().for_each(|member| member.replica.primary_unreachable());
        time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!((primary.role_state().role, primary.role_state().epoch), (Role::Primary, epoch));
}
