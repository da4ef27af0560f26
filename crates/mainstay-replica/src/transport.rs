use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;

use bytes::Bytes;
use mainstay_core::{NodeId, Result, SetId};

/// How replicas reach each other: one request, one answer, both opaque bytes.
///
/// To be correct:
/// - The request is handed to [`NodeReplicas::receive`](crate::NodeReplicas::receive) (or [`Replica::receive`](crate::Replica::receive))
///   on the node it is addressed to, unchanged, and the answer is handed back unchanged.
/// - It may be lost, late, out of order or delivered twice; then the caller sees an error or nothing. It is never
///   altered: a transport over a real network checks what it carries.
/// - Waiting for one answer does not hold up other requests.
pub trait Transport: Debug + Send + Sync + 'static {
    /// Sends a request to the replica of a set on a node and waits for the answer.
    ///
    /// # Errors
    /// `Retry` if the node cannot be reached. The caller limits the time.
    fn call(&self, to: NodeId, set: SetId, request: Bytes) -> Answer;
}

/// An answer on its way.
pub type Answer = Pin<Box<dyn Future<Output = Result<Bytes>> + Send>>;
