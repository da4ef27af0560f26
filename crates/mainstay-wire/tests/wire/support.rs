//! Endpoints for tests.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use mainstay_core::{ClusterId, NodeId, Result, time};
use mainstay_wire::sim::SimNetwork;
use mainstay_wire::{
    Address, Class, Endpoint, EndpointOptions, Incoming, Introduction, Kind, Lane, Peer, Sender, Serve,
};
use parking_lot::Mutex;

pub(crate) const CLUSTER: ClusterId = ClusterId(0xc1);

/// Answered with its body.
pub(crate) const ECHO: Kind = Kind::call(1);
/// Kept until the test lets go of it.
pub(crate) const HOLD: Kind = Kind::call(2);
/// Noted with its sender, and answered with nothing.
pub(crate) const NOTE: Kind = Kind::call(3);
/// Never answered, and ended with its caller.
pub(crate) const NEVER: Kind = Kind::call(4);
/// As [`NOTE`], of nodes alone.
pub(crate) const MEMBER: Kind = Kind::member(1);
/// As [`NOTE`], of who joins.
pub(crate) const JOIN: Kind = Kind::joining(1);

pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const MINUTE: Duration = Duration::from_secs(60);

/// What serves in tests.
#[derive(Default)]
pub(crate) struct Desk {
    pub(crate) held: Mutex<Vec<Incoming>>,
    pub(crate) notes: Mutex<Vec<(Sender, Kind, Bytes)>>,
    pub(crate) connected: Mutex<Vec<(Peer, Lane)>>,
    pub(crate) disconnected: Mutex<Vec<(Peer, Lane, String)>>,
    pub(crate) running: Arc<AtomicUsize>,
}

impl Serve for Desk {
    fn receive(&self, incoming: Incoming) {
        match incoming.kind() {
            ECHO => {
                let body = incoming.body().clone();
                incoming.answer(Ok(body));
            }
            HOLD => self.held.lock().push(incoming),
            NEVER => {
                self.running.fetch_add(1, Ordering::SeqCst);
                let running = Running(self.running.clone());
                incoming.answer_later(async move {
                    let _running = running;
                    std::future::pending().await
                });
            }
            NOTE | MEMBER | JOIN => {
                self.notes.lock().push((incoming.sender().clone(), incoming.kind(), incoming.body().clone()));
                incoming.answer(Ok(Bytes::new()));
            }
            _ => incoming.refuse_kind(),
        }
    }

    fn connected(&self, peer: &Introduction) {
        self.connected.lock().push((peer.peer, peer.lane));
    }

    fn disconnected(&self, peer: &Introduction, cause: &str) {
        self.disconnected.lock().push((peer.peer, peer.lane, cause.to_owned()));
    }
}

struct Running(Arc<AtomicUsize>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A process on a simulated network.
pub(crate) struct Process {
    pub(crate) endpoint: Endpoint,
    pub(crate) desk: Arc<Desk>,
}

impl Process {
    pub(crate) async fn call(&self, to: u64, kind: Kind, body: impl Into<Bytes>) -> Result<Bytes> {
        self.endpoint.call(peer(to), Class::Call, kind, body.into(), 5 * SECOND).await
    }
}

pub(crate) fn peer(id: u64) -> Peer {
    Peer::Node(NodeId(id))
}

pub(crate) fn address(id: u64) -> Address {
    format!("n{id}:7400").parse().unwrap()
}

pub(crate) fn node_options(network: &SimNetwork, id: u64) -> EndpointOptions {
    let mut options = EndpointOptions::new(Sender::Node(NodeId(id)), Some(CLUSTER));
    options.boot = 1;
    options.dial = Arc::new(network.dial_from(&format!("n{id}")));
    options
}

/// A node that listens at `n<id>:7400`.
pub(crate) fn node(network: &SimNetwork, id: u64) -> Process {
    start_node(network, id, node_options(network, id))
}

pub(crate) fn start_node(network: &SimNetwork, id: u64, options: EndpointOptions) -> Process {
    let process = start(options);
    process.endpoint.listen(network.listen(&address(id)).unwrap()).unwrap();
    process
}

pub(crate) fn client(network: &SimNetwork, name: &str) -> Process {
    let mut options = EndpointOptions::new(Sender::client(name).unwrap(), None);
    options.dial = Arc::new(network.dial_from(name));
    start(options)
}

pub(crate) fn start(options: EndpointOptions) -> Process {
    let desk = Arc::new(Desk::default());
    Process { endpoint: Endpoint::start(options, desk.clone()).unwrap(), desk }
}

/// Two nodes that know each other, connected.
pub(crate) async fn pair(network: &SimNetwork) -> (Process, Process) {
    let (one, two) = (node(network, 1), node(network, 2));
    introduce(&one, &two).await;
    (one, two)
}

pub(crate) async fn introduce(one: &Process, two: &Process) {
    one.endpoint.set_address(NodeId(2), address(2));
    two.endpoint.set_address(NodeId(1), address(1));
    for lane in [Lane::Heartbeat, Lane::Data] {
        until(|| one.endpoint.is_connected(peer(2), lane) && two.endpoint.is_connected(peer(1), lane)).await;
    }
}

/// Waits for a condition.
pub(crate) async fn until(condition: impl Fn() -> bool) {
    let begun = time::now();
    while !condition() {
        assert!(begun.elapsed() < 2 * MINUTE, "the condition was not met");
        time::sleep(Duration::from_millis(1)).await;
    }
}
