use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use mainstay_core::NodeId;
use mainstay_core::time::Duration;
use mainstay_replica::HostOptions;

use super::form::Form;
use super::key::{Key, key};
use super::value::Value;

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
    pub(crate) host: HostOptions,
}

impl Default for NodeDraft {
    fn default() -> Self {
        Self { data_dir: DATA_DIR_DEFAULT.into(), admin_address: None, host: HostOptions::new(NODE) }
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
    key!("sets_per_level", Count(1..=1024) as u16, host.sets_per_level),
    key!("log.segment_bytes", Bytes(SEGMENTS) as u64, host.log.segment_bytes),
    key!("log.bytes_max", Bytes(DISK) as u64, host.log.log_bytes_max),
    key!("log.reserve_bytes", Bytes(0..=1 << 50) as u64, host.log.reserve_bytes),
    key!("log.queue_bytes_max", Bytes(MEMORY) as usize, host.log.queue_bytes_max),
    key!("log.cache_bytes_max", Bytes(MEMORY) as usize, host.log.cache_bytes_max),
    key!("store.cache_bytes_max", Bytes(MEMORY) as usize, host.store.cache_bytes_max),
    key!("commit.bytes_max", Bytes(COMMITS) as usize, host.replica.commit.commit_bytes_max),
    key!("commit.waiting_max", Count(1..=1 << 24) as usize, host.replica.commit.waiting_max),
    key!("commit.waiting_bytes_max", Bytes(MEMORY) as usize, host.replica.commit.waiting_bytes_max),
    key!("checkpoint.bytes", Bytes(DISK) as u64, host.replica.checkpoint.bytes),
    key!(
        "checkpoint.interval",
        Duration(Duration::from_secs(1)..=Duration::from_secs(24 * 60 * 60)),
        host.replica.checkpoint.interval
    ),
    key!("checkpoint.unsaved_bytes_max", Bytes(DISK) as u64, host.replica.checkpoint.unsaved_bytes_max),
    key!("checkpoint.log_keep_bytes", Bytes(0..=1 << 50) as u64, host.replica.checkpoint.log_keep_bytes),
];
