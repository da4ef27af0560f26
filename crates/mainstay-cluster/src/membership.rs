use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mainstay_core::{ClusterId, Error, NodeId, ReplicaId, Result, random};
use mainstay_replica::{Disk, FolderIdentity};
use mainstay_wire::Sender;
use mainstay_wire::tls::Security;
use rand::RngExt as _;

use crate::control::record::TimingProfile;
use crate::controller::{FOUNDING_NODE, FOUNDING_REPLICA};
use crate::joining;
use crate::node_files;
use crate::options::ClusterOptions;
use crate::peers_file::{FolderMembership, PeersFile};

/// Whose a folder is: which node of which cluster, and where the others are. Found out before the folder is opened.
#[derive(Debug, Clone)]
pub struct Membership {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) folder: PathBuf,
    pub(crate) file: PeersFile,
    pub(crate) membership: FolderMembership,
    pub(crate) security: Security,
}

impl Membership {
    /// Reads whose a folder is, or makes it that of a new node: of a cluster of its own without seeds, and else of the one
    /// that the seeds are of. `known` is what the folder's identity says, if it has one.
    ///
    /// A crash at any point is made good by the next call: what was asked for is asked for again, with the same request.
    ///
    /// # Errors
    /// `Invalid` if the cluster does not take this node, or if the folder and the seeds do not go together; `Timeout` if no seed was reached;
    /// `Corrupt` or `UnknownVersion` if the folder cannot be used.
    pub async fn find(
        disk: Arc<dyn Disk>,
        folder: &Path,
        known: Option<&FolderIdentity>,
        options: &ClusterOptions,
    ) -> Result<Self> {
        let found = PeersFile::read(&*disk, folder)?;
        let has_seeds = !options.seeds.is_empty() || options.token.is_some();
        let file = match (found, known) {
            (Some(file), known) => {
                check_same(&file, known, folder)?;
                file
            }
            // The first folders named no cluster.
            (None, Some(known)) if !has_seeds => {
                founder(known.cluster.unwrap_or_else(new_cluster), known.node, options)
            }
            (None, Some(known)) => {
                return Err(Error::invalid(format!(
                    "{} holds the data of node {}, which has run alone, and there are seeds to join another cluster: start it without \
                     seeds and let the others join it, or choose an empty folder",
                    folder.display(),
                    known.node
                )));
            }
            (None, None) if !has_seeds => {
                let (cluster, node) = new_owner(options)?;
                founder(cluster, node, options)
            }
            (None, None) => PeersFile {
                join_request: random::rng().random_range(1..=u128::MAX),
                membership: None,
                peers: BTreeMap::new(),
            },
        };
        // Before anything is asked for or founded: the next start goes on from here.
        file.write(&*disk, folder)?;
        let (membership, file) = match file.membership {
            Some(membership) => (membership, file),
            None => {
                let joined = joining::join(options, file.join_request).await?;
                if let Some(credentials) = &joined.credentials {
                    node_files::write(&*disk, folder, credentials)?;
                }
                let file = PeersFile { membership: Some(joined.membership), peers: joined.peers, ..file };
                file.write(&*disk, folder)?;
                (joined.membership, file)
            }
        };
        let security = match (&options.security, node_files::read(&*disk, folder)?) {
            (Security::LoopbackOnly, Some(credentials)) => Security::Tls(credentials),
            (given, _) => given.clone(),
        };
        Ok(Self { disk, folder: folder.to_owned(), file, membership, security })
    }

    /// The cluster and the node that the folder is to be, or is.
    pub fn owner(&self) -> (ClusterId, NodeId) {
        (self.membership.cluster, self.membership.node)
    }

    /// How the connections of this node are protected, now that its folder was looked into.
    pub fn security(&self) -> &Security {
        &self.security
    }

    /// The rhythm of heartbeats and elections that a folder was told to live by; `None` if it was told nothing yet.
    ///
    /// # Errors
    /// `Corrupt` or `UnknownVersion` if what it was told cannot be read.
    pub fn profile_of(disk: &dyn Disk, folder: &Path) -> Result<Option<TimingProfile>> {
        Ok(PeersFile::read(disk, folder)?.and_then(|file| file.membership).map(|membership| membership.profile))
    }

    /// The rhythm of heartbeats and elections of the cluster.
    pub fn profile(&self) -> TimingProfile {
        self.membership.profile
    }

    /// True if the cluster begins, or has begun, with this folder.
    pub fn is_founder(&self) -> bool {
        self.membership.is_founder
    }

    /// The id of this node's replica of the control set.
    pub fn control_replica(&self) -> ReplicaId {
        self.membership.control_replica
    }
}

/// The cluster and node that an empty folder becomes without seeds: those that the certificate names, where there is one.
fn new_owner(options: &ClusterOptions) -> Result<(ClusterId, NodeId)> {
    let identity = match &options.security {
        Security::Tls(credentials) => credentials.identity(),
        Security::LoopbackOnly | Security::Off => None,
    };
    match identity.map(|identity| (identity.cluster, identity.sender)) {
        None => Ok((new_cluster(), FOUNDING_NODE)),
        Some((cluster, Sender::Node(node))) => Ok((cluster, node)),
        Some((_, other)) => Err(Error::invalid(format!(
            "the certificate is for {other}, and a cluster begins with a node: give this process the certificate of a node"
        ))),
    }
}

/// A cluster that begins here.
fn founder(cluster: ClusterId, node: NodeId, options: &ClusterOptions) -> PeersFile {
    let profile = options.founding.profile;
    let membership = FolderMembership { cluster, node, control_replica: FOUNDING_REPLICA, is_founder: true, profile };
    PeersFile { join_request: 0, membership: Some(membership), peers: BTreeMap::new() }
}

fn new_cluster() -> ClusterId {
    ClusterId(random::rng().random_range(1..=u128::MAX))
}

/// Refuses a folder whose files are of different nodes.
fn check_same(file: &PeersFile, known: Option<&FolderIdentity>, folder: &Path) -> Result<()> {
    let Some(known) = known else { return Ok(()) };
    let is_same = |membership: FolderMembership| {
        membership.node == known.node && known.cluster.is_none_or(|cluster| cluster == membership.cluster)
    };
    if file.membership.is_some_and(is_same) {
        return Ok(());
    }
    let shown =
        file.membership.map_or("a node that still joins".to_owned(), |FolderMembership { cluster, node, .. }| {
            format!("node {node} of cluster {cluster}")
        });
    let cluster = known.cluster.map_or("no cluster".to_owned(), |cluster| format!("cluster {cluster}"));
    Err(Error::invalid(format!(
        "{} has the data of node {} of {cluster} and the peers file of {shown}: restore a copy of the whole folder",
        folder.display(),
        known.node
    )))
}
