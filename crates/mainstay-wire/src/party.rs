use std::fmt;
use std::sync::Arc;

use mainstay_core::{Error, NodeId, Result};

/// The longest name of a client or an operator.
pub const NAME_BYTES_MAX: usize = 64;

/// The authenticated sender of a message. Where TLS is in use this is what the certificate says, and nothing else.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Sender {
    /// A node of the cluster.
    Node(NodeId),
    /// A process that is no node and calls.
    Client(Arc<str>),
    /// A person or a program that administers the cluster.
    Operator(Arc<str>),
    /// A process without a certificate. It can ask to join, if the policy lets it connect at all.
    Joining,
}

/// The other end of connections: what messages are addressed to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Peer {
    /// A node, wherever it is now.
    Node(NodeId),
    /// A process that is no node and has connected here, for as long as it is connected.
    Session(SessionId),
}

/// A number that a process which is no node draws when it starts. Two processes with one certificate differ by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u128);

impl Sender {
    /// A client.
    ///
    /// # Errors
    /// `Invalid` if the name is not 1 to 64 of `a`–`z`, `A`–`Z`, `0`–`9`, `-`, `_` and `.`.
    pub fn client(name: &str) -> Result<Self> {
        check_name(name).map(|()| Self::Client(name.into()))
    }

    /// An operator.
    ///
    /// # Errors
    /// As [`client`](Self::client).
    pub fn operator(name: &str) -> Result<Self> {
        check_name(name).map(|()| Self::Operator(name.into()))
    }
}

/// A name stands in certificates and log lines, so it has no character that means something there.
fn check_name(name: &str) -> Result<()> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.chars().all(allowed) {
        let shown: String = name.chars().take(NAME_BYTES_MAX).collect();
        return Err(Error::invalid(format!(
            "{shown:?} is no name of a client or an operator: use 1 to {NAME_BYTES_MAX} letters, digits, '-', '_' and '.'"
        )));
    }
    Ok(())
}

impl fmt::Display for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Sender::Node(id) => write!(f, "node {id}"),
            Sender::Client(name) => write!(f, "client {name}"),
            Sender::Operator(name) => write!(f, "operator {name}"),
            Sender::Joining => f.write_str("a process without a certificate"),
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Peer::Node(id) => write!(f, "node {id}"),
            Peer::Session(SessionId(id)) => write!(f, "session {id:032x}"),
        }
    }
}

impl From<NodeId> for Peer {
    fn from(id: NodeId) -> Self {
        Peer::Node(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain() {
        assert_eq!(Sender::client("web-1.eu_a").unwrap().to_string(), "client web-1.eu_a");
        for wrong in ["", "a/b", "a b", "ä", &"x".repeat(65)] {
            assert!(Sender::client(wrong).is_err() && Sender::operator(wrong).is_err(), "{wrong:?}");
        }
    }
}
