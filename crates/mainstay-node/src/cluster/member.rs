use std::collections::BTreeSet;
use std::sync::Arc;

use mainstay_cluster::control::record::{ServiceRecord, TimingProfile};
use mainstay_cluster::control::{CONTROL_SET, ControlState};
use mainstay_cluster::message::{ControlAnswer, ControlRequest, ServiceRegistration};
use mainstay_cluster::{ClusterNode, ClusterOptions, Founding, Membership, NodeParts, WireTransport};
use mainstay_core::time::{self, Duration};
use mainstay_core::{ClusterId, Error, ErrorKind, Level, NodeId, Result};
use mainstay_replica::{FolderIdentity, NodeReplicas, NodeReplicasOptions, Role, Timing};
use mainstay_store::disk::Disk;
use mainstay_wire::tls::Security;
use mainstay_wire::{Listen as _, TcpListen};

use super::calls::ClusterCalls;
use super::legacy;
use super::security::{authority, check_tls, security};
use super::serve::CallServe;
use super::served_sets::ServedSets;
use crate::settings::{Profile, Settings};

/// How long the start waits for the cluster to take note of this node and of its services.
const REGISTER_TIME_LIMIT: Duration = Duration::from_secs(60);

/// How long the start waits for that if everything it needs is recorded already: then the control set may be down.
const KNOWN_TIME_LIMIT: Duration = Duration::from_secs(5);

/// How long a node that stops takes to hand its roles over.
const HAND_OVER_TIME_LIMIT: Duration = Duration::from_secs(20);

/// The part of a node in its cluster, which may be a cluster of this node alone.
#[derive(Debug, Clone)]
pub(crate) struct Member {
    pub(crate) replicas: NodeReplicas,
    pub(crate) sets: Arc<ServedSets>,
    pub(crate) cluster: ClusterNode,
    pub(crate) calls: Arc<CallServe>,
    remote: Option<Arc<ClusterCalls>>,
    /// Where others reach it; `None` if it is alone.
    pub(crate) address: Option<String>,
}

impl Member {
    /// Opens the data folder and puts the node on the network: as the first node of a new cluster, as one that joins, or as the
    /// one that it was. Without `listen` it is a cluster of its own that nobody can join.
    ///
    /// # Errors
    /// `Invalid` if the settings, the folder and the cluster do not go together, `Conflict` if another process uses the folder,
    /// `Timeout` if no seed was reached, `Corrupt` or `UnknownVersion` if the folder cannot be used.
    pub(crate) async fn start(
        disk: Arc<dyn Disk>,
        settings: &Settings,
        types: &[ServiceRegistration],
        listen: Option<TcpListen>,
    ) -> Result<Self> {
        let folder = settings.data_dir();
        let mut options = cluster_options(settings, types, listen.as_ref())?;
        let data_dir = |error: Error| error.about(format_args!("data_dir {}", folder.display()));
        let identity = NodeReplicas::identity_of(&*disk, folder).map_err(data_dir)?;
        refuse_open_address(settings, &options, identity.is_some(), listen.as_ref())?;
        let told = Membership::profile_of(&*disk, folder).map_err(data_dir)?;
        let transport = WireTransport::new();
        let (replicas, membership) = match identity {
            Some(identity) => {
                let transport = Arc::new(transport.clone());
                let own = replica_options(settings, None, told.unwrap_or(options.founding.profile));
                let replicas = NodeReplicas::open(disk.clone(), folder, own, transport).await.map_err(data_dir)?;
                let identity = FolderIdentity { cluster: Some(replicas.cluster()), ..identity };
                match Membership::find(disk.clone(), folder, Some(&identity), &options).await {
                    Ok(membership) => (replicas, membership),
                    Err(error) => {
                        replicas.stop().await;
                        return Err(error);
                    }
                }
            }
            None => {
                let lock = NodeReplicas::lock(&*disk, folder).await.map_err(data_dir)?;
                let membership = Membership::find(disk.clone(), folder, None, &options).await?;
                let owned = replica_options(settings, Some(membership.owner()), membership.profile());
                let transport = Arc::new(transport.clone());
                let opened = NodeReplicas::open_locked(lock, disk.clone(), folder, owned, transport).await;
                (opened.map_err(data_dir)?, membership)
            }
        };
        let started = async {
            check_tls(settings.cluster(), membership.security())?;
            if membership.is_founder() && replicas.replica(CONTROL_SET).is_none() && !replicas.replicas().is_empty() {
                options.founding.sets_per_level = persisted_sets(&replicas);
                options.founding.services = legacy::services(&replicas, types).await?;
            }
            let (sets, calls) = (ServedSets::new(replicas.clone()), CallServe::new());
            let parts =
                NodeParts { membership, sets: sets.clone(), boot: replicas.boot(), transport, serve: calls.clone() };
            let address = options.address.as_ref().map(ToString::to_string);
            let cluster = ClusterNode::start::<TcpListen>(parts, &options, listen).await?;
            let remote = address.is_some().then(|| ClusterCalls::new(&cluster));
            Ok(Self { replicas: replicas.clone(), sets, cluster, calls, remote, address })
        };
        match started.await {
            Ok(member) => Ok(member),
            Err(error) => {
                replicas.stop().await;
                Err(error)
            }
        }
    }

    /// Registers services, and returns them as the cluster has recorded them, in their order. `check` compares what is recorded with
    /// what is wanted, before the cluster is asked.
    ///
    /// # Errors
    /// What `check` and the cluster refuse a service with; `Timeout` if the control set has no primary; what the cluster refuses this
    /// node with, such as a folder that is an old copy.
    pub(crate) async fn register(
        &self,
        wanted: &[ServiceRegistration],
        check: impl Fn(&ServiceRecord) -> Result<()>,
    ) -> Result<Vec<ServiceRecord>> {
        let recorded = |state: &ControlState| -> Option<Vec<ServiceRecord>> {
            let of = |wanted: &ServiceRegistration| {
                let record = state.services.get(&wanted.name)?;
                let is_same = record.kind == wanted.kind
                    && record.call_timeout_ms == wanted.call_timeout_ms
                    && wanted.interfaces.is_subset(&record.interfaces);
                is_same.then(|| ServiceRecord::clone(record))
            };
            state.cluster.as_ref()?;
            wanted.iter().map(of).collect()
        };
        let is_known = recorded(&self.cluster.control().get()).is_some();
        let patience = if is_known { KNOWN_TIME_LIMIT } else { REGISTER_TIME_LIMIT };
        match time::timeout(patience, self.cluster.announced()).await {
            Ok(announced) => announced?,
            Err(time::Elapsed) if is_known => tracing::warn!(
                "the control set has no primary that this node can reach: the node goes on with what it knows, and announces itself later"
            ),
            Err(time::Elapsed) => {
                return Err(Error::new(
                    ErrorKind::Timeout,
                    format!(
                        "the control set has had no primary for {} s: see that most of its voters run and reach each other, then \
                         start again",
                        patience.as_secs()
                    ),
                ));
            }
        }
        let state = self.cluster.control().get();
        let known = wanted.iter().filter_map(|wanted| state.services.get(&wanted.name));
        known.into_iter().try_for_each(|record| check(record))?;
        if let Some(services) = recorded(&state) {
            return Ok(services);
        }
        let request = ControlRequest::Register(wanted.to_vec());
        match self.cluster.client().request(&request, REGISTER_TIME_LIMIT).await? {
            ControlAnswer::Registered(services) if services.len() == wanted.len() => Ok(services),
            _ => Err(Error::corrupt(
                "the controller has answered something else than was asked: use the same program on all nodes",
            )),
        }
    }

    /// The way of calls to other nodes; `None` for a node alone.
    pub(crate) fn remote_calls(&self) -> Option<Arc<ClusterCalls>> {
        self.remote.clone()
    }

    /// Hands the roles of this node over to other nodes, each when its calls have ended. What cannot be handed over in time is left
    /// to an election.
    pub(crate) async fn hand_over(&self) {
        let primaries =
            self.replicas.replicas().into_iter().filter(|replica| replica.role_state().role == Role::Primary);
        let resigning = primaries.map(|replica| async move {
            if let Err(error) = replica.resign().await {
                let set = replica.identity().set;
                tracing::warn!(%set, ?error, "a role was not handed over before the node stops: the set elects a primary by itself");
            }
        });
        let all = futures_util::future::join_all(resigning);
        if let Err(time::Elapsed) = time::timeout(HAND_OVER_TIME_LIMIT, all).await {
            tracing::warn!(
                "not all roles were handed over within {HAND_OVER_TIME_LIMIT:?}: their sets elect primaries by themselves"
            );
        }
    }

    /// Takes the node off the network and stops its replicas.
    pub(crate) async fn stop(&self) {
        self.let_go();
        self.cluster.stop().await;
        self.replicas.stop().await;
    }

    /// Ends everything where it stands, as a crash would.
    pub(crate) fn kill(&self) {
        self.let_go();
        self.cluster.kill();
        self.replicas.kill();
    }

    /// What outlives the node lets go of it.
    fn let_go(&self) {
        self.calls.stop();
        self.sets.let_go();
        if let Some(remote) = &self.remote {
            remote.disconnect();
        }
    }
}

/// How many persisted sets a folder from before the control set has.
fn persisted_sets(replicas: &NodeReplicas) -> u16 {
    let persisted = replicas.replicas().into_iter().filter(|replica| replica.identity().set.level == Level::Persisted);
    // There is a replica at least, and as many as a `u16` counts at most.
    u16::try_from(persisted.count()).unwrap_or(u16::MAX)
}

fn replica_options(
    settings: &Settings,
    owner: Option<(ClusterId, NodeId)>,
    profile: TimingProfile,
) -> NodeReplicasOptions {
    let mut options = NodeReplicasOptions { owner, ..settings.host_options().clone() };
    options.replica.timing = match profile {
        TimingProfile::Default => Timing::DEFAULT,
        TimingProfile::Fast => Timing::FAST,
        TimingProfile::Wan => Timing::WAN,
    };
    options
}

fn cluster_options(
    settings: &Settings,
    types: &[ServiceRegistration],
    listen: Option<&TcpListen>,
) -> Result<ClusterOptions> {
    let cluster = settings.cluster();
    let address = match (&cluster.advertise, listen) {
        (_, None) => None,
        (Some(advertised), Some(_)) => Some(advertised.clone()),
        (None, Some(listen)) => Some(listen.address().clone()),
    };
    let profile = match cluster.profile.unwrap_or_default() {
        Profile::Default => TimingProfile::Default,
        Profile::Fast => TimingProfile::Fast,
        Profile::Wan => TimingProfile::Wan,
    };
    let founding = Founding { profile, sets_per_level: settings.sets_per_level(), ..Founding::default() };
    let is_clustered = listen.is_some();
    let seeds = if is_clustered { cluster.seeds.clone() } else { Vec::new() };
    Ok(ClusterOptions {
        address,
        seeds,
        token: cluster.token.clone().filter(|_| is_clustered),
        fault_domain: cluster.fault_domain.clone().unwrap_or_default(),
        types: types.iter().map(|service| service.name.clone()).collect::<BTreeSet<_>>(),
        security: if is_clustered { security(cluster)? } else { Security::LoopbackOnly },
        authority: if is_clustered { authority(cluster)? } else { None },
        founding,
        ..ClusterOptions::alone()
    })
}

/// Refuses to make something of an empty folder that would listen to other machines without TLS.
fn refuse_open_address(
    settings: &Settings,
    options: &ClusterOptions,
    has_run: bool,
    listen: Option<&TcpListen>,
) -> Result<()> {
    let is_open = listen.is_some_and(|listen| !listen.is_loopback());
    if !is_open || has_run || options.token.is_some() || !matches!(options.security, Security::LoopbackOnly) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "cluster.listen is {}, which other machines can reach, and there is no TLS: name PEM files (cluster.certificate, cluster.key, \
         cluster.authorities), join with a token (cluster.token), or set cluster.tls = \"off\" if whatever reaches the port may be \
         any node and any client",
        settings.cluster().listen
    )))
}
