//! Two nodes in one process that share replica sets, and a network of bytes between them.

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use mainstay::partition::SimDisk;
use mainstay::prelude::*;
use mainstay::{NodeId, PartitionId, SetId};
use mainstay_core::ClusterId;
use mainstay_core::task::Scope;
use mainstay_core::time::{self, Duration};
use mainstay_replica::{InProcessNetwork, Partition, Role, UniformSets, UniformSetsOptions};
use mainstay_runtime::{
    Address, Directory, Inbound, Provisions, Redirect, RemoteCalls, RemoteRoute, ServiceType, Services,
};
use mainstay_store::log::{Driver, SyncDelay};

/// The first node is primary of this set, the second of the other one.
pub(crate) const FIRST: u16 = 0;
pub(crate) const SECOND: u16 = 1;

/// What happens to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It does not arrive, and its sender does not know.
    LoseRequest,
    /// It is carried out, and its sender does not know.
    LoseReply,
    /// It is carried out, and its sender is told at once that nothing is known: the next try may overtake it.
    LoseReplyAtOnce,
    /// It is held back until it is released, and its sender is told at once that nothing is known.
    Late,
    /// It arrives twice at the same time.
    Duplicate,
    /// It is not sent.
    NotSent,
    /// There is no room for it.
    Full,
    /// The answer is damaged.
    Garbage,
}

/// What connects the nodes.
#[derive(Default)]
pub(crate) struct Net {
    nodes: Mutex<HashMap<NodeId, Inbound>>,
    routes: Mutex<HashMap<PartitionId, NodeId>>,
    faults: Mutex<VecDeque<Option<Fault>>>,
    pub(crate) redirects: Mutex<Vec<Redirect>>,
    pub(crate) sent: AtomicUsize,
    late: Mutex<Vec<Answer>>,
}

impl std::fmt::Debug for Net {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Net")
    }
}

impl Net {
    /// What happens to the next requests, in their order; those after them arrive.
    pub(crate) fn plan(&self, faults: impl IntoIterator<Item = Fault>) {
        self.faults.lock().unwrap().extend(faults.into_iter().map(Some));
    }

    /// Which node callers without a replica believe to be primary.
    pub(crate) fn believe(&self, partition: PartitionId, node: Option<NodeId>) {
        let mut routes = self.routes.lock().unwrap();
        match node {
            Some(node) => _ = routes.insert(partition, node),
            None => _ = routes.remove(&partition),
        }
    }

    pub(crate) fn connect(&self, node: NodeId, inbound: Inbound) {
        self.nodes.lock().unwrap().insert(node, inbound);
    }

    /// Lets what was held back arrive, and waits until it is answered.
    pub(crate) async fn release(&self) -> Vec<Result<Bytes>> {
        let late = std::mem::take(&mut *self.late.lock().unwrap());
        let mut answers = Vec::new();
        for answer in late {
            answers.push(answer.await);
        }
        answers
    }

    pub(crate) fn requests(&self) -> usize {
        self.sent.load(Ordering::SeqCst)
    }

    pub(crate) fn left(&self) -> usize {
        self.faults.lock().unwrap().len()
    }
}

/// The network as one node has it.
#[derive(Debug)]
pub(crate) struct Port {
    pub(crate) net: Arc<Net>,
    pub(crate) from: NodeId,
}

type Answer = Pin<Box<dyn Future<Output = Result<Bytes>> + Send>>;

impl RemoteCalls for Port {
    fn call(&self, to: NodeId, request: Bytes, time_limit: Duration) -> Answer {
        let (net, from) = (self.net.clone(), self.from);
        net.sent.fetch_add(1, Ordering::SeqCst);
        let fault = net.faults.lock().unwrap().pop_front().flatten();
        let inbound = net.nodes.lock().unwrap().get(&to).cloned();
        Box::pin(async move {
            let Some(inbound) = inbound else {
                return Err(Error::new(ErrorKind::Retry, format!("{to} cannot be reached")));
            };
            let lost = || Err(Error::new(ErrorKind::OutcomeUnknown, "the connection is lost"));
            // A copy of the bytes, as from a socket.
            let request = Bytes::copy_from_slice(&request);
            let receive = || inbound.receive(from, request.clone(), time_limit);
            match fault {
                None => receive().await,
                Some(Fault::LoseRequest) => lost(),
                Some(Fault::LoseReply) => {
                    let _ = receive().await;
                    lost()
                }
                Some(Fault::LoseReplyAtOnce) => {
                    tokio::spawn(receive());
                    lost()
                }
                Some(Fault::Late) => {
                    let receiving = receive();
                    net.late.lock().unwrap().push(receiving);
                    lost()
                }
                Some(Fault::Duplicate) => {
                    let (one, two) = tokio::join!(receive(), receive());
                    let _ = two;
                    one
                }
                Some(Fault::NotSent) => Err(Error::new(ErrorKind::Retry, "not connected")),
                Some(Fault::Full) => Err(Error::new(ErrorKind::Overloaded, "no credit")),
                Some(Fault::Garbage) => {
                    let _ = receive().await;
                    Ok(Bytes::from_static(b"\x01\x77 garbage"))
                }
            }
        })
    }

    fn route(&self, address: &Address) -> RemoteRoute {
        RemoteRoute { node: self.net.routes.lock().unwrap().get(&address.partition).copied(), epoch: None }
    }

    fn redirect(&self, address: &Address, redirect: Redirect) {
        self.net.redirects.lock().unwrap().push(redirect);
        match redirect {
            Redirect::NotPrimary { hint: Some(node), .. } | Redirect::Answered { node, .. } => {
                self.net.believe(address.partition, Some(node));
            }
            _ => {}
        }
    }
}

/// A node: its replicas, its directory, and what it receives.
pub(crate) struct TwoNodes {
    pub(crate) net: Arc<Net>,
    pub(crate) nodes: Vec<OneNode>,
    types: Vec<(ServiceType, Vec<PartitionId>)>,
}

pub(crate) struct OneNode {
    pub(crate) id: NodeId,
    pub(crate) replicas: UniformSets,
    pub(crate) directory: Arc<Directory>,
    pub(crate) services: Services,
}

impl OneNode {
    pub(crate) fn partition(&self, id: PartitionId) -> Partition {
        self.replicas.partition(Level::Persisted, id)
    }

    async fn is(&self, set: u16, role: Role) {
        let settled = async {
            let mut watch = self.partition(PartitionId(set.into())).watch();
            watch.wait_for(|state| state.role == role && state.primary.is_some()).await.unwrap();
        };
        time::timeout(Duration::from_secs(60), settled).await.expect("a role within a minute");
    }
}

async fn replicas(network: &InProcessNetwork, number: u64) -> UniformSets {
    let node = NodeId(number);
    let mut options =
        UniformSetsOptions { cluster: Some(ClusterId(1)), sets_per_level: 2, ..UniformSetsOptions::new(node) };
    options.log.segment_bytes = 256 << 10;
    options.log.driver = Driver::Task { sync_delay: SyncDelay::default() };
    options.store.cache_bytes_max = 8 << 20;
    let disk = Arc::new(SimDisk::new(number));
    let replicas = UniformSets::open(disk, Path::new("/data"), options, network.endpoint(node)).await.unwrap();
    let handler = replicas.clone();
    network.attach(
        node,
        Scope::new(),
        Arc::new(move |from, set, request| {
            let replicas = handler.clone();
            Box::pin(async move { replicas.receive(from, set, request).await })
        }),
    );
    match number {
        1 => replicas.bootstrap().await.unwrap(),
        _ => replicas.join(&(1..=number).map(NodeId).collect::<Vec<_>>()).await.unwrap(),
    }
    replicas
}

impl TwoNodes {
    /// Two nodes with these services, each with the set that its partitions are in.
    pub(crate) async fn start(types: Vec<(ServiceType, u16)>) -> Self {
        let (network, net) = (InProcessNetwork::new(), Arc::new(Net::default()));
        let mut next = [0_u64, 1];
        let types: Vec<_> = types
            .into_iter()
            .map(|(service, set)| {
                let next = &mut next[usize::from(set)];
                let ids: Vec<_> =
                    (0..service.partitioning().count()).map(|at| PartitionId(*next + 2 * u64::from(at))).collect();
                *next += 2 * ids.len() as u64;
                (service, ids)
            })
            .collect();
        let mut nodes: Vec<OneNode> = Vec::new();
        for number in [1, 2] {
            let (id, replicas) = (NodeId(number), replicas(&network, number).await);
            let port = Port { net: net.clone(), from: id };
            let mut provisions = Provisions::default();
            provisions.add(id).unwrap();
            let directory = Arc::new(Directory::empty().with_provisions(provisions).with_remote(Arc::new(port)));
            for (service, ids) in &types {
                directory.add(service.clone(), ids.clone()).unwrap();
            }
            directory.start(id, directory.clone());
            net.connect(id, Inbound::new(directory.clone()));
            for (service, ids) in &types {
                for (index, partition) in (0..).zip(ids) {
                    let partition = replicas.partition(Level::Persisted, *partition);
                    directory.attach(service.name(), index, partition).unwrap();
                }
            }
            let services = Services::new(directory.clone());
            nodes.push(OneNode { id, replicas, directory, services });
        }
        let cluster = Self { net, nodes, types };
        cluster.nodes[0].is(FIRST, Role::Primary).await;
        cluster.hand_over(SECOND, 0, 1).await;
        cluster
    }

    pub(crate) fn first(&self) -> &OneNode {
        &self.nodes[0]
    }

    pub(crate) fn second(&self) -> &OneNode {
        &self.nodes[1]
    }

    /// Makes another node primary of a set.
    pub(crate) async fn hand_over(&self, set: u16, from: usize, to: usize) {
        let id = SetId { level: Level::Persisted, number: set };
        let replica = self.nodes[to].replicas.replica(id).unwrap().status().identity.replica;
        self.nodes[from].is(set, Role::Primary).await;
        self.nodes[from].replicas.replica(id).unwrap().hand_over(replica).await.unwrap();
        self.nodes[to].is(set, Role::Primary).await;
        self.nodes[from].is(set, Role::Secondary).await;
    }

    /// The services as a process has them that is no node and has none of the types.
    pub(crate) fn client(&self) -> Services {
        let port = Port { net: self.net.clone(), from: NodeId(99) };
        let directory = Directory::empty().with_remote(Arc::new(port));
        for (service, ids) in &self.types {
            directory.learn(service.known(ids.clone())).unwrap();
            for id in ids {
                self.net.believe(*id, Some(NodeId(1)));
            }
        }
        Services::new(Arc::new(directory))
    }

    pub(crate) async fn stop(self) {
        for node in &self.nodes {
            node.directory.stop().await;
        }
    }
}
