use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use mainstay_core::NodeId;
use mainstay_core::time::Duration;
use mainstay_replica::UniformSetsOptions;

use super::form::Form;
use super::key::Key;
use super::value::Value;
use crate::setting;

/// Where a node keeps its data unless told otherwise: in the current folder.
pub const DATA_DIR_DEFAULT: &str = "data";

/// The number of the only node there is.
const NODE: NodeId = NodeId(1);

/// The sizes of caches and queues.
const MEMORY: RangeInclusive<u64> = 64 << 10..=1 << 40;

/// A segment is reserved as a whole and removed as a whole; the log takes none over 1 GiB.
const SEGMENTS: RangeInclusive<u64> = 64 << 10..=1 << 30;

/// The log takes batches up to 64 MiB, and a commit travels in one with others.
const COMMITS: RangeInclusive<u64> = 1 << 10..=32 << 20;

const DISK: RangeInclusive<u64> = 1 << 20..=1 << 50;

/// What is set for a node as a whole, while it is being put together.
#[derive(Debug, Clone)]
pub(crate) struct NodeDraft {
    pub(crate) data_dir: PathBuf,
    pub(crate) admin_address: Option<SocketAddr>,
    pub(crate) replicas: UniformSetsOptions,
}

impl Default for NodeDraft {
    fn default() -> Self {
        Self { data_dir: DATA_DIR_DEFAULT.into(), admin_address: None, replicas: UniformSetsOptions::new(NODE) }
    }
}

/// The settings of a node. Not among them: the rhythm of heartbeats and elections, which all nodes must agree on, because a
/// lease is only as good as the longest silence that every other node waits for.
pub(crate) const NODE_KEYS: &[Key<NodeDraft>] = &[
    Key {
        name: "data_dir",
        form: Form::Path,
        get: |draft| Value::Path(draft.data_dir.clone()),
        set: |draft, value| {
            if let Value::Path(path) = value {
                draft.data_dir = path;
            }
        },
    },
    Key {
        name: "admin.address",
        form: Form::Address,
        get: |draft| draft.admin_address.map_or(Value::None, Value::Address),
        set: |draft, value| match value {
            Value::Address(address) => draft.admin_address = Some(address),
            Value::None => draft.admin_address = None,
            _ => {}
        },
    },
    setting!("sets_per_level", Count(1..=1024) as u16, replicas.sets_per_level),
    setting!("log.segment_bytes", Bytes(SEGMENTS) as u64, replicas.log.segment_bytes),
    setting!("log.bytes_max", Bytes(DISK) as u64, replicas.log.log_bytes_max),
    setting!("log.reserve_bytes", Bytes(0..=1 << 50) as u64, replicas.log.reserve_bytes),
    setting!("log.queue_bytes_max", Bytes(MEMORY) as usize, replicas.log.queue_bytes_max),
    setting!("log.cache_bytes_max", Bytes(MEMORY) as usize, replicas.log.cache_bytes_max),
    setting!("store.cache_bytes_max", Bytes(MEMORY) as usize, replicas.store.cache_bytes_max),
    setting!("commit.bytes_max", Bytes(COMMITS) as usize, replicas.replica.commit.commit_bytes_max),
    setting!("commit.waiting_max", Count(1..=1 << 24) as usize, replicas.replica.commit.waiting_max),
    setting!("commit.waiting_bytes_max", Bytes(MEMORY) as usize, replicas.replica.commit.waiting_bytes_max),
    setting!("checkpoint.bytes", Bytes(DISK) as u64, replicas.replica.checkpoint.bytes),
    setting!(
        "checkpoint.interval",
        Duration(Duration::from_secs(1)..=Duration::from_secs(24 * 60 * 60)),
        replicas.replica.checkpoint.interval
    ),
    setting!("checkpoint.unsaved_bytes_max", Bytes(DISK) as u64, replicas.replica.checkpoint.unsaved_bytes_max),
    setting!("checkpoint.log_keep_bytes", Bytes(0..=1 << 50) as u64, replicas.replica.checkpoint.log_keep_bytes),
];
