use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;

use bytes::Bytes;
use mainstay_core::{NodeId, Result, SetId};

/// How replicas reach each other: one request, one answer, both opaque bytes.
///
/// To be correct:
/// - The request is handed to [`NodeReplicas::receive`](crate::NodeReplicas::receive) (or [`Replica::receive`](crate::Replica::receive))
///   on the node it is addressed to, unchanged and with the node that it comes from, and the answer is handed back unchanged. The
///   sender is who the network has made sure that it is, not who it says that it is.
/// - It may be lost, late, out of order or delivered twice; then the caller sees an error or nothing. It is never
///   altered: a transport over a real network checks what it carries.
/// - Waiting for one answer does not hold up other requests, and no kind of [`Traffic`] holds up another.
/// - Requests of one kind to one node are best handed over in the order in which they were made: several requests with entries are
///   under way at a time, and one that overtakes another is refused and sent again.
pub trait Transport: Debug + Send + Sync + 'static {
    /// Sends a request to the replica of a set on a node and waits for the answer.
    ///
    /// # Errors
    /// `Retry` if the node cannot be reached. The caller limits the time.
    fn call(&self, to: NodeId, set: SetId, traffic: Traffic, request: Bytes) -> Answer;
}

/// What a request is for, which says what it must not wait behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Traffic {
    /// Heartbeats, votes, transfers of leadership, requests to join: small, and a set without them has no primary.
    Heartbeat,
    /// Log entries, and that they are committed.
    Log,
    /// Pieces of a state: large, and in no hurry.
    Snapshot,
}

/// An answer on its way.
pub type Answer = Pin<Box<dyn Future<Output = Result<Bytes>> + Send>>;
