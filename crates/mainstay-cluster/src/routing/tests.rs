use std::collections::BTreeSet;

use bytes::Bytes;
use mainstay_core::{Error, ErrorKind, Level, PartitionId, ReplicaId, Result};
use mainstay_replica::{Partition, RoleState};
use tokio::sync::watch;

use super::*;
use crate::control::ControlState;
use crate::control::record::{MemberList, SetRecord};
use crate::node_sets::{HeldReplica, Working};

const SET: SetId = SetId { level: Level::Persisted, number: 3 };
const NONE: SetId = SetId { level: Level::None, number: 3 };

/// A node with at most one replica, of which only the role is asked.
#[derive(Debug, Default)]
struct OneRole(Option<watch::Sender<RoleState>>);

impl NodeSets for OneRole {
    fn held(&self) -> Vec<HeldReplica> {
        Vec::new()
    }
    fn roles(&self, set: SetId) -> Option<watch::Receiver<RoleState>> {
        self.0.as_ref().filter(|_| set == SET).map(watch::Sender::subscribe)
    }
    fn create<'a>(&'a self, _: SetId, _: ReplicaId, _: u32) -> Working<'a, Result<()>> {
        Box::pin(async { Ok(()) })
    }
    fn drop_replica<'a>(&'a self, _: SetId, _: ReplicaId) -> Working<'a, Result<()>> {
        Box::pin(async { Ok(()) })
    }
    fn found<'a>(&'a self, _: SetId) -> Working<'a, Result<()>> {
        Box::pin(async { Ok(()) })
    }
    fn set_members<'a>(&'a self, _: SetId, _: &'a MemberList) -> Working<'a, Result<()>> {
        Box::pin(async { Ok(()) })
    }
    fn expect(&self, _: SetId, _: BTreeSet<NodeId>) {}
    fn partition(&self, _: SetId, _: PartitionId) -> Result<Partition> {
        Err(Error::new(ErrorKind::NotFound, "none"))
    }
    fn receive(&self, _: NodeId, _: SetId, _: Bytes) -> Working<'static, Bytes> {
        Box::pin(async { Bytes::new() })
    }
}

fn table(role: Option<RoleState>) -> (RoutingTable, Arc<OneRole>, watch::Sender<Arc<ControlState>>) {
    let members = MemberList {
        voters: (1..4).map(|id| (ReplicaId(10 + id), NodeId(id))).collect(),
        learners: std::collections::BTreeMap::new(),
    };
    let record = SetRecord {
        id: SET,
        data_loss: 0,
        wanted: members.clone(),
        confirmed: members,
        confirmed_epoch: Epoch(1),
        founder: ReplicaId(11),
        lost: BTreeSet::new(),
        retired: BTreeSet::new(),
    };
    let mut state = ControlState::default();
    state.sets.insert(SET, record);
    let (sender, receiver) = watch::channel(Arc::new(state));
    let sets = Arc::new(OneRole(role.map(watch::Sender::new)));
    (RoutingTable::new(NodeId(1), sets.clone(), ControlWatch::of(receiver)), sets, sender)
}

fn role(role: Role, epoch: u64, primary: Option<u64>) -> RoleState {
    RoleState { role, epoch: Epoch(epoch), primary: primary.map(NodeId) }
}

fn node(route: SetRoute) -> Option<u64> {
    route.node.map(|node| node.0)
}

#[test]
fn without_a_replica_the_members_are_tried_in_turn_until_one_knows() {
    let (table, _sets, _state) = table(None);
    assert_eq!(table.route(SET), SetRoute { node: Some(NodeId(1)), epoch: None });
    table.unreachable(SET, NodeId(1));
    assert_eq!(node(table.route(SET)), Some(2));
    table.redirected(SET, NodeId(2), None);
    assert_eq!(node(table.route(NONE)), Some(3), "level none is where the persisted set is");
    table.redirected(NONE, NodeId(3), Some(NodeId(2)));
    assert_eq!(node(table.route(SET)), Some(2));
    table.confirmed(SET, NodeId(2), Epoch(7));
    assert_eq!(table.route(SET), SetRoute { node: Some(NodeId(2)), epoch: Some(Epoch(7)) });
    // What is older does not count, nor does a complaint about another node.
    table.confirmed(SET, NodeId(3), Epoch(6));
    table.unreachable(SET, NodeId(3));
    assert_eq!(node(table.route(SET)), Some(2));
    table.unreachable(SET, NodeId(2));
    assert_eq!(node(table.route(SET)), Some(2), "the next in turn, from the first on");
    let unknown = SetId { level: Level::Persisted, number: 99 };
    table.confirmed(unknown, NodeId(2), Epoch(1));
    assert_eq!(table.route(unknown), SetRoute { node: None, epoch: None });
}

#[test]
fn the_own_replica_says_who_is_primary_in_the_latest_epoch() {
    let (table, sets, _state) = table(Some(role(Role::Primary, 5, Some(1))));
    let own = sets.0.as_ref().unwrap();
    assert_eq!(table.route(SET), SetRoute { node: Some(NodeId(1)), epoch: Some(Epoch(5)) });
    own.send_replace(role(Role::Secondary, 6, Some(3)));
    assert_eq!(table.route(SET), SetRoute { node: Some(NodeId(3)), epoch: Some(Epoch(6)) });
    // A caller has learned more than the replica knows.
    table.confirmed(SET, NodeId(2), Epoch(7));
    assert_eq!(node(table.route(SET)), Some(2));
    own.send_replace(role(Role::Secondary, 8, Some(3)));
    assert_eq!(node(table.route(SET)), Some(3));
    own.send_replace(role(Role::Secondary, 9, None));
    assert_eq!(node(table.route(SET)), Some(2), "nothing later is known");
    table.redirected(SET, NodeId(2), Some(NodeId(2)));
    own.send_replace(role(Role::Primary, 9, Some(1)));
    assert_eq!(node(table.route(SET)), Some(1));
}
