use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use mainstay_core::time::{self, Duration};
use mainstay_core::{Error, ErrorKind, Level, NodeId, Result};
use mainstay_replica::{Host, HostOptions, InProcessNetwork, Partition, Replica, Role};
use mainstay_runtime::{Actor, ActorOptions, Directory, Service, ServiceType, Serving};
use mainstay_store::disk::{Disk, RealDisk};

use crate::node::Node;
use crate::registry::{REGISTRY_PARTITION, Registry};

/// Where a node keeps its data unless told otherwise: in the current folder.
pub const DATA_DIR_DEFAULT: &str = "data";

/// The number of the only node there is.
const NODE: NodeId = NodeId(1);

/// How long the start may wait for the registry to have a primary. A node that is alone elects itself at once.
const PRIMARY_TIMEOUT: Duration = Duration::from_secs(60);

/// A node to be set up and started.
#[derive(Debug)]
#[must_use = "a node does nothing before `start`"]
pub struct NodeBuilder {
    data_dir: PathBuf,
    disk: Arc<dyn Disk>,
    host: HostOptions,
    /// In the order in which they were given; one that cannot be is reported by `start`.
    services: Vec<Result<ServiceType>>,
}

impl NodeBuilder {
    pub(crate) fn new() -> Self {
        Self {
            data_dir: DATA_DIR_DEFAULT.into(),
            disk: Arc::new(RealDisk),
            host: HostOptions::new(NODE),
            services: Vec::new(),
        }
    }

    /// Keeps the data in this folder, which is created if need be; [`DATA_DIR_DEFAULT`] unless told otherwise. One process
    /// at a time can use it.
    pub fn data_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.data_dir = folder.into();
        self
    }

    /// Serves a type of service.
    pub fn service<T: Service>(mut self) -> Self {
        self.services.push(ServiceType::of::<T>());
        self
    }

    /// Serves a type of actor.
    pub fn actor<T: Actor>(mut self) -> Self {
        self.services.push(ServiceType::of_actor::<T>());
        self
    }

    /// Changes how actors are run, of all types that were given so far.
    pub fn actor_options(mut self, mut change: impl FnMut(&mut ActorOptions)) -> Self {
        self.services.iter_mut().flatten().for_each(|service| change(service.actor_options_mut()));
        self
    }

    /// Keeps the data on another disk than that of the operating system, such as one that a test can crash.
    pub fn disk(mut self, disk: Arc<dyn Disk>) -> Self {
        self.disk = disk;
        self
    }

    /// Changes how the log, the stores and the replicas behave.
    pub fn host_options(mut self, change: impl FnOnce(&mut HostOptions)) -> Self {
        change(&mut self.host);
        self
    }

    /// Starts the node. When this returns, its services can be called: a call waits until its partition is open.
    ///
    /// # Errors
    /// `Invalid` if a service cannot be (two of one name, a partitioning or level other than that of its data, a folder of
    /// another node), `Conflict` if another process uses the folder, `Corrupt` or `UnknownVersion` if it cannot be read.
    pub async fn start(self) -> Result<Node> {
        let services = self.services.into_iter().collect::<Result<Vec<_>>>()?;
        refuse_namesakes(&services)?;
        let transport = InProcessNetwork::new().endpoint(self.host.node);
        let node = self.host.node;
        let host = Host::open(self.disk, &self.data_dir, self.host, transport).await?;
        let guard = KillOnDrop(Some(host.clone()));
        match assemble(&host, node, services).await {
            Ok(directory) => {
                guard.disarm();
                Ok(Node::new(host, directory))
            }
            Err(error) => {
                host.stop().await;
                Err(error)
            }
        }
    }
}

async fn assemble(host: &Host, node: NodeId, services: Vec<ServiceType>) -> Result<Arc<Directory>> {
    host.found().await?;
    let records = host.partition(Level::Persisted, REGISTRY_PARTITION);
    primary(&records).await?;
    let enrolled = Registry::new(records).enroll(&services).await?;
    let serving = services.into_iter().zip(enrolled).map(|(service, ids)| {
        let partitions = ids.into_iter().map(|id| host.partition(service.level(), id)).collect();
        Serving { service, partitions }
    });
    let serving: Vec<_> = serving.collect();
    let directory = Arc::new(Directory::new(&serving)?);
    directory.serve(node, serving, directory.clone());
    Ok(directory)
}

async fn primary(partition: &Partition) -> Result<()> {
    let mut standing = partition.watch();
    let is_primary = standing.wait_for(|standing| standing.role == Role::Primary);
    match time::timeout(PRIMARY_TIMEOUT, is_primary).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(_)) => Err(Error::fatal("the replica of the registry has stopped: see the log for its reason")),
        Err(time::Elapsed) => Err(Error::new(
            ErrorKind::Timeout,
            format!("the registry has had no primary for {} s: retry", PRIMARY_TIMEOUT.as_secs()),
        )),
    }
}

fn refuse_namesakes(services: &[ServiceType]) -> Result<()> {
    let mut names = BTreeSet::new();
    match services.iter().find(|service| !names.insert(service.name())) {
        None => Ok(()),
        Some(second) => Err(Error::invalid(format!(
            "two services have the name {:?}: give one another by `name = \"..\"` in its attribute",
            second.name()
        ))),
    }
}

/// Ends what was started if the start is given up half way.
struct KillOnDrop(Option<Host>);

impl KillOnDrop {
    fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        if let Some(host) = &self.0 {
            host.replicas().for_each(Replica::kill);
        }
    }
}
