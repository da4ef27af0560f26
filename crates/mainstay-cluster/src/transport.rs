use std::fmt;
use std::sync::Arc;

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use mainstay_core::time::Duration;
use mainstay_core::{Error, ErrorKind, NodeId, Result, SetId};
use mainstay_replica::{Answer, Traffic, Transport};
use mainstay_wire::{Class, Endpoint};
use parking_lot::RwLock;

use crate::control::{level_code, level_of};
use crate::formats::REPLICA_MESSAGE;
use crate::kinds::REPLICA;

/// Version, level and number of the set.
const HEAD_BYTES: usize = 1 + 1 + 2;

/// How long the wire keeps a request whose sender has not given it up before. Senders do so earlier.
const TIME_LIMIT: Duration = Duration::from_secs(600);

/// Carries the requests of this node's replicas over the wire.
///
/// It is made before the endpoint, because replicas start before it is known which start of the folder this is, which the
/// endpoint has to say. Until the node is started, no other is reached.
#[derive(Clone, Default)]
pub struct WireTransport {
    endpoint: Arc<RwLock<Option<Endpoint>>>,
}

impl WireTransport {
    /// A transport without an endpoint.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sends by this endpoint from now on.
    pub(crate) fn attach(&self, endpoint: Endpoint) {
        *self.endpoint.write() = Some(endpoint);
    }

    /// Sends nothing any more, and lets go of the endpoint.
    pub(crate) fn detach(&self) {
        *self.endpoint.write() = None;
    }

    fn send(&self, to: NodeId, set: SetId, class: Class, request: &Bytes) -> Answer {
        let Some(endpoint) = self.endpoint.read().clone() else {
            let text = format!("node {to} cannot be reached, because this node is not on the network: retry");
            return Box::pin(std::future::ready(Err(Error::new(ErrorKind::Retry, text))));
        };
        let body = frame(set, request);
        // What does not fit among heartbeats is no heartbeat.
        let class = if body.len() > class.message_bytes_max() { Class::Log } else { class };
        Box::pin(async move { endpoint.call(to.into(), class, REPLICA, body, TIME_LIMIT).await })
    }
}

impl fmt::Debug for WireTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WireTransport").field("is_attached", &self.endpoint.read().is_some()).finish()
    }
}

impl Transport for WireTransport {
    fn call(&self, to: NodeId, set: SetId, traffic: Traffic, request: Bytes) -> Answer {
        self.send(to, set, class_of(traffic), &request)
    }
}

/// What a request travels as, so that it waits behind nothing that it must not wait behind.
fn class_of(traffic: Traffic) -> Class {
    match traffic {
        Traffic::Heartbeat => Class::Heartbeat,
        Traffic::Log => Class::Log,
        Traffic::Snapshot => Class::Bulk,
    }
}

/// A request with the set that it is for.
pub(crate) fn frame(set: SetId, request: &Bytes) -> Bytes {
    let mut body = BytesMut::with_capacity(HEAD_BYTES + request.len());
    body.put_u8(REPLICA_MESSAGE.written());
    body.put_u8(level_code(set.level));
    body.put_u16_le(set.number);
    body.put_slice(request);
    body.freeze()
}

/// The set that a request is for, and the request.
///
/// # Errors
/// `Corrupt` or `UnknownVersion`.
pub(crate) fn unframe(mut body: Bytes) -> Result<(SetId, Bytes)> {
    let damaged = || Error::corrupt("a request to a replica does not say to which: its bytes are damaged");
    let version = *body.first().ok_or_else(damaged)?;
    REPLICA_MESSAGE.check(version)?;
    if body.len() < HEAD_BYTES {
        return Err(damaged());
    }
    body.advance(1);
    let level = level_of(body.get_u8()).ok_or_else(damaged)?;
    let number = body.get_u16_le();
    Ok((SetId { level, number }, body))
}

#[cfg(test)]
mod tests {
    use mainstay_core::Level;
    use mainstay_core::format::golden::{Golden, damaged};

    use super::*;

    #[test]
    fn golden_bytes_of_a_request_and_whatever_else_comes() {
        let set = SetId { level: Level::Volatile, number: 0x0102 };
        let framed = frame(set, &Bytes::from_static(b"request"));
        Golden::of(env!("CARGO_MANIFEST_DIR")).check("replica-request", &REPLICA_MESSAGE, &framed);
        assert_eq!(unframe(framed.clone()).unwrap(), (set, Bytes::from_static(b"request")));
        for (_, bytes) in damaged(&framed) {
            let _ = unframe(bytes.into());
        }
        assert_eq!(unframe(Bytes::from_static(b"\x02\0\0\0")).unwrap_err().kind(), ErrorKind::UnknownVersion);
        for wrong in [&b""[..], b"\x01", b"\x01\0\0", b"\x01\x03\0\0"] {
            assert_eq!(unframe(Bytes::from_static(wrong)).unwrap_err().kind(), ErrorKind::Corrupt);
        }
    }

    #[tokio::test]
    async fn a_node_that_is_not_on_the_network_reaches_none() {
        let set = SetId { level: Level::Persisted, number: 1 };
        let error = WireTransport::new().call(NodeId(2), set, Traffic::Log, Bytes::new()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Retry);
    }
}
