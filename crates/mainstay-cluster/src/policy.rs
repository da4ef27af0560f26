use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use mainstay_core::{Error, NodeId, Result};
use mainstay_wire::{Class, Introduction, Kind, Policy, RolePolicy, Sender, SessionId};
use parking_lot::Mutex;

use crate::control::ControlWatch;
use crate::control::record::NodeState;

/// What the refusal of an old folder says. A node that reads it knows that it must not go on.
const OLD_COPY: &str = "this folder is an old copy";

/// What the refusal of a removed node says, here and in `mainstay-wire`.
const REMOVED: &str = "was removed from this cluster";

/// Who may connect to a node of a cluster: no node that was removed, and none whose folder is an old copy. What each may send
/// is as [`RolePolicy`] has it, by which clients never send what members do.
#[derive(Debug, Default)]
pub struct MembershipPolicy {
    control: OnceLock<ControlWatch>,
    /// The latest start of each node that has connected here, in case the control state has not heard of it yet.
    seen: Mutex<BTreeMap<NodeId, Start>>,
}

/// A start of a node: of two with one boot counter one has a copied folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Start {
    boot: u64,
    session: SessionId,
}

impl MembershipPolicy {
    /// A policy that knows no control state yet.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Looks into this control state from now on. The first one counts.
    pub fn attach(&self, control: ControlWatch) {
        let _ = self.control.set(control);
    }

    fn admit_node(&self, node: NodeId, start: Start) -> Result<()> {
        let control = self.control.get().map(ControlWatch::get);
        if let Some(record) = control.as_ref().and_then(|state| state.nodes.get(&node)) {
            if record.state == NodeState::Removed {
                return Err(removed(node));
            }
            check_start(node, Start { boot: record.boot, session: SessionId(record.session) }, start)?;
        }
        let mut seen = self.seen.lock();
        if let Some(known) = seen.get(&node) {
            check_start(node, *known, start)?;
        }
        seen.insert(node, start);
        Ok(())
    }
}

impl Policy for MembershipPolicy {
    fn admit(&self, introduction: &Introduction) -> Result<()> {
        RolePolicy::default().joining().admit(introduction)?;
        match introduction.sender {
            Sender::Node(node) => {
                self.admit_node(node, Start { boot: introduction.boot, session: introduction.session })
            }
            _ => Ok(()),
        }
    }

    fn allows(&self, sender: &Sender, class: Class, kind: Kind) -> bool {
        RolePolicy::default().joining().allows(sender, class, kind)
    }
}

/// Refuses a start that is before the latest one, or another process with the same counter.
fn check_start(node: NodeId, latest: Start, start: Start) -> Result<()> {
    if start.boot > latest.boot || start == latest {
        return Ok(());
    }
    Err(old_copy(node, latest.boot, start.boot))
}

/// The refusal of a node that was removed.
pub(crate) fn removed(node: NodeId) -> Error {
    Error::invalid(format!("node {node} {REMOVED}: start it with an empty data folder, and it joins as a new node"))
}

/// The refusal of a folder that is not the latest.
pub(crate) fn old_copy(node: NodeId, latest: u64, found: u64) -> Error {
    Error::invalid(format!(
        "node {node} has started for the {found}. time, and start {latest} of it is known: {OLD_COPY}, and would forget what the \
         latest has promised; start the latest, or an empty folder, which joins as a new node"
    ))
}

/// True for an answer after which a node must not go on.
pub(crate) fn is_final(error: &Error) -> bool {
    let text = error.to_string();
    text.contains(OLD_COPY) || text.contains(REMOVED)
}

#[cfg(test)]
mod tests {
    use mainstay_core::ClusterId;
    use mainstay_wire::{Lane, Peer};

    use super::*;
    use crate::control::ControlState;
    use crate::testing::node_record;

    fn introduction(node: u64, boot: u64, session: u128) -> Introduction {
        Introduction {
            sender: Sender::Node(NodeId(node)),
            peer: Peer::Node(NodeId(node)),
            cluster: Some(ClusterId(7)),
            boot,
            session: SessionId(session),
            features: 0,
            protocol: 1,
            clock_ahead_ms: 0,
            lane: Lane::Data,
            remote: "test".to_owned(),
        }
    }

    fn refusal(policy: &MembershipPolicy, introduction: &Introduction) -> String {
        let error = policy.admit(introduction).unwrap_err();
        assert!(is_final(&error), "{error}");
        error.to_string()
    }

    #[test]
    fn old_starts_copies_and_removed_nodes_are_refused_by_name() {
        let policy = MembershipPolicy::new();
        // Before the control state is known, by what was seen.
        policy.admit(&introduction(2, 5, 1)).unwrap();
        policy.admit(&introduction(2, 5, 1)).unwrap();
        assert!(refusal(&policy, &introduction(2, 5, 2)).contains("node n2"));
        assert!(refusal(&policy, &introduction(2, 4, 1)).contains("old copy"));

        let mut state = ControlState::default();
        for (id, boot) in [(1, 3), (2, 9), (3, 1)] {
            state.nodes.insert(NodeId(id), node_record(id, boot));
        }
        state.nodes.get_mut(&NodeId(3)).unwrap().state = NodeState::Removed;
        let (_sender, receiver) = tokio::sync::watch::channel(Arc::new(state));
        policy.attach(ControlWatch::of(receiver));
        assert!(refusal(&policy, &introduction(2, 6, 1)).contains("start 9 of it is known"));
        assert!(
            refusal(&policy, &introduction(1, 3, 77)).contains("old copy"),
            "another process with the same counter"
        );
        policy.admit(&introduction(1, 3, u128::from(node_record(1, 3).session as u64))).unwrap();
        policy.admit(&introduction(1, 4, 77)).unwrap();
        assert!(refusal(&policy, &introduction(3, 8, 1)).contains("was removed"));
        policy.admit(&introduction(4, 1, 1)).unwrap();
    }

    #[test]
    fn clients_do_not_send_what_members_do() {
        let policy = MembershipPolicy::new();
        let client = Sender::client("web").unwrap();
        assert!(!policy.allows(&client, Class::Call, crate::kinds::REPLICA));
        assert!(!policy.allows(&client, Class::Call, crate::kinds::CONTROL));
        assert!(!policy.allows(&client, Class::Call, crate::kinds::OPERATE));
        assert!(!policy.allows(&Sender::Joining, Class::Call, crate::kinds::CONTROL));
        assert!(policy.allows(&Sender::Joining, Class::Call, crate::kinds::JOIN));
        assert!(policy.allows(&Sender::Node(NodeId(1)), Class::Log, crate::kinds::REPLICA));
    }
}
