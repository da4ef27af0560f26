use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use mainstay_core::time::{self, Duration};
use mainstay_core::{Backoff, Error, Level, NodeId, Result, task};
use mainstay_wire::tls::Security;
use mainstay_wire::{Address, Endpoint, EndpointOptions, Listen, Sender, Serve};
use tokio::sync::watch;

use crate::agent::NodeAgent;
use crate::control::record::{NodeState, PEER_ADDRESS};
use crate::control::{CONTROL_PARTITION, CONTROL_SET, ControlState, ControlWatch};
use crate::control_client::ControlClient;
use crate::controller::{Controller, ControllerOptions, FoundingNode};
use crate::membership::Membership;
use crate::message::{Announcement, ControlRequest};
use crate::node_sets::NodeSets;
use crate::options::ClusterOptions;
use crate::peers_file::PeersFile;
use crate::policy::{self, MembershipPolicy};
use crate::routing::RoutingTable;
use crate::serve::{ClusterServe, Controlling};
use crate::transport::WireTransport;

/// How long one attempt to announce this node may take.
const ANNOUNCE_TIME_LIMIT: Duration = Duration::from_secs(10);

/// The pauses between attempts.
const ANNOUNCE_RETRY: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(2));

/// How long connections may take to end when the node stops.
const STOP_GRACE: Duration = Duration::from_secs(1);

/// A node of a cluster, while it runs. Clones are the same one.
#[derive(Clone)]
pub struct ClusterNode {
    node: NodeId,
    endpoint: Endpoint,
    control: ControlWatch,
    client: ControlClient,
    routes: RoutingTable,
    scope: task::Scope,
    transport: WireTransport,
    serve: Arc<ClusterServe>,
    failure: watch::Receiver<Option<Error>>,
}

/// Ends what was started if the start fails or is given up half way.
struct StopOnDrop(Option<(task::Scope, WireTransport)>);

impl StopOnDrop {
    fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        if let Some((scope, transport)) = &self.0 {
            scope.stop();
            transport.detach();
        }
    }
}

/// What a node is started with, beside its options.
pub struct NodeParts {
    /// Whose the folder is.
    pub membership: Membership,
    /// Its replicas.
    pub sets: Arc<dyn NodeSets>,
    /// Which start of the folder this is.
    pub boot: u64,
    /// What carries the requests of its replicas.
    pub transport: WireTransport,
    /// What serves the kinds of messages that are not of this room.
    pub serve: Arc<dyn Serve>,
}

impl ClusterNode {
    /// Starts a node on its folder's replicas and a listening address. It is part of the cluster when it has been
    /// [announced](ClusterNode::announced). Without a listening address no other node reaches it: for a cluster of one.
    ///
    /// # Errors
    /// `Invalid` if the options contradict each other, and whatever keeps the replica of the control set from starting.
    pub async fn start<L: Listen>(parts: NodeParts, options: &ClusterOptions, listen: Option<L>) -> Result<Self> {
        let scope = task::Scope::new();
        let guard = StopOnDrop(Some((scope.clone(), parts.transport.clone())));
        let started = scope.enter(Self::start_in(scope.clone(), parts, options, listen)).await?;
        guard.disarm();
        Ok(started)
    }

    async fn start_in(
        scope: task::Scope,
        parts: NodeParts,
        options: &ClusterOptions,
        listen: Option<impl Listen>,
    ) -> Result<Self> {
        let NodeParts { membership, sets, boot, transport, serve } = parts;
        let (cluster, node) = membership.owner();
        let policy = MembershipPolicy::new();
        let (removed, removed_watch) = watch::channel(BTreeSet::new());
        let serve = ClusterServe::new(scope.clone(), sets.clone(), serve);
        let endpoint_options = EndpointOptions {
            boot,
            security: membership.security.clone(),
            dial: options.dial.clone(),
            policy: policy.clone(),
            removed: removed_watch,
            ..EndpointOptions::new(Sender::Node(node), Some(cluster))
        };
        let endpoint = Endpoint::start(endpoint_options, serve.clone())?;
        if let Some(listen) = listen {
            endpoint.listen(listen)?;
        }
        let peers = set_addresses(&endpoint, &membership.file.peers);
        transport.attach(endpoint.clone());

        // Before the control replica is made: what is there now was there before the cluster.
        let held = sets.held().into_iter().filter(|held| held.set.level == Level::Persisted && held.set != CONTROL_SET);
        let held = held.map(|held| (held.set, held.replica)).collect();
        sets.create(CONTROL_SET, membership.control_replica(), 0).await?;
        sets.expect(CONTROL_SET, peers.iter().copied().chain([node]).collect());
        if membership.is_founder() {
            sets.found(CONTROL_SET).await?;
        }
        let partition = sets.partition(CONTROL_SET, CONTROL_PARTITION)?;
        let control = ControlWatch::follow(partition.clone());
        policy.attach(control.clone());

        let description = options.description();
        let founding = membership.is_founder().then(|| FoundingNode {
            founding: options.founding.clone(),
            cluster,
            node,
            description: description.clone(),
            held,
        });
        let needs_token = matches!(membership.security, Security::Tls(_));
        let controller = Controller::new(
            partition,
            ControllerOptions { needs_token, authority: options.authority.clone(), founding },
        );
        let client =
            ControlClient::new((node, endpoint.clone()), sets.clone(), control.clone(), controller.clone(), peers);
        serve.attach(Controlling { controller: controller.clone(), client: client.clone() });
        let (failed, failure) = watch::channel(None);
        let routes = RoutingTable::new(node, sets.clone(), control.clone());
        task::spawn(controller.run());
        task::spawn(NodeAgent::new((node, endpoint.session().0), sets, client.clone(), control.clone()).run());
        let addresses = membership.file.peers.values().cloned().collect();
        task::spawn(follow_nodes(endpoint.clone(), control.clone(), membership, removed));
        let announcement = Announcement { node, boot, session: endpoint.session().0, description };
        task::spawn(announce(announcement, client.clone(), endpoint.clone(), addresses, failed));
        Ok(Self { node, endpoint, control, client, routes, scope, transport, serve, failure })
    }

    /// The node that this is.
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// This node's view of the control state.
    pub fn control(&self) -> &ControlWatch {
        &self.control
    }

    /// What sends requests to the controller.
    pub fn client(&self) -> &ControlClient {
        &self.client
    }

    /// Which node is the primary of each set.
    pub fn routes(&self) -> &RoutingTable {
        &self.routes
    }

    /// The place of this node on the network.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Waits until the cluster has taken note of this start.
    ///
    /// # Errors
    /// Why the cluster refuses this node: its folder is an old copy, or it was removed. It is off the network then.
    pub async fn announced(&self) -> Result<()> {
        let (mut control, mut failure) = (self.control.clone(), self.failure.clone());
        let session = self.endpoint.session().0;
        let is_known = |state: &ControlState| {
            state.nodes.get(&self.node).is_some_and(|node| node.session == session && node.state == NodeState::Up)
        };
        tokio::select! {
            biased;
            error = failed(&mut failure) => Err(error),
            known = control.wait_for(is_known) => known.map(drop),
        }
    }

    /// Waits until the cluster refuses this node, which may never be.
    pub async fn refused(&self) -> Error {
        failed(&mut self.failure.clone()).await
    }

    /// Takes the node off the network at once, as a crash would.
    pub fn kill(&self) {
        self.endpoint.kill();
        self.transport.detach();
        self.serve.detach();
        self.scope.stop();
    }

    /// Takes the node off the network. Its replicas are its owner's to stop.
    pub async fn stop(&self) {
        self.endpoint.stop(STOP_GRACE).await;
        self.transport.detach();
        self.serve.detach();
        self.scope.stop();
    }
}

impl fmt::Debug for ClusterNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterNode").field("node", &self.node).finish_non_exhaustive()
    }
}

async fn failed(failure: &mut watch::Receiver<Option<Error>>) -> Error {
    loop {
        if let Some(error) = failure.borrow_and_update().clone() {
            return error;
        }
        if failure.changed().await.is_err() {
            // The announcement was taken note of, and nothing else refuses this node.
            return std::future::pending().await;
        }
    }
}

/// Tells the cluster of this start, until it has taken note or refuses this node.
async fn announce(
    announcement: Announcement,
    client: ControlClient,
    endpoint: Endpoint,
    addresses: Vec<String>,
    failed: watch::Sender<Option<Error>>,
) {
    let request = ControlRequest::Announce(announcement);
    let mut retries = ANNOUNCE_RETRY.retries();
    loop {
        let error = match client.request(&request, ANNOUNCE_TIME_LIMIT).await {
            Ok(_) => return,
            Err(error) => error,
        };
        let refusal = match policy::is_final(&error) {
            true => Some(error),
            false => refused_by_peers(&endpoint, &addresses).await,
        };
        if let Some(refusal) = refusal {
            tracing::error!(error = %refusal.report(), "the cluster refuses this node, which is off the network from now on");
            failed.send_replace(Some(refusal));
            endpoint.stop(Duration::ZERO).await;
            // Those that wait are told as long as this is there.
            return std::future::pending().await;
        }
        time::sleep(retries.pause()).await;
    }
}

/// Why the nodes that this one has known do not let it connect, if that is for good. By the peers file, because a node that is refused
/// has no control state: its replica does not hear what of its log is committed.
async fn refused_by_peers(endpoint: &Endpoint, addresses: &[String]) -> Option<Error> {
    for address in addresses.iter().filter_map(|address| address.parse::<Address>().ok()) {
        if let Err(error) = endpoint.connect(&address).await
            && policy::is_final(&error)
        {
            return Some(error);
        }
    }
    None
}

/// Says to the endpoint where nodes are; returns those that it was told of.
fn set_addresses(endpoint: &Endpoint, peers: &BTreeMap<NodeId, String>) -> Vec<NodeId> {
    let mut told = Vec::new();
    for (node, address) in peers {
        match address.parse::<Address>() {
            Ok(address) => {
                endpoint.set_address(*node, address);
                told.push(*node);
            }
            Err(error) => tracing::warn!(%node, error = %error.report(), "a node cannot be reached"),
        }
    }
    told
}

/// Keeps the endpoint's addresses, the refused nodes and the peers file in line with the control state.
async fn follow_nodes(
    endpoint: Endpoint,
    mut control: ControlWatch,
    membership: Membership,
    removed: watch::Sender<BTreeSet<NodeId>>,
) {
    let Membership { disk, folder, mut file, membership, .. } = membership;
    loop {
        let state = control.get_and_update();
        let gone = state.removed();
        removed.send_if_modified(|known| std::mem::replace(known, gone.clone()) != gone);
        let others = state.nodes.values().filter(|node| node.id != membership.node && node.state != NodeState::Removed);
        let peers: BTreeMap<NodeId, String> =
            others.filter_map(|node| Some((node.id, node.addresses.get(PEER_ADDRESS)?.clone()))).collect();
        // An empty state is that of a node which has not heard of the cluster yet.
        if state.cluster.is_some() && peers != file.peers {
            let changed = peers.iter().filter(|(node, address)| file.peers.get(node) != Some(address));
            set_addresses(&endpoint, &changed.map(|(node, address)| (*node, address.clone())).collect());
            file = PeersFile { peers, ..file };
            let (disk, folder, written) = (disk.clone(), folder.clone(), file.clone());
            if let Err(error) = task::blocking(move || written.write(&*disk, &folder)).await {
                tracing::warn!(error = %error.report(), "the list of peers cannot be kept: a restart may need seeds");
            }
        }
        if !control.changed().await {
            return;
        }
    }
}
