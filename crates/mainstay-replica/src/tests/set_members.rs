//! The members of a set as a whole.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use mainstay_core::time::{self, Duration};
use mainstay_core::{ErrorKind, Level, NodeId, PartitionId, ReplicaId, Result, SetId, random, task};
use mainstay_store::log::MemoryLog;
use mainstay_store::state::MemoryStore;
use openraft::EntryPayload;

use crate::in_process::InProcessNetwork;
use crate::options::ReplicaOptions;
use crate::replica::{Identity, Replica};
use crate::role_state::Role;
use crate::set_members::Members;
use crate::tests::CLUSTER;

const SET: SetId = SetId { level: Level::Persisted, number: 0 };

/// Replicas on nodes of the same numbers.
#[derive(Default)]
struct Fleet {
    network: InProcessNetwork,
    running: BTreeMap<u64, (Replica, task::Scope)>,
}

impl Fleet {
    /// Replica 1 alone, and others that belong to nothing yet.
    async fn founded(others: std::ops::RangeInclusive<u64>) -> Self {
        let mut fleet = Self::default();
        fleet.start(1).await;
        for id in others {
            fleet.start(id).await;
        }
        fleet.replica(1).bootstrap(&BTreeMap::from([(ReplicaId(1), NodeId(1))])).await.unwrap();
        fleet
    }

    async fn start(&mut self, id: u64) {
        let (replica, node) = (ReplicaId(id), NodeId(id));
        let identity = Identity { cluster: CLUSTER, set: SET, replica, node, data_loss: 0 };
        let (log, store) = (Arc::new(MemoryLog::new()), Arc::new(MemoryStore::new()));
        let (scope, way) = (task::Scope::new(), self.network.endpoint(node));
        let starting = Replica::start(identity, ReplicaOptions::default(), log, store, way);
        let replica = scope.enter(starting).await.unwrap();
        // As those are told who hold a replica of the set, or are about to.
        replica.expect_members((1..=9).map(NodeId));
        let handler = replica.clone();
        self.network.attach(
            node,
            scope.clone(),
            Arc::new(move |from, _, request| {
                let replica = handler.clone();
                Box::pin(async move { replica.receive(from, request).await })
            }),
        );
        self.running.insert(id, (replica, scope));
    }

    fn kill(&mut self, id: u64) {
        self.network.detach(NodeId(id));
        let (replica, scope) = self.running.remove(&id).unwrap();
        replica.kill();
        scope.stop();
    }

    fn replica(&self, id: u64) -> Replica {
        self.running[&id].0.clone()
    }

    async fn primary(&self) -> Replica {
        let found = async {
            loop {
                let mut replicas = self.running.values().map(|(replica, _)| replica);
                match replicas.find(|replica| replica.role_state().role == Role::Primary) {
                    Some(primary) => return primary.clone(),
                    None => time::sleep(Duration::from_millis(10)).await,
                }
            }
        };
        time::timeout(Duration::from_secs(60), found).await.expect("a primary within a minute")
    }

    /// Asks the primary, whoever it is, until the set has these members.
    async fn reach(&self, wanted: &Members) {
        let reached = async {
            while let Err(error) = self.primary().await.set_members(wanted).await {
                let passes = matches!(
                    error.kind(),
                    ErrorKind::NotPrimary { .. } | ErrorKind::Retry | ErrorKind::OutcomeUnknown | ErrorKind::Timeout
                );
                assert!(passes, "{error}");
                time::sleep(Duration::from_millis(10)).await;
            }
        };
        time::timeout(Duration::from_secs(300), reached).await.expect("the members that are wanted");
        let status = self.primary().await.status();
        assert_eq!((&status.voters, &status.learners), (&wanted.voters, &wanted.learners));
    }
}

fn ids(ids: impl IntoIterator<Item = u64>) -> BTreeMap<ReplicaId, NodeId> {
    ids.into_iter().map(|id| (ReplicaId(id), NodeId(id))).collect()
}

fn members(voters: impl IntoIterator<Item = u64>, learners: impl IntoIterator<Item = u64>) -> Members {
    Members { voters: ids(voters), learners: ids(learners) }
}

async fn put(replica: &Replica, value: &str) -> Result<()> {
    let partition = replica.partition(PartitionId(1));
    let mut batch = partition.batch();
    batch.put(b"key", value.as_bytes());
    partition.commit(batch).await.map(drop)
}

fn get(replica: &Replica) -> Option<String> {
    let value = replica.partition(PartitionId(1)).get(b"key").unwrap();
    value.map(|value| String::from_utf8(value.to_vec()).unwrap())
}

/// The voters that were ever in force, from the beginning of the log on: two groups of them while a change is under way.
fn configurations(replica: &Replica) -> Vec<Vec<BTreeSet<u64>>> {
    let log = &replica.inner.log;
    let entries = log.read(log.first(), log.next(), usize::MAX).unwrap();
    let mut found: Vec<Vec<BTreeSet<u64>>> = Vec::new();
    for entry in entries {
        if let EntryPayload::Membership(membership) = entry.payload {
            found.push(membership.get_joint_config().clone());
        }
    }
    found.dedup();
    found
}

#[tokio::test(start_paused = true)]
async fn from_one_voter_to_three_is_one_change() {
    let mut fleet = Fleet::founded(2..=3).await;
    let primary = fleet.primary().await;
    put(&primary, "before").await.unwrap();
    let wanted = members([1, 2, 3], []);
    primary.set_members(&wanted).await.unwrap();
    let [one, three] = [vec![1], vec![1, 2, 3]].map(BTreeSet::from_iter);
    assert_eq!(configurations(&primary), [vec![one.clone()], vec![one, three.clone()], vec![three]]);
    assert_eq!((primary.status().voters, primary.status().learners), (wanted.voters.clone(), BTreeMap::new()));

    let before = primary.status().log_next;
    primary.set_members(&wanted).await.unwrap();
    assert_eq!(primary.status().log_next, before, "what there is already is not done again");
    fleet.kill(1);
    let primary = fleet.primary().await;
    assert_eq!(get(&primary).as_deref(), Some("before"));
    put(&primary, "after").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_set_moves_away_from_its_primary_as_a_whole() {
    let fleet = Fleet::founded(4..=6).await;
    let first = fleet.primary().await;
    put(&first, "1").await.unwrap();
    let wanted = members([4, 5, 6], []);
    let handed_over = first.set_members(&wanted).await.unwrap_err();
    let ErrorKind::NotPrimary { hint: Some(NodeId(4..=6)) } = handed_over.kind() else { panic!("{handed_over}") };
    fleet.reach(&wanted).await;
    let primary = fleet.primary().await;
    assert_ne!(primary.identity().replica, ReplicaId(1));
    assert_eq!(get(&primary).as_deref(), Some("1"));
    put(&primary, "2").await.unwrap();
    let refused = first.set_members(&wanted).await.unwrap_err();
    assert!(matches!(refused.kind(), ErrorKind::NotPrimary { .. }), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn one_replica_is_replaced_by_another_in_one_change() {
    let fleet = Fleet::founded(2..=4).await;
    fleet.reach(&members([1, 2, 3], [])).await;
    let primary = fleet.primary().await;
    let stays = primary.identity().replica.0;
    let goes = if stays == 2 { 3 } else { 2 };
    let wanted = members([1, 2, 3, 4].into_iter().filter(|id| *id != goes), []);
    primary.set_members(&wanted).await.unwrap();
    let found = configurations(&primary);
    assert_eq!(found.last().unwrap()[..], [wanted.voters.keys().map(|id| id.0).collect::<BTreeSet<_>>()]);
    assert!(found.iter().flatten().all(|voters| matches!(voters.len(), 1 | 3)), "{found:?}");
}

#[tokio::test(start_paused = true)]
async fn learners_stay_come_and_go_as_wanted() {
    let fleet = Fleet::founded(2..=5).await;
    for wanted in [
        members([1, 2, 3], [4]),
        members([1, 2, 3], [4, 5]),
        // One that learned votes, and one that voted learns on.
        members([1, 2, 4], [3]),
        members([1, 2, 4], [5]),
        members([1], []),
        members([1], [2]),
        members([2], []),
    ] {
        fleet.reach(&wanted).await;
        put(&fleet.primary().await, "v").await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn members_that_no_set_can_have_are_refused_by_name() {
    let fleet = Fleet::founded(2..=3).await;
    let primary = fleet.primary().await;
    let before = primary.status();
    let moved = Members { voters: [(ReplicaId(1), NodeId(7))].into(), learners: BTreeMap::new() };
    let crowded = Members { voters: ids([1]), learners: [(ReplicaId(8), NodeId(1))].into() };
    for (wanted, says) in [
        (members([], [2]), "at least one replica that votes"),
        (members([1, 2], [2]), "r2 of set persisted-0 is to vote and to learn"),
        (crowded, "replicas r1 and r8 of set persisted-0 would both be on node n1"),
        (moved, "r1 of set persisted-0 is on node n1, not on n7"),
    ] {
        let refused = primary.set_members(&wanted).await.unwrap_err();
        assert!(refused.kind() == ErrorKind::Invalid && refused.to_string().contains(says), "{refused}");
    }
    assert_eq!(primary.status(), before);
    let elsewhere = fleet.replica(2).set_members(&members([1, 2], [])).await.unwrap_err();
    assert!(matches!(elsewhere.kind(), ErrorKind::NotPrimary { .. }), "{elsewhere}");
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_does_not_catch_up_keeps_the_voters_as_they_are() {
    let mut fleet = Fleet::founded(2..=2).await;
    let primary = fleet.primary().await;
    let wanted = members([1, 2, 3], []);
    let late = primary.set_members(&wanted).await.unwrap_err();
    assert!(late.kind() == ErrorKind::Timeout && late.to_string().contains("replica r3"), "{late}");
    assert_eq!(primary.status().voters, ids([1]), "nobody votes before all can");
    put(&primary, "goes on").await.unwrap();
    fleet.start(3).await;
    primary.set_members(&wanted).await.unwrap();
    assert!(configurations(&primary).iter().flatten().all(|voters| voters.len() != 2));
}

#[tokio::test(start_paused = true)]
async fn after_any_interruption_the_next_call_does_the_rest() {
    for seed in 0..30 {
        random::seed_thread(seed);
        let mut fleet = Fleet::founded(2..=5).await;
        put(&fleet.primary().await, "v").await.unwrap();
        let (three, five) = (members([1, 2, 3], []), members([1, 2, 3, 4, 5], []));
        let primary = fleet.primary().await;
        // The caller goes away in the midst of it.
        let _ = time::timeout(Duration::from_micros(seed * 100), primary.set_members(&three)).await;
        fleet.reach(&three).await;
        // The primary is killed in the midst of it.
        let primary = fleet.primary().await;
        let killed = primary.identity().replica.0;
        let five_without = members((1..=5).filter(|id| *id != killed), []);
        let _ = time::timeout(Duration::from_micros(seed * 100), primary.set_members(&five)).await;
        fleet.kill(killed);
        fleet.reach(&five_without).await;
        let primary = fleet.primary().await;
        assert_eq!(get(&primary).as_deref(), Some("v"), "seed {seed}");
        put(&primary, "w").await.unwrap();
        let found = configurations(&primary);
        assert!(found.iter().flatten().all(|voters| voters.len() != 2), "seed {seed}: {found:?}");
    }
}
