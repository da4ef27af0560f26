//! Calls between processes: the bytes of a call and of its answer, how a call finds its callee and is sent again, and how a call that
//! has come from elsewhere is made here.
//!
//! Out: a [`Caller`](crate::Caller) that does not find the callee here makes an [`OutgoingCall`](outgoing::OutgoingCall), which
//! sends a [`CallRequest`] to the node that the [`Router`](crate::Router) names, until there is a [`CallReply`] or the time is over.
//! In: [`Inbound`] looks up the partition and the method by name, and makes the call by a local `Caller`.
//!
//! The bytes are in `docs/internals/remote-calls.md`. This module does not know connections: [`RemoteCalls`] is the seam.

pub(crate) mod fields;
pub(crate) mod formats;
pub(crate) mod reply;
pub(crate) mod request;

pub(crate) mod lanes;
pub(crate) mod outgoing;
pub(crate) mod partition_call;
pub(crate) mod remote_calls;

pub(crate) mod inbound;

pub use inbound::{INBOUND_CALLS_MAX, Inbound};
pub use remote_calls::{Redirect, RemoteCalls, RemoteRoute};
pub use reply::CallReply;
pub use request::{CallRequest, REQUEST_BYTES_MAX};
