use std::fmt;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use mainstay_core::time::Duration;
use mainstay_core::{Epoch, NodeId, Result};

use crate::router::Address;

/// The seam to other processes: it sends the bytes of a call to a node, and knows which node a call is for.
///
/// To be correct:
/// - `call` says what may have happened. `OutcomeUnknown`: the request may have been carried out. `Retry`, `Overloaded`,
///   `Timeout`, `NotFound`: it was not sent, and a later try may succeed. Any other kind: no try will succeed.
/// - A request is given to the receiver's [`Inbound::receive`](crate::Inbound::receive) at most once for each `call`.
/// - `route` and `redirect` neither block nor wait. `route` may be wrong, because the node that is asked knows better and says so.
pub trait RemoteCalls: fmt::Debug + Send + Sync + 'static {
    /// Sends a request, and waits for the answer. Dropping the future gives up.
    fn call(&self, to: NodeId, request: Bytes, time_limit: Duration) -> BoxFuture<'static, Result<Bytes>>;

    /// The node that is believed to be the primary of a partition that is not open here.
    fn route(&self, address: &Address) -> RemoteRoute;

    /// Learns from a call that a route was wrong, or what the right one is.
    fn redirect(&self, address: &Address, redirect: Redirect);
}

/// Where a partition is believed to be, in another process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RemoteRoute {
    /// The node of the primary; `None` if it is not known.
    pub node: Option<NodeId>,
    /// The epoch of the primary, where it is known. A node that is primary in an earlier one has lost the role and does not know yet.
    pub epoch: Option<Epoch>,
}

/// What a call has learned about its route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Redirect {
    /// A node is not the primary.
    NotPrimary {
        /// The node that said so.
        from: NodeId,
        /// The primary that it knows of.
        hint: Option<NodeId>,
    },
    /// A node cannot be reached.
    Unreachable {
        /// The node.
        node: NodeId,
    },
    /// A node has answered as the primary.
    Answered {
        /// The node.
        node: NodeId,
        /// Its epoch.
        epoch: Epoch,
    },
}
