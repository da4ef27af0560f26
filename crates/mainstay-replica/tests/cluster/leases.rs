use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Wake, Waker};

use mainstay_core::time::{self, Duration};
use mainstay_core::{ErrorKind, NodeId, ReplicaId};
use mainstay_replica::{Partition, ReplicaOptions, Role, Troubles};

use crate::harness::{Cluster, partition, put};

#[tokio::test(start_paused = true)]
async fn a_primary_without_a_quorum_stops_serving_before_another_starts() {
    let cluster = Cluster::founded(3, ReplicaOptions::default()).await;
    let old = cluster.primary().await;
    let node = old.status().identity.node;
    cluster.isolate(node);
    let (began, mut served_until) = (time::now(), time::now());
    loop {
        assert!(began.elapsed() < Duration::from_secs(600), "there is never another primary");
        if partition(&old).read().is_ok() {
            served_until = time::now();
        }
        let another =
            cluster.members.iter().find(|(other, member)| **other != node && partition(&member.replica).read().is_ok());
        if another.is_some() {
            break;
        }
        time::sleep(Duration::from_millis(1)).await;
    }
    assert!(served_until < time::now(), "the old primary served reads when the new one did");
    assert_eq!(old.role_state().role, Role::Secondary, "who lost the lease has lost the role");
    // It still leads as far as it knows, and sends nobody to itself.
    assert_eq!(partition(&old).read().unwrap_err().kind(), ErrorKind::NotPrimary { hint: None });
    let refused = put(&partition(&old), "a", "1").await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotPrimary { hint: None });
}

#[tokio::test(start_paused = true)]
async fn the_watch_tells_of_every_change_and_epochs_grow() {
    let cluster = Cluster::founded(3, ReplicaOptions::default()).await;
    let first = cluster.primary().await;
    let mut watch = first.watch();
    let before = *watch.borrow_and_update();
    assert_eq!(before.role, Role::Primary);
    let to =
        cluster.members.values().map(|m| m.replica.status().identity).find(|id| id.node != before.primary.unwrap());
    let to = to.unwrap();
    first.hand_over(to.replica).await.unwrap();
    watch.wait_for(|role_state| role_state.primary == Some(to.node)).await.unwrap();
    let after = *watch.borrow();
    assert_eq!(after.role, Role::Secondary);
    assert!(after.epoch > before.epoch);
    let second = cluster.primary().await;
    assert_eq!(second.status().identity, to);
    put(&partition(&second), "a", "1").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_lone_replica_keeps_its_lease_for_ever() {
    let cluster = Cluster::founded(1, ReplicaOptions::default()).await;
    let primary = cluster.primary().await;
    let epoch = partition(&primary).check().unwrap();
    for _ in 0..10 {
        time::sleep(Duration::from_secs(20)).await;
        assert_eq!(partition(&primary).check().unwrap(), epoch);
    }
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_restarts_gives_no_vote_while_a_lease_may_hold() {
    let options = ReplicaOptions::default();
    let lease = options.timing.lease();
    let mut cluster = Cluster::founded(3, options).await;
    let primary = cluster.primary().await;
    let node = primary.status().identity.node;
    put(&partition(&primary), "a", "1").await.unwrap();
    cluster.converged().await;
    // The two others restart at the very moment at which they acknowledged the primary for the last time.
    cluster.isolate(node);
    let acknowledged = time::now();
    let others: Vec<NodeId> = cluster.members.keys().copied().filter(|other| *other != node).collect();
    for other in &others {
        let member = cluster.kill(*other);
        cluster.start_on(*other, ReplicaId(other.0), member.log, member.store).await;
    }
    let new = cluster.primary_except(&[node]).await;
    assert!(time::now() - acknowledged > lease, "a new primary within the lease of the old one");
    assert_eq!(partition(&new).get(b"a").unwrap().as_deref(), Some(&b"1"[..]));
}

#[tokio::test(start_paused = true)]
async fn a_hand_over_that_fails_leaves_the_primary_in_office() {
    let cluster = Cluster::founded(3, ReplicaOptions::default()).await;
    let primary = cluster.primary().await;
    let unknown = primary.hand_over(ReplicaId(99)).await.unwrap_err();
    assert_eq!(unknown.kind(), ErrorKind::NotFound);
    put(&partition(&primary), "a", "1").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_hand_over_to_who_cannot_be_reached_leaves_the_role_where_it_is() {
    let cluster = Cluster::founded(3, ReplicaOptions::default()).await;
    let primary = cluster.primary().await;
    let before = primary.role_state();
    put(&partition(&primary), "a", "1").await.unwrap();
    let node = primary.status().identity.node;
    let to = cluster.members.keys().copied().find(|other| *other != node).unwrap();
    cluster.isolate(to);
    // What it has answered before does not count.
    time::sleep(Duration::from_millis(1)).await;
    let place = partition(&primary);
    let (handed_over, waited) = tokio::join!(primary.hand_over(ReplicaId(to.0)), async {
        // It is held back until it is known that the role stays.
        time::sleep(Duration::from_millis(100)).await;
        put(&place, "a", "2").await
    });
    assert_eq!(handed_over.unwrap_err().kind(), ErrorKind::Timeout);
    waited.unwrap();
    assert_eq!(primary.role_state(), before);
    put(&place, "a", "3").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_hand_over_whose_successor_is_cut_off_leaves_the_set_with_a_primary() {
    let cluster = Cluster::founded(3, ReplicaOptions::default()).await;
    let primary = cluster.primary().await;
    let before = primary.role_state().epoch;
    put(&partition(&primary), "a", "1").await.unwrap();
    let node = primary.status().identity.node;
    let to = cluster.members.keys().copied().find(|other| *other != node).unwrap();
    let (_, ()) = tokio::join!(primary.hand_over(ReplicaId(to.0)), async {
        primary.watch().wait_for(|role_state| role_state.role == Role::Secondary).await.unwrap();
        cluster.isolate(to);
    });
    // Somebody else takes over, or this one after an election: in any case in a new epoch.
    let next = cluster.primary_except(&[to]).await;
    assert!(next.role_state().epoch > before, "nobody may go on in an epoch that was handed over");
    put(&partition(&next), "a", "2").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_hand_over_whose_caller_went_away_is_carried_out() {
    let cluster = Cluster::founded(3, ReplicaOptions::default()).await;
    let primary = cluster.primary().await;
    let epoch = primary.role_state().epoch;
    let node = primary.status().identity.node;
    let to = cluster.members.keys().copied().find(|other| *other != node).unwrap();
    let delay = Duration::from_millis(20);
    cluster.network.set_troubles(Troubles { delay_min: delay, delay_max: delay, ..Troubles::default() });
    let mut handing = Box::pin(primary.hand_over(ReplicaId(to.0)));
    let about_to = async {
        while !(primary.role_state().role == Role::Secondary) {
            time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::select! {
        biased;
        in_time = time::timeout(Duration::from_secs(60), about_to) => in_time.expect("it never steps back"),
        ended = &mut handing => panic!("it ended before it was dropped: {ended:?}"),
    }
    drop(handing);
    let next = cluster.primary().await;
    assert!(next.role_state().epoch > epoch);
    put(&partition(&next), "a", "1").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn who_has_stopped_serves_nothing_and_says_so() {
    for crash in [false, true] {
        let cluster = Cluster::founded(1, ReplicaOptions::default()).await;
        let primary = cluster.primary().await;
        put(&partition(&primary), "a", "1").await.unwrap();
        if crash {
            primary.kill();
        } else {
            primary.stop().await;
        }
        assert!(matches!(partition(&primary).read().unwrap_err().kind(), ErrorKind::NotPrimary { .. }));
        assert_eq!(primary.role_state().role, Role::Secondary);
        assert_eq!(put(&partition(&primary), "a", "2").await.unwrap_err().kind(), ErrorKind::Fatal);
        assert_eq!(primary.checkpoint().await.unwrap_err().kind(), ErrorKind::Fatal);
    }
}

#[tokio::test(start_paused = true)]
async fn checkpoints_that_are_asked_for_at_once_all_come_to_an_end() {
    let mut options = ReplicaOptions::default();
    options.checkpoint.log_keep_bytes = 0;
    let cluster = Cluster::founded(1, options).await;
    let primary = cluster.primary().await;
    for round in 0..50 {
        let writes = (0..3).map(|n| {
            let partition = partition(&primary);
            async move { put(&partition, &n.to_string(), &round.to_string()).await.map(drop) }
        });
        let checkpoints = (0..3).map(|_| primary.checkpoint());
        let both = futures_util::future::join(
            futures_util::future::join_all(writes),
            futures_util::future::join_all(checkpoints),
        );
        let (written, saved) = time::timeout(Duration::from_secs(60), both).await.expect("no checkpoint hangs");
        assert!(written.into_iter().chain(saved).all(|result| result.is_ok()), "round {round}");
    }
}

/// Looks, in the very moment in which a caller is answered, whether a read would be served and what the standing says.
struct Witness {
    partition: Partition,
    answers: AtomicUsize,
    served: AtomicUsize,
}

impl Wake for Witness {
    fn wake(self: Arc<Self>) {
        self.answers.fetch_add(1, Ordering::SeqCst);
        if self.partition.read().is_ok() || self.partition.role_state().role == Role::Primary {
            self.served.fetch_add(1, Ordering::SeqCst);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn who_hears_that_an_outcome_is_unknown_is_not_served_a_read_from_before() {
    for hands_over in [true, false] {
        let cluster = Cluster::founded(3, ReplicaOptions::default()).await;
        let primary = cluster.primary().await;
        let me = primary.status().identity;
        put(&partition(&primary), "a", "1").await.unwrap();
        cluster.isolate(me.node);
        let place = partition(&primary);
        let witness = Witness { partition: place.clone(), answers: AtomicUsize::new(0), served: AtomicUsize::new(0) };
        let witness = Arc::new(witness);
        let mut commit = pin!(put(&place, "a", "2"));
        assert!(commit.as_mut().poll(&mut Context::from_waker(&Waker::from(witness.clone()))).is_pending());
        // The end of the role, by will or because the lease runs out.
        if hands_over {
            let to = primary.status().voters.into_keys().find(|replica| *replica != me.replica).unwrap();
            let _ = primary.hand_over(to).await;
        } else {
            primary.watch().wait_for(|role_state| role_state.role == Role::Secondary).await.unwrap();
        }
        assert_eq!(commit.await.unwrap_err().kind(), ErrorKind::OutcomeUnknown);
        assert_eq!(witness.answers.load(Ordering::SeqCst), 1);
        assert_eq!(witness.served.load(Ordering::SeqCst), 0, "handing over: {hands_over}");
    }
}
