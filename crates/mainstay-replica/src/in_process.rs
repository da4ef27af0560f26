use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use mainstay_core::{Error, ErrorKind, NodeId, SetId, random, task, time};
use parking_lot::Mutex;
use rand::RngExt as _;

use crate::transport::{Answer, Traffic, Transport};

/// A network within one process, with the troubles of a real one: loss, delay, reordering, duplication, cuts.
///
/// Its random draws come from [`mainstay_core::random`], its delays from [`mainstay_core::time`]: in simulation the same
/// seed gives the same troubles.
#[derive(Debug, Clone, Default)]
pub struct InProcessNetwork {
    shared: Arc<Mutex<Shared>>,
    /// Carries messages whose sender does not wait for them, or is gone.
    carrier: task::Scope,
}

#[derive(Default)]
struct Shared {
    troubles: Troubles,
    cuts: BTreeSet<(NodeId, NodeId)>,
    nodes: BTreeMap<NodeId, Attached>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("troubles", &self.troubles)
            .field("cuts", &self.cuts)
            .field("nodes", &self.nodes.keys())
            .finish()
    }
}

#[derive(Clone)]
struct Attached {
    handler: Handler,
    scope: task::Scope,
}

/// What a node does with a request that a node has sent for one of its sets.
pub type Handler = Arc<dyn Fn(NodeId, SetId, Bytes) -> Pin<Box<dyn Future<Output = Bytes> + Send>> + Send + Sync>;

/// How bad the network is. The default has no trouble at all.
#[derive(Debug, Clone, Copy, Default)]
pub struct Troubles {
    /// The probability that a message is lost; requests and answers alike.
    pub loss: f64,
    /// The probability that a request is delivered twice.
    pub duplication: f64,
    /// The shortest time a message takes.
    pub delay_min: time::Duration,
    /// The longest time a message takes; messages with different delays overtake each other.
    pub delay_max: time::Duration,
    /// The probability that a request arrives only after up to `late_max`, whether its sender still waits or has crashed
    /// meanwhile. The sender hears nothing of it.
    pub late: f64,
    /// The longest time that a late request takes.
    pub late_max: time::Duration,
    /// How many bytes of a message travel in a second, each message on its own; 0 for as many as you like.
    pub bytes_per_sec: u64,
}

impl InProcessNetwork {
    /// A network without trouble.
    pub fn new() -> Self {
        Self::default()
    }

    /// Connects a node. Its requests are handled by tasks of `scope`.
    pub fn attach(&self, node: NodeId, scope: task::Scope, handler: Handler) {
        self.shared.lock().nodes.insert(node, Attached { handler, scope });
    }

    /// Disconnects a node: it is unreachable until it is attached again.
    pub fn detach(&self, node: NodeId) {
        self.shared.lock().nodes.remove(&node);
    }

    /// The way into the network for one node.
    pub fn endpoint(&self, node: NodeId) -> Arc<dyn Transport> {
        Arc::new(Endpoint { network: self.clone(), node })
    }

    /// Makes the network better or worse.
    pub fn set_troubles(&self, troubles: Troubles) {
        self.shared.lock().troubles = troubles;
    }

    /// Cuts the way from one node to another; the way back stays.
    pub fn cut(&self, from: NodeId, to: NodeId) {
        self.shared.lock().cuts.insert((from, to));
    }

    /// Mends all cuts.
    pub fn heal(&self) {
        self.shared.lock().cuts.clear();
    }

    fn troubles(&self) -> Troubles {
        self.shared.lock().troubles
    }

    fn is_cut(&self, from: NodeId, to: NodeId) -> bool {
        self.shared.lock().cuts.contains(&(from, to))
    }

    /// Lets a message travel; false if it does not arrive.
    async fn travel(&self, from: NodeId, to: NodeId, bytes: usize) -> bool {
        let Troubles { loss, delay_min, delay_max, bytes_per_sec, .. } = self.troubles();
        if bytes_per_sec > 0 {
            time::sleep(time::Duration::from_secs_f64(bytes as f64 / bytes_per_sec as f64)).await;
        }
        if delay_max > time::Duration::ZERO {
            time::sleep(random::rng().random_range(delay_min..=delay_max)).await;
        }
        !(self.is_cut(from, to) || (loss > 0.0 && random::rng().random_bool(loss)))
    }

    /// Carries a request to a node and its answer back; `None` if either is lost on the way.
    async fn deliver(
        &self,
        from: NodeId,
        to: NodeId,
        set: SetId,
        request: Bytes,
    ) -> Option<mainstay_core::Result<Bytes>> {
        if !self.travel(from, to, request.len()).await {
            return None;
        }
        // The node itself is let go of at once: an answer may take long or never come, and a node that has ended meanwhile
        // must not keep its files, and their locks, until then.
        let handling = {
            let node = self.shared.lock().nodes.get(&to).cloned();
            node.map(|node| node.scope.spawn((node.handler)(from, set, request)))
        };
        let Some(handling) = handling else {
            return Some(Err(Error::new(ErrorKind::Retry, format!("node {to} cannot be reached: retry"))));
        };
        let answer = handling.await;
        if !self.travel(to, from, answer.as_ref().map_or(0, Bytes::len)).await {
            return None;
        }
        let went_down = |_| Error::new(ErrorKind::Retry, format!("node {to} went down while it answered: retry"));
        Some(answer.map_err(went_down))
    }

    /// Carries a request whose answer is not waited for, after a time.
    fn send_along(&self, from: NodeId, to: NodeId, set: SetId, request: Bytes, after: time::Duration) {
        let network = self.clone();
        self.carrier.spawn(async move {
            if after > time::Duration::ZERO {
                time::sleep(after).await;
            }
            network.deliver(from, to, set, request).await
        });
    }
}

#[derive(Debug)]
struct Endpoint {
    network: InProcessNetwork,
    node: NodeId,
}

impl Transport for Endpoint {
    fn call(&self, to: NodeId, set: SetId, _traffic: Traffic, request: Bytes) -> Answer {
        let (network, from) = (self.network.clone(), self.node);
        Box::pin(async move {
            let Troubles { duplication, late, late_max, .. } = network.troubles();
            if late > 0.0 && random::rng().random_bool(late) {
                let after = random::rng().random_range(time::Duration::ZERO..=late_max);
                network.send_along(from, to, set, request, after);
                return std::future::pending().await;
            }
            if duplication > 0.0 && random::rng().random_bool(duplication) {
                network.send_along(from, to, set, request.clone(), time::Duration::ZERO);
            }
            match network.deliver(from, to, set, request).await {
                Some(answer) => answer,
                None => std::future::pending().await,
            }
        })
    }
}
