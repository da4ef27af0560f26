//! A node's partitions for tests, on every level.
#![allow(dead_code, unreachable_pub, reason = "not every test uses all of it")]

use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use mainstay_core::{Level, NodeId, PartitionId};
use mainstay_replica::{
    Disk, InProcessNetwork, KeyRange, LogOptions, Order, Partition, RealDisk, Role, SimDisk, UniformSets,
    UniformSetsOptions,
};
use mainstay_state::{StateManager, StateOptions};
use tempfile::TempDir;

pub const LEVELS: [Level; 3] = [Level::Persisted, Level::Volatile, Level::None];

pub const NODE: NodeId = NodeId(1);

/// A node with one replica of everything, in a folder that goes when it is dropped.
pub struct TestNode {
    pub replicas: UniformSets,
    folder: PathBuf,
    _temporary: Option<TempDir>,
}

impl TestNode {
    pub async fn start() -> Self {
        let temporary = tempfile::tempdir().unwrap();
        let mut node = Self::open(temporary.path()).await;
        node._temporary = Some(temporary);
        node
    }

    /// Starts a node with other options than the usual.
    pub async fn start_with(options: UniformSetsOptions) -> Self {
        let temporary = tempfile::tempdir().unwrap();
        let mut node = Self::open_with(temporary.path(), options).await;
        node._temporary = Some(temporary);
        node
    }

    /// Starts a node in a folder that is kept.
    pub async fn open(folder: &Path) -> Self {
        Self::open_with(folder, UniformSetsOptions::new(NODE)).await
    }

    pub async fn open_with(folder: &Path, options: UniformSetsOptions) -> Self {
        Self::open_on(Arc::new(RealDisk), folder, options).await
    }

    /// Starts a node with few replicas on a disk that is none, which costs next to nothing.
    pub async fn start_small() -> Self {
        Self::open_small(Arc::new(SimDisk::new(1))).await
    }

    /// Starts a node with few replicas on a disk that is kept.
    pub async fn open_small(disk: Arc<SimDisk>) -> Self {
        let log = LogOptions { segment_bytes: 1 << 20, ..LogOptions::default() };
        let options = UniformSetsOptions { sets_per_level: 1, log, ..UniformSetsOptions::new(NODE) };
        Self::open_on(disk, Path::new("/node"), options).await
    }

    async fn open_on(disk: Arc<dyn Disk>, folder: &Path, options: UniformSetsOptions) -> Self {
        let transport = InProcessNetwork::new().endpoint(options.node);
        let replicas = UniformSets::open(disk, folder, options, transport).await.unwrap();
        replicas.bootstrap().await.unwrap();
        Self { replicas, folder: folder.to_owned(), _temporary: None }
    }

    /// Stops the node and starts it again in the same folder.
    pub async fn restart(self) -> Self {
        let Self { replicas, folder, _temporary } = self;
        replicas.stop().await;
        // It holds the files.
        drop(replicas);
        let mut node = Self::open(&folder).await;
        node._temporary = _temporary;
        node
    }

    pub async fn partition(&self, level: Level, id: u64) -> Partition {
        let partition = self.replicas.partition(level, PartitionId(id));
        partition.watch().wait_for(|role_state| role_state.role == Role::Primary).await.unwrap();
        partition
    }

    pub async fn state(&self, level: Level) -> StateManager {
        StateManager::open(self.partition(level, 7).await).await.unwrap()
    }

    pub async fn state_with(&self, level: Level, options: StateOptions) -> StateManager {
        StateManager::open_with(self.partition(level, 7).await, options).await.unwrap()
    }
}

/// Runs a test on every level, each with a state of its own.
pub async fn on_every_level<F: Future<Output = ()>>(test: impl Fn(StateManager) -> F) {
    let node = TestNode::start().await;
    for level in LEVELS {
        test(node.state(level).await).await;
    }
    node.replicas.stop().await;
}

/// Everything that a partition has in its store: keys as they are stored.
pub fn stored_keys(partition: &Partition) -> Vec<Bytes> {
    let snapshot = partition.read().unwrap();
    snapshot.scan(KeyRange::all(), Order::Ascending).unwrap().map(|entry| entry.unwrap().0).collect()
}
