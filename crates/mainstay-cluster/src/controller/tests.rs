use std::collections::BTreeMap;

use mainstay_core::partitioning::Partitioning;
use mainstay_core::time::WallTime;
use mainstay_core::{ClusterId, Epoch, PartitionId};
use sha2::{Digest as _, Sha256};

use super::reconcile::reconcile;
use super::*;
use crate::control::record::{MemberList, NodeState, PEER_ADDRESS, ServiceKind, SetRecord};
use crate::control::{CONTROL_SET, FIRST_PARTITION};
use crate::message::{Announcement, Confirmation, ServiceRegistration};

const NOW: WallTime = WallTime::from_millis(1_770_120_000_000);

fn description(host: &str) -> NodeDescription {
    NodeDescription {
        addresses: BTreeMap::from([(PEER_ADDRESS.to_owned(), format!("{host}:7400"))]),
        fault_domain: String::new(),
        program: "0.1.0".to_owned(),
        version_min: 1,
        version_max: 1,
        types: BTreeSet::new(),
    }
}

fn founded(held: &[(SetId, ReplicaId)]) -> ControlState {
    let founding = Founding { sets_per_level: 2, ..Founding::default() };
    let owner = (ClusterId(7), NodeId(1));
    let mut state = founding::found(&founding, owner, &description("n1"), held.iter().copied()).unwrap();
    reconcile(&mut state, &BTreeSet::new()).unwrap();
    state
}

/// Decides on a request as the controller does, without a commit.
fn decided(state: &mut ControlState, sender: &Sender, request: ControlRequest) -> Result<ControlAnswer> {
    may_send(sender, &request)?;
    let mut next = state.clone();
    let answer = decide(&mut next, sender, &request, false, NOW)?;
    reconcile(&mut next, &BTreeSet::new())?;
    *state = next;
    Ok(answer)
}

fn node(id: u64) -> Sender {
    Sender::Node(NodeId(id))
}

fn join_request(request: u128) -> JoinRequest {
    JoinRequest {
        request,
        description: description(&format!("h{request}")),
        secret: None,
        public_key: None,
        certified: None,
    }
}

fn joined(state: &mut ControlState, request: u128) -> JoinAnswer {
    let request = ControlRequest::Join(join_request(request));
    match decided(state, &Sender::Joining, request).unwrap() {
        ControlAnswer::Joined(answer) => answer,
        other => panic!("{other:?}"),
    }
}

fn announce(state: &mut ControlState, id: u64, boot: u64, session: u128) -> Result<ControlAnswer> {
    let announcement = Announcement { node: NodeId(id), boot, session, description: description(&format!("n{id}")) };
    decided(state, &node(id), ControlRequest::Announce(announcement))
}

/// Lets every set have the members that are wanted, as its primary would say.
fn confirm_all(state: &mut ControlState) {
    loop {
        let open: Vec<SetRecord> = state.sets.values().filter(|set| set.confirmed != set.wanted).cloned().collect();
        if open.is_empty() {
            return;
        }
        for set in open {
            let (replica, at) = set.wanted.voters.iter().next().map(|(id, at)| (*id, *at)).unwrap();
            let epoch = Epoch::new(set.data_loss, set.confirmed_epoch.term() + 1);
            let confirmation = Confirmation { set: set.id, replica, epoch, members: set.wanted };
            decided(state, &Sender::Node(at), ControlRequest::Confirm(confirmation)).unwrap();
        }
    }
}

/// A cluster of so many nodes that has settled.
fn cluster(count: u64) -> ControlState {
    let mut state = founded(&[]);
    announce(&mut state, 1, 1, 1).unwrap();
    for id in 2..=count {
        assert_eq!(joined(&mut state, u128::from(id)).node, NodeId(id));
        announce(&mut state, id, 1, 1).unwrap();
    }
    confirm_all(&mut state);
    state
}

fn volatile(number: u16) -> SetId {
    SetId { level: Level::Volatile, number }
}

fn service(name: &str, level: Level) -> ServiceRegistration {
    ServiceRegistration {
        name: name.to_owned(),
        kind: ServiceKind::Service,
        level,
        partitioning: Partitioning::uniform(3),
        interfaces: BTreeSet::new(),
        call_timeout_ms: None,
        partitions: None,
    }
}

#[test]
fn a_founded_cluster_takes_over_what_its_folder_holds() {
    let old = SetId { level: Level::Persisted, number: 1 };
    let state = founded(&[(old, ReplicaId(u64::MAX - 1))]);
    assert_eq!(state.sets[&old].confirmed, MemberList::alone(ReplicaId(u64::MAX - 1), NodeId(1)));
    assert_eq!(state.sets[&CONTROL_SET].wanted, MemberList::alone(ReplicaId(1), NodeId(1)));
    let new = &state.sets[&SetId { level: Level::Persisted, number: 0 }];
    assert_eq!((new.founder, new.confirmed.is_empty(), new.data_loss), (ReplicaId(2), true, 0));
    assert_eq!(state.cluster().unwrap().next_partition, FIRST_PARTITION.0);
}

#[test]
fn a_join_is_answered_alike_however_often_it_is_asked() {
    let mut state = founded(&[]);
    let first = joined(&mut state, 11);
    assert_eq!((first.node, first.cluster, first.control_replica), (NodeId(2), ClusterId(7), ReplicaId(4)));
    assert_eq!(first.peers, BTreeMap::from([(NodeId(1), "n1:7400".to_owned())]));
    assert_eq!(joined(&mut state, 11), first);
    assert_eq!(joined(&mut state, 12).node, NodeId(3));
    // One that has not started holds nothing.
    assert_eq!(state.nodes[&NodeId(2)].state, NodeState::Joining);
    assert!(state.sets.values().all(|set| set.wanted.on(NodeId(2)).is_none()));
    let mut without = join_request(13);
    without.description.addresses.clear();
    assert!(decided(&mut state, &Sender::Joining, ControlRequest::Join(without)).is_err());
    assert_eq!(state.nodes.len(), 3);
}

#[test]
fn a_certificate_names_the_node_once() {
    let mut state = founded(&[]);
    let mut request = JoinRequest { certified: Some(NodeId(9)), ..join_request(1) };
    let answer = joining::join(&mut state, &request, true, NOW).unwrap();
    assert_eq!((answer.node, state.cluster().unwrap().next_node), (NodeId(9), 10));
    request.request = 2;
    let error = joining::join(&mut state, &request, true, NOW).unwrap_err();
    assert!(error.to_string().contains("node n9, which has joined already"), "{error}");
}

#[test]
fn a_token_is_good_once_and_until_it_expires() {
    let mut state = founded(&[]);
    let secret = [5; 32];
    let hash: [u8; 32] = Sha256::digest(secret).into();
    let later = NOW.saturating_add(Duration::from_secs(60));
    let operator = Sender::operator("ann").unwrap();
    decided(&mut state, &operator, ControlRequest::CreateToken { hash, expires: later }).unwrap();
    let mut request = JoinRequest { secret: Some(secret), ..join_request(1) };
    let refused = |state: &ControlState, request: &JoinRequest, now| {
        joining::join(&mut state.clone(), request, true, now).unwrap_err().to_string()
    };
    assert!(refused(&state, &request, later).contains("has expired"));
    assert!(refused(&state, &join_request(1), NOW).contains("with a token"));
    assert!(refused(&state, &JoinRequest { secret: Some([6; 32]), ..join_request(1) }, NOW).contains("not known"));
    let answer = joining::join(&mut state, &request, true, NOW).unwrap();
    assert_eq!(joining::join(&mut state, &request, true, later).unwrap(), answer, "the same request may ask again");
    request.request = 2;
    assert!(refused(&state, &request, NOW).contains("used by another node"));
    let past = ControlRequest::CreateToken { hash: [9; 32], expires: NOW };
    assert!(decided(&mut state, &operator, past).is_err());
}

#[test]
fn a_start_counts_once_and_only_forward() {
    let mut state = cluster(2);
    announce(&mut state, 2, 5, 50).unwrap();
    announce(&mut state, 2, 5, 50).unwrap();
    for (boot, session) in [(5, 51), (4, 50), (0, 0)] {
        let error = announce(&mut state, 2, boot, session).unwrap_err();
        assert!(error.to_string().contains("old copy"), "{error}");
    }
    assert!(announce(&mut state, 3, 1, 1).unwrap_err().to_string().contains("not known in this cluster"));
    let foreign = Announcement { node: NodeId(1), boot: 9, session: 9, description: description("n1") };
    let error = decided(&mut state, &node(2), ControlRequest::Announce(foreign)).unwrap_err();
    assert!(error.to_string().contains("may not announce"), "{error}");
}

#[test]
fn only_nodes_and_operators_may_change_the_cluster() {
    let mut state = cluster(1);
    let (client, operator) = (Sender::client("web").unwrap(), Sender::operator("ann").unwrap());
    let gate = || ControlRequest::SetGate { name: "g".to_owned(), is_open: true };
    assert!(decided(&mut state, &client, gate()).is_err());
    assert!(decided(&mut state, &Sender::Joining, gate()).is_err());
    decided(&mut state, &operator, gate()).unwrap();
    assert!(state.gates["g"].is_open);
    assert!(decided(&mut state, &operator, ControlRequest::Register(Vec::new())).is_err());
    assert!(decided(&mut state, &client, ControlRequest::Join(join_request(3))).is_err());
}

#[test]
fn partitions_of_an_old_folder_are_kept_and_new_ones_come_after_them() {
    let mut state = cluster(1);
    let ids: Vec<PartitionId> = (40..43).map(PartitionId).collect();
    let adopted = ServiceRegistration { partitions: Some(ids.clone()), ..service("Old", Level::Persisted) };
    let twice = ServiceRegistration { partitions: Some(ids.clone()), ..service("Other", Level::Persisted) };
    let short = ServiceRegistration { partitions: Some(ids[..2].to_vec()), ..service("Short", Level::Persisted) };
    let registered = register::register(&mut state, &[adopted, service("New", Level::None)]).unwrap();
    let of = |place: usize| {
        registered[place].partitions.iter().map(|placed| (placed.id.0, placed.set.number)).collect::<Vec<_>>()
    };
    assert_eq!((of(0), of(1)), (vec![(40, 0), (41, 1), (42, 0)], vec![(43, 1), (44, 0), (45, 1)]));
    assert!(register::register(&mut state, &[twice]).is_err());
    assert!(register::register(&mut state, &[short]).is_err());
}

#[test]
fn a_confirmation_of_an_earlier_epoch_or_of_a_stranger_does_not_count() {
    let mut state = cluster(3);
    let set = SetId { level: Level::Persisted, number: 0 };
    let members = state.sets[&set].confirmed.clone();
    let (replica, at) = members.voters.iter().next().map(|(id, at)| (*id, *at)).unwrap();
    let confirm = |state: &mut ControlState, from: NodeId, replica, epoch| {
        let confirmation = Confirmation { set, replica, epoch, members: members.clone() };
        decided(state, &Sender::Node(from), ControlRequest::Confirm(confirmation))
    };
    confirm(&mut state, at, replica, Epoch(9)).unwrap();
    assert_eq!(confirm(&mut state, at, replica, Epoch(8)).unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(confirm(&mut state, at, ReplicaId(999), Epoch(10)).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(confirm(&mut state, NodeId(77), replica, Epoch(10)).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(state.sets[&set].confirmed_epoch, Epoch(9));
}

#[test]
fn founders_of_new_sets_are_spread_over_the_nodes() {
    let mut state = cluster(3);
    decided(&mut state, &node(1), ControlRequest::Register(vec![service("Cache", Level::Volatile)])).unwrap();
    let founders: BTreeSet<NodeId> = (0..2)
        .map(|number| {
            let set = &state.sets[&volatile(number)];
            assert_eq!((set.wanted.voters.len(), set.confirmed.is_empty()), (3, true));
            set.wanted.voters[&set.founder]
        })
        .collect();
    assert_eq!(founders.len(), 2);
}

#[test]
fn a_volatile_replica_that_was_lost_comes_back_with_a_new_id() {
    let mut state = cluster(3);
    decided(&mut state, &node(1), ControlRequest::Register(vec![service("Cache", Level::Volatile)])).unwrap();
    confirm_all(&mut state);
    let before = state.sets[&volatile(0)].clone();
    announce(&mut state, 3, 2, 2).unwrap();
    let after = state.sets[&volatile(0)].clone();
    let old = before.wanted.on(NodeId(3)).unwrap();
    assert_ne!(after.wanted.on(NodeId(3)), Some(old));
    assert_eq!((after.data_loss, after.lost.contains(&old), &after.confirmed), (0, true, &before.confirmed));
    assert!(!incarnation::has_lost_quorum(&after));
    // A second one: the set stands still until a confirmation shows that the first was replaced before.
    announce(&mut state, 2, 2, 2).unwrap();
    assert!(incarnation::has_lost_quorum(&state.sets[&volatile(0)]));
    let mut doubts = Doubts::new();
    let start = time::now();
    assert!(settle_doubts(&mut doubts, &state, start).is_empty());
    assert!(settle_doubts(&mut doubts, &state, start + QUORUM_GRACE / 2).is_empty());
    let lost = settle_doubts(&mut doubts, &state, start + QUORUM_GRACE);
    assert_eq!(lost.len(), 2);
    reconcile(&mut state, &lost).unwrap();
    let again = &state.sets[&volatile(0)];
    assert_eq!((again.data_loss, again.confirmed.is_empty(), again.lost.is_empty()), (1, true, true));
    let ids: BTreeSet<ReplicaId> = again.wanted.all().map(|(id, _)| id).collect();
    assert!(after.wanted.all().chain(before.wanted.all()).all(|(id, _)| !ids.contains(&id)), "all ids are new");
    assert!(again.wanted.voters[&again.founder] != NodeId(1), "a node that has just started founds it");
    assert!(settle_doubts(&mut doubts, &state, start + QUORUM_GRACE * 2).is_empty());
}

#[test]
fn a_lone_node_that_starts_again_begins_its_volatile_sets_anew_at_once() {
    let mut state = cluster(1);
    decided(&mut state, &node(1), ControlRequest::Register(vec![service("Cache", Level::Volatile)])).unwrap();
    // Before anything is confirmed, and afterwards.
    for expected in 1..4 {
        announce(&mut state, 1, 1 + u64::from(expected), 1).unwrap();
        let set = state.sets[&volatile(1)].clone();
        assert_eq!((set.data_loss, set.wanted.on(NodeId(1))), (expected, Some(set.founder)));
        if expected > 1 {
            confirm_all(&mut state);
        }
    }
}

#[test]
fn a_node_that_leaves_is_removed_when_it_holds_nothing() {
    let mut state = cluster(4);
    let remove = |node, is_gone| ControlRequest::RemoveNode { node: NodeId(node), is_gone };
    decided(&mut state, &node(1), remove(2, false)).unwrap();
    decided(&mut state, &node(1), remove(2, false)).unwrap();
    assert_eq!((state.operations.len(), state.nodes[&NodeId(2)].state), (1, NodeState::Up));
    let error = decided(&mut state, &node(1), remove(3, false)).unwrap_err();
    assert!(error.to_string().contains("2 nodes for sets of 3 replicas"), "{error}");
    confirm_all(&mut state);
    assert_eq!((state.operations.len(), state.nodes[&NodeId(2)].state), (0, NodeState::Removed));
    assert!(state.sets.values().all(|set| set.wanted.on(NodeId(2)).is_none() && set.wanted.voters.len() == 3));
    assert!(announce(&mut state, 2, 2, 2).unwrap_err().to_string().contains("was removed"));
    let again = ControlRequest::Join(join_request(2));
    assert!(decided(&mut state, &Sender::Joining, again).unwrap_err().to_string().contains("was removed"));
    // One that is gone is refused at once; its replicas stay until there is a place for them.
    decided(&mut state, &node(1), remove(3, true)).unwrap();
    assert_eq!(state.nodes[&NodeId(3)].state, NodeState::Removed);
    let data = || state.sets.values().filter(|set| set.id != CONTROL_SET);
    assert!(data().all(|set| set.wanted.voters.len() == 3));
    assert!(decided(&mut cluster(1), &node(1), remove(1, true)).is_err());
}
