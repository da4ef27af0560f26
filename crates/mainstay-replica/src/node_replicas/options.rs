use mainstay_core::{ClusterId, Error, NodeId, Result};
use mainstay_store::log::LogOptions;
use mainstay_store::state::DiskStoreOptions;

use super::folder::STATE_FILE_BYTES;
use crate::log_storage::log_batch_bytes;
use crate::options::{CommitOptions, ReplicaOptions};

/// How many persisted replicas a node is likely to hold, unless told otherwise.
const EXPECTED_REPLICAS: u16 = 8;

/// How the replicas of a node are set up.
#[derive(Debug, Clone)]
pub struct NodeReplicasOptions {
    /// The cluster and the node that the data folder is to belong to: an empty one is created for them, and one of another is
    /// refused by name. `None` for the ones that the folder says; then an empty one is refused.
    pub owner: Option<(ClusterId, NodeId)>,
    /// How many persisted replicas the node is likely to hold. The cache of all stores is divided by that, or by how many there are
    /// if that is more.
    pub expected_replicas: u16,
    /// How the replicas behave.
    pub replica: ReplicaOptions,
    /// How the node log behaves.
    pub log: LogOptions,
    /// How the state stores of all persisted replicas together behave; each gets its share of the cache.
    pub store: DiskStoreOptions,
}

impl NodeReplicasOptions {
    /// The defaults for a node, whose folder is created if need be.
    pub fn new(cluster: ClusterId, node: NodeId) -> Self {
        Self { owner: Some((cluster, node)), ..Self::existing() }
    }

    /// The defaults for a folder that is there.
    pub fn existing() -> Self {
        Self {
            owner: None,
            expected_replicas: EXPECTED_REPLICAS,
            replica: ReplicaOptions::default(),
            log: LogOptions::default(),
            store: DiskStoreOptions::default(),
        }
    }

    /// Refuses options that contradict each other.
    ///
    /// # Errors
    /// `Invalid` with the names of both.
    pub fn check(&self) -> Result<()> {
        self.replica.check()?;
        let CommitOptions { commit_bytes_max, entry_bytes_max, .. } = self.replica.commit;
        let needed = log_batch_bytes(commit_bytes_max.max(entry_bytes_max));
        if needed > self.log.batch_bytes_max {
            return Err(Error::invalid(format!(
                "commit.bytes_max is {commit_bytes_max}, commit.entry_bytes_max is {entry_bytes_max} and log.batch_bytes_max is \
                 {}, so that what is committed would not fit into the log: give log.batch_bytes_max at least {needed}",
                self.log.batch_bytes_max
            )));
        }
        let LogOptions { segment_bytes, log_bytes_max, .. } = self.log;
        if log_bytes_max < segment_bytes.saturating_mul(2) {
            return Err(Error::invalid(format!(
                "log.segment_bytes is {segment_bytes} and log.bytes_max is {log_bytes_max}, which is less than the two segments that \
                 are reserved at all times: give log.bytes_max at least {}, or smaller segments",
                segment_bytes.saturating_mul(2)
            )));
        }
        let kept = self.replica.checkpoint.log_keep_bytes;
        if kept > log_bytes_max {
            return Err(Error::invalid(format!(
                "checkpoint.log_keep_bytes is {kept} and log.bytes_max is {log_bytes_max}, so that the log of one set alone would be \
                 too long: give log.bytes_max at least as much, or keep less"
            )));
        }
        Ok(())
    }

    /// About how many bytes of the disk a new data folder takes: the first two segments of the log, and a file for each
    /// persisted replica that is expected.
    pub fn first_start_bytes(&self) -> u64 {
        self.log.first_start_bytes().saturating_add(u64::from(self.expected_replicas) * STATE_FILE_BYTES)
    }

    /// By how much the cache is divided on a node with so many persisted replicas.
    pub(super) fn cache_shares(&self, replicas: usize) -> usize {
        replicas.max(usize::from(self.expected_replicas)).max(1)
    }
}
