use mainstay_core::{ClusterId, Error, NodeId, Result};

use crate::class::{Class, Lane};
use crate::kind::{Audience, Kind};
use crate::party::{Peer, Sender, SessionId};

/// Who has connected, or wants to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Introduction {
    /// Who it is.
    pub sender: Sender,
    /// What messages to it are addressed to.
    pub peer: Peer,
    /// The cluster that it belongs to; `None` if it does not know one yet.
    pub cluster: Option<ClusterId>,
    /// Which start of its folder this is, of a node.
    pub boot: u64,
    /// The number that this process has drawn when it started. Two processes with one boot counter differ by it.
    pub session: SessionId,
    /// The features that it has, as bits.
    pub features: u64,
    /// The version of frames that both speak.
    pub protocol: u16,
    /// How far its wall clock is ahead of ours, in milliseconds, to within the time that the handshake took.
    pub clock_ahead_ms: i64,
    /// Which connection it is.
    pub lane: Lane,
    /// Where it comes from, for people.
    pub remote: String,
}

/// Decides who may connect and who may send what.
///
/// To be correct:
/// - Both functions decide at once, from memory: they run between two frames.
/// - [`allows`](Policy::allows) is asked for every message before its body is kept, and says the same for the same sender.
pub trait Policy: Send + Sync + 'static {
    /// May this process connect, or be connected to? It is asked after the certificate, the cluster and the clock were found in
    /// order, and of a node that it is not among the removed ones.
    ///
    /// # Errors
    /// The reason, which the process is told.
    fn admit(&self, introduction: &Introduction) -> Result<()>;

    /// May this sender send this kind of message in this class?
    fn allows(&self, sender: &Sender, class: Class, kind: Kind) -> bool;
}

/// The policy of a cluster: log traffic and whatever is not said otherwise is for member nodes, clients call, operators administer
/// and call. A process without a certificate can connect only where [`joining`](RolePolicy::joining) was asked for, and
/// then send the kinds of [`Audience::Joining`] alone.
#[derive(Debug, Clone, Copy, Default)]
pub struct RolePolicy {
    joining: bool,
}

impl RolePolicy {
    /// The same, and processes without a certificate may connect, to join.
    #[must_use]
    pub fn joining(self) -> Self {
        Self { joining: true }
    }
}

impl Policy for RolePolicy {
    fn admit(&self, introduction: &Introduction) -> Result<()> {
        match introduction.sender {
            Sender::Joining if !self.joining => Err(Error::invalid(
                "a process without a certificate may not connect here: join with a token, or give it a certificate",
            )),
            _ => Ok(()),
        }
    }

    fn allows(&self, sender: &Sender, class: Class, kind: Kind) -> bool {
        match (sender, kind.audience()) {
            (Sender::Node(_), _) => true,
            // What others wait behind is for nodes, whatever the kind says.
            (_, _) if matches!(class, Class::Log | Class::Heartbeat | Class::Reply) => false,
            (Sender::Client(_), Audience::Callers) => true,
            (Sender::Operator(_), Audience::Callers | Audience::Administrators) => true,
            (Sender::Joining, Audience::Joining) => self.joining,
            _ => false,
        }
    }
}

/// The refusal of a node that was taken out of the cluster.
pub(crate) fn removed(node: NodeId) -> Error {
    Error::invalid(format!(
        "node {node} was removed from this cluster: start it with an empty data folder, and it joins as a new node"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_role_sends_what_it_may_and_no_more() {
        let (node, client) = (Sender::Node(NodeId(1)), Sender::client("web").unwrap());
        let (operator, joining) = (Sender::operator("ann").unwrap(), Sender::Joining);
        let kinds = [Kind::member(1), Kind::call(1), Kind::administration(1), Kind::joining(1), Kind::from_code(7)];
        let policy = RolePolicy::default().joining();
        let may = |sender: &Sender, class| kinds.map(|kind| policy.allows(sender, class, kind));
        for class in [Class::Call, Class::Bulk, Class::Event] {
            assert_eq!(may(&node, class), [true; 5]);
            assert_eq!(may(&client, class), [false, true, false, false, false]);
            assert_eq!(may(&operator, class), [false, true, true, false, false]);
            assert_eq!(may(&joining, class), [false, false, false, true, false]);
        }
        for class in [Class::Log, Class::Heartbeat] {
            assert_eq!(may(&node, class), [true; 5]);
            for guest in [&client, &operator, &joining] {
                assert_eq!(may(guest, class), [false; 5]);
            }
        }
        assert!(!RolePolicy::default().allows(&joining, Class::Call, Kind::joining(1)));
    }
}
