use mainstay_core::time::{self, Duration};
use mainstay_core::{ErrorKind, NodeId, ReplicaId};
use mainstay_replica::{Replica, ReplicaOptions, Status, Troubles};

use crate::harness::{Cluster, contents, partition, put};

#[tokio::test(start_paused = true)]
async fn a_set_grows_and_shrinks_while_it_works() {
    let mut cluster = Cluster::founded(1, ReplicaOptions::default()).await;
    let primary = cluster.primary().await;
    put(&partition(&primary), "a", "1").await.unwrap();
    for node in 2..=5 {
        cluster.start(NodeId(node), ReplicaId(node)).await;
        primary.add_member(ReplicaId(node), NodeId(node)).await.unwrap();
        put(&partition(&primary), "a", &node.to_string()).await.unwrap();
    }
    cluster.converged().await;
    assert_eq!(primary.status().voters.len(), 5);
    for member in cluster.members.values() {
        assert_eq!(contents(&member.replica), contents(&primary));
    }
    for node in 3..=5 {
        primary.remove_member(ReplicaId(node)).await.unwrap();
        cluster.kill(NodeId(node));
    }
    assert_eq!(primary.status().voters.len(), 2);
    assert!(primary.status().learners.is_empty());
    put(&partition(&primary), "a", "end").await.unwrap();
    cluster.converged().await;
}

#[tokio::test(start_paused = true)]
async fn only_the_primary_changes_members_and_the_last_one_stays() {
    let cluster = Cluster::founded(3, ReplicaOptions::default()).await;
    let primary = cluster.primary().await;
    put(&partition(&primary), "a", "1").await.unwrap();
    cluster.converged().await;
    let node = primary.status().identity.node;
    let secondary = cluster.members.values().find(|m| m.replica.status().identity.node != node).unwrap();
    let refused = secondary.replica.add_member(ReplicaId(9), NodeId(9)).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotPrimary { hint: Some(node) });

    let alone = Cluster::founded(1, ReplicaOptions::default()).await;
    let refused = alone.primary().await.remove_member(ReplicaId(1)).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
}

#[tokio::test(start_paused = true)]
async fn a_volatile_replica_that_restarts_rejoins_under_a_new_identity() {
    let mut cluster = Cluster::founded(3, ReplicaOptions::default()).await;
    let primary = cluster.primary().await;
    put(&partition(&primary), "a", "1").await.unwrap();
    let node = cluster.members.keys().copied().find(|node| *node != primary.status().identity.node).unwrap();
    // Its memory is lost.
    drop(cluster.kill(node));
    put(&partition(&primary), "b", "2").await.unwrap();
    cluster.start(node, ReplicaId(1_000)).await;
    let others: Vec<NodeId> = cluster.members.keys().copied().collect();
    cluster.replica(node.0).join(&others).await.unwrap();
    let status = cluster.primary().await.status();
    assert_eq!(status.voters.len(), 3);
    assert_eq!(status.voters.get(&ReplicaId(1_000)), Some(&node));
    assert_eq!(status.voters.get(&ReplicaId(node.0)), None, "the old identity is gone");
    cluster.converged().await;
    assert_eq!(contents(&cluster.replica(node.0)), contents(&primary));
}

#[tokio::test(start_paused = true)]
async fn founding_again_does_nothing_and_founding_without_oneself_is_refused() {
    let cluster = Cluster::founded(1, ReplicaOptions::default()).await;
    let primary = cluster.primary().await;
    put(&partition(&primary), "a", "1").await.unwrap();
    primary.bootstrap(&[(ReplicaId(1), NodeId(1))].into()).await.unwrap();
    assert_eq!(partition(&primary).get(b"a").unwrap().as_deref(), Some(&b"1"[..]));
    let refused = primary.bootstrap(&[(ReplicaId(2), NodeId(2))].into()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
}

#[tokio::test(start_paused = true)]
async fn bytes_that_are_no_message_are_answered() {
    let cluster = Cluster::founded(1, ReplicaOptions::default()).await;
    let primary = cluster.primary().await;
    for length in 0..64_u8 {
        for first in [0, 1, 2, 255] {
            let mut bytes: Vec<u8> = (0..length).map(|byte| byte.wrapping_mul(37)).collect();
            if let Some(version) = bytes.first_mut() {
                *version = first;
            }
            assert!(!primary.receive(NodeId(1), bytes.into()).await.is_empty());
        }
    }
    put(&partition(&primary), "a", "1").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_cannot_be_reached_never_votes_and_holds_up_nobody() {
    let cluster = Cluster::founded(1, ReplicaOptions::default()).await;
    let primary = cluster.primary().await;
    put(&partition(&primary), "a", "1").await.unwrap();
    let absent = primary.add_member(ReplicaId(9), NodeId(9)).await.unwrap_err();
    assert_eq!(absent.kind(), ErrorKind::Timeout);
    assert!(absent.to_string().contains("n9"), "{absent}");
    let status = primary.status();
    assert_eq!(status.voters.keys().copied().collect::<Vec<_>>(), [ReplicaId(1)]);
    assert!(status.learners.contains_key(&ReplicaId(9)));
    put(&partition(&primary), "a", "2").await.unwrap();
    // A younger replica on the same node takes its place.
    let absent = primary.add_member(ReplicaId(10), NodeId(9)).await.unwrap_err();
    assert_eq!(absent.kind(), ErrorKind::Timeout);
    assert_eq!(primary.status().learners.keys().copied().collect::<Vec<_>>(), [ReplicaId(10)]);
    primary.remove_member(ReplicaId(10)).await.unwrap();
    assert!(primary.status().learners.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_replica_votes_only_when_it_has_caught_up() {
    let mut cluster = Cluster::founded(1, ReplicaOptions::default()).await;
    let primary = cluster.primary().await;
    for number in 0..50 {
        put(&partition(&primary), &number.to_string(), "x").await.unwrap();
    }
    let goal = primary.status().log_next;
    cluster.start(NodeId(2), ReplicaId(2)).await;
    primary.add_member(ReplicaId(2), NodeId(2)).await.unwrap();
    assert!(cluster.replica(2).status().log_next >= goal);
}

#[tokio::test(start_paused = true)]
async fn members_that_are_added_at_the_same_time_do_not_push_each_other_out() {
    let mut cluster = Cluster::founded(1, ReplicaOptions::default()).await;
    let primary = cluster.primary().await;
    put(&partition(&primary), "a", "1").await.unwrap();
    for node in 2..=5 {
        cluster.start(NodeId(node), ReplicaId(node)).await;
    }
    let all: Vec<NodeId> = (1..=5).map(NodeId).collect();
    let joining = (2..=5).map(|node| {
        let (replica, all) = (cluster.replica(node), all.clone());
        async move { replica.join(&all).await }
    });
    for joined in futures_util::future::join_all(joining).await {
        joined.unwrap();
    }
    assert_eq!(primary.status().voters.len(), 5);
    put(&partition(&primary), "a", "2").await.unwrap();
    cluster.converged().await;
}

#[tokio::test(start_paused = true)]
async fn a_change_of_members_is_finished_although_its_caller_went_away() {
    let mut cluster = Cluster::founded(3, ReplicaOptions::default()).await;
    let primary = cluster.primary().await;
    put(&partition(&primary), "a", "1").await.unwrap();
    cluster.start(NodeId(4), ReplicaId(4)).await;
    let delay = Duration::from_millis(20);
    cluster.network.set_troubles(Troubles { delay_min: delay, delay_max: delay, ..Troubles::default() });
    let mut adding = Box::pin(primary.add_member(ReplicaId(4), NodeId(4)));
    // Polled until the new replica is about to vote, and dropped there.
    let about_to = async {
        while !(primary.status().voters.contains_key(&ReplicaId(4))) {
            time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::select! {
        biased;
        in_time = time::timeout(Duration::from_secs(60), about_to) => in_time.expect("it is never about to vote"),
        ended = &mut adding => panic!("it ended before it was dropped: {ended:?}"),
    }
    drop(adding);
    // The set is not left between two memberships: it works with any two of the first and one more.
    put(&partition(&primary), "a", "2").await.unwrap();
    cluster.converged().await;
    primary.remove_member(ReplicaId(4)).await.unwrap();
    assert_eq!(primary.status().voters.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_change_of_members_is_finished_by_the_next_primary() {
    let mut cluster = Cluster::founded(3, ReplicaOptions::default()).await;
    let old = cluster.primary().await;
    put(&partition(&old), "a", "1").await.unwrap();
    cluster.converged().await;
    let mut others = cluster.members.keys().copied().filter(|node| *node != old.status().identity.node);
    let (transfer_target, lost) = (others.next().unwrap(), others.next().unwrap());
    drop(cluster.kill(lost));
    cluster.start(lost, ReplicaId(1_000)).await;
    let delay = Duration::from_millis(20);
    cluster.network.set_troubles(Troubles { delay_min: delay, delay_max: delay, ..Troubles::default() });
    let (adding, old_id) = (old.clone(), ReplicaId(lost.0));
    let adding = mainstay_core::task::spawn(async move { adding.add_member(ReplicaId(1_000), lost).await });
    // The first step is taken, the second is not: then the role moves on.
    let between = async {
        let both = |voters: &std::collections::BTreeMap<ReplicaId, NodeId>| {
            voters.contains_key(&old_id) && voters.contains_key(&ReplicaId(1_000))
        };
        while !both(&cluster.replica(transfer_target.0).status().voters) {
            time::sleep(Duration::from_millis(1)).await;
        }
    };
    time::timeout(Duration::from_secs(30), between).await.unwrap();
    old.hand_over(ReplicaId(transfer_target.0)).await.unwrap();
    let interrupted = adding.await.unwrap().unwrap_err();
    assert_eq!(interrupted.kind(), ErrorKind::OutcomeUnknown, "the first step is in force: {interrupted}");

    let new = cluster.primary().await;
    assert_eq!(new.status().identity.node, transfer_target);
    // Nobody asks the new primary for anything.
    let finished = async {
        while new.status().voters.contains_key(&old_id) {
            time::sleep(Duration::from_millis(10)).await;
        }
    };
    time::timeout(Duration::from_secs(30), finished).await.expect("one that is gone must not be needed for ever");
    assert!(new.status().voters.contains_key(&ReplicaId(1_000)));
    // What is left works without the old primary.
    cluster.kill(old.status().identity.node);
    put(&partition(&new), "a", "2").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn joining_where_nobody_answers_ends_with_an_error() {
    let mut cluster = Cluster::new(ReplicaOptions::default());
    cluster.start(NodeId(1), ReplicaId(1)).await;
    let alone = cluster.replica(1).join(&[NodeId(2), NodeId(3)]).await.unwrap_err();
    assert_eq!(alone.kind(), ErrorKind::Timeout);
    let nobody = cluster.replica(1).join(&[NodeId(1)]).await.unwrap_err();
    assert_eq!(nobody.kind(), ErrorKind::Invalid);
    let member = cluster.kill(NodeId(1));
    let dead = member.replica.join(&[NodeId(2)]).await.unwrap_err();
    assert_eq!(dead.kind(), ErrorKind::Fatal);
}

#[tokio::test(start_paused = true)]
async fn a_primary_hands_over_instead_of_removing_itself() {
    let cluster = Cluster::founded(3, ReplicaOptions::default()).await;
    let old = cluster.primary().await;
    let me = old.status().identity;
    put(&partition(&old), "a", "1").await.unwrap();
    let refused = old.remove_member(me.replica).await.unwrap_err();
    assert!(matches!(refused.kind(), ErrorKind::NotPrimary { hint: Some(node) } if node != me.node), "{refused:?}");
    assert!(partition(&old).read().is_err(), "who has handed over serves no reads");
    let new = cluster.primary().await;
    assert_ne!(new.status().identity, me);
    new.remove_member(me.replica).await.unwrap();
    put(&partition(&new), "a", "2").await.unwrap();
    assert!(partition(&old).read().is_err(), "who was removed serves no reads");
    assert_eq!(new.status().voters.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_primary_that_is_removed_hands_over_to_one_that_answers() {
    for idle in [Duration::ZERO, Duration::from_millis(700), Duration::from_secs(10)] {
        let mut cluster = Cluster::founded(5, ReplicaOptions::default()).await;
        let old = cluster.primary().await;
        let me = old.status().identity;
        put(&partition(&old), "a", "1").await.unwrap();
        cluster.converged().await;
        let others: Vec<NodeId> = cluster.members.keys().copied().filter(|node| *node != me.node).collect();
        // Those who were asked first so far.
        let dead: Vec<_> = others[..2].iter().map(|node| cluster.kill(*node)).collect();
        time::sleep(idle).await;
        let asked = time::now();
        let refused = old.remove_member(me.replica).await.unwrap_err();
        let ErrorKind::NotPrimary { hint: Some(transfer_target) } = refused.kind() else {
            panic!("{idle:?}: {refused:?}")
        };
        assert!(others[2..].contains(&transfer_target), "{transfer_target} was dead for {idle:?}");
        // Had it handed over to a dead one, the others would have waited for that before they held an election.
        let took = asked.elapsed();
        assert!(took < ReplicaOptions::default().timing.election_timeout_min, "{took:?} after {idle:?}");
        assert_eq!(cluster.primary().await.status().identity.node, transfer_target);
        drop(dead);
    }
}

#[tokio::test(start_paused = true)]
async fn a_primary_that_is_to_leave_hands_over_before_it_finishes_the_change() {
    let cluster = Cluster::founded(4, ReplicaOptions::default()).await;
    let old = cluster.primary().await;
    put(&partition(&old), "a", "1").await.unwrap();
    cluster.converged().await;
    let leaving = cluster.members.keys().copied().find(|node| *node != old.status().identity.node).unwrap();
    let leaver = cluster.replica(leaving.0);
    let delay = Duration::from_millis(20);
    cluster.network.set_troubles(Troubles { delay_min: delay, delay_max: delay, ..Troubles::default() });
    let (removing, before) = (old.clone(), leaver.status().log_next);
    let removing = mainstay_core::task::spawn(async move { removing.remove_member(ReplicaId(leaving.0)).await });
    // The first step is there, and the primary has not heard of that: then the role moves to the one who leaves.
    let between = async {
        while leaver.status().log_next == before {
            time::sleep(Duration::from_millis(1)).await;
        }
    };
    time::timeout(Duration::from_secs(30), between).await.unwrap();
    old.hand_over(ReplicaId(leaving.0)).await.unwrap();
    assert_eq!(removing.await.unwrap().unwrap_err().kind(), ErrorKind::OutcomeUnknown);

    let serving = || cluster.members.values().filter(|member| partition(&member.replica).read().is_ok());
    let serving = || serving().map(|member| member.replica.clone()).collect::<Vec<_>>();
    let is_finished = |replica: &Replica| !replica.status().voters.contains_key(&ReplicaId(leaving.0));
    let mut new = None;
    let mut is_cut_off = false;
    let finished = async {
        loop {
            let now = serving();
            assert!(now.len() < 2, "{now:?} serve reads at the same moment");
            if let [one] = &now[..] {
                if one.status().identity.node != leaving {
                    new = Some(one.clone());
                }
                if is_finished(one) && new.is_some() {
                    return;
                }
            }
            // From here on it hears nothing any more, and is still heard: whom it sends takes over behind its back.
            let Status { log_next, applied_next, .. } = leaver.status();
            if !is_cut_off && ((is_finished(&leaver) && applied_next == log_next) || new.is_some()) {
                is_cut_off = true;
                for other in cluster.members.keys().filter(|other| **other != leaving) {
                    cluster.network.cut(*other, leaving);
                }
            }
            time::sleep(Duration::from_millis(1)).await;
        }
    };
    time::timeout(Duration::from_secs(60), finished).await.expect("a change that is half done is finished");
    let new = new.expect("a primary that stays");
    put(&partition(&new), "a", "2").await.unwrap();
    let stale = partition(&leaver).get(b"a");
    assert!(stale.is_err(), "a read at a replica that has left: {stale:?}");
}
