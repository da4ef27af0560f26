//! Processes that host all sets of a node, each on a simulated disk of its own, on virtual time.

use std::path::Path;
use std::sync::Arc;

use mainstay_core::task::Scope;
use mainstay_core::time::{self, Duration};
use mainstay_core::{Level, NodeId, PartitionId, Result, SequenceNumber, SetId};
use mainstay_replica::{InProcessNetwork, Partition, Role, UniformSets, UniformSetsOptions};
use mainstay_store::disk::sim::SimDisk;
use mainstay_store::disk::{Disk as _, OpenMode};
use mainstay_store::log::{Driver, LogOptions, SyncDelay};

pub(crate) const LEVELS: [Level; 3] = [Level::Persisted, Level::Volatile, Level::None];
pub(crate) const FOLDER: &str = "/data";

pub(crate) fn options(node: u64) -> UniformSetsOptions {
    let mut options = UniformSetsOptions::new(NodeId(node));
    options.log = LogOptions {
        segment_bytes: 256 << 10,
        driver: Driver::Task { sync_delay: SyncDelay::default() },
        ..LogOptions::default()
    };
    options.store.cache_bytes_max = 8 << 20;
    options
}

/// A process on a node: what it starts ends with it.
pub(crate) struct Process {
    pub replicas: UniformSets,
    pub scope: Scope,
}

/// Nodes with disks of their own on one network.
#[derive(Default)]
pub(crate) struct Nodes {
    pub network: InProcessNetwork,
}

impl Nodes {
    pub(crate) async fn open(&self, disk: &SimDisk, options: UniformSetsOptions) -> Result<Process> {
        let scope = Scope::new();
        let node = options.node;
        let opening =
            UniformSets::open(Arc::new(disk.clone()), Path::new(FOLDER), options, self.network.endpoint(node));
        let replicas = scope.enter(opening).await?;
        let handler = replicas.clone();
        self.network.attach(
            node,
            scope.clone(),
            Arc::new(move |from, set, request| {
                let replicas = handler.clone();
                Box::pin(async move { replicas.receive(from, set, request).await })
            }),
        );
        Ok(Process { replicas, scope })
    }

    /// Ends a process in order.
    pub(crate) async fn stop(&self, process: Process) {
        self.network.detach(process.replicas.replicas().next().unwrap().status().identity.node);
        process.replicas.stop().await;
        process.scope.stop();
        process.scope.ended().await;
    }

    /// Ends a process where it stands; its disk loses what was not synced.
    pub(crate) fn kill(&self, process: Process, disk: &SimDisk) {
        self.network.detach(process.replicas.replicas().next().unwrap().status().identity.node);
        process.replicas.replicas().for_each(mainstay_replica::Replica::kill);
        process.scope.stop();
        drop(process);
        disk.crash();
    }
}

/// Another disk with what is durable in the data folder of a process that was ended.
pub(crate) fn copy_of(disk: &SimDisk, seed: u64) -> SimDisk {
    let copy = SimDisk::new(seed);
    for part in ["", "log", "state"] {
        let folder = Path::new(FOLDER).join(part);
        copy.create_dir_all(&folder).unwrap();
        for name in disk.list(&folder).unwrap() {
            if !["log", "state"].contains(&name.as_str()) {
                copy_file(disk, &copy, &folder.join(name));
            }
        }
        copy.sync_dir(&folder).unwrap();
    }
    copy
}

/// Puts a file of one disk, or what it holds now, in the place of another's.
pub(crate) fn copy_file(from: &SimDisk, to: &SimDisk, path: &Path) {
    let source = from.open(path, OpenMode::Existing).unwrap();
    let mut bytes = vec![0; source.len().unwrap() as usize];
    source.read_exact_at(&mut bytes, 0).unwrap();
    let target = to.open(path, OpenMode::Either).unwrap();
    target.set_len(0).unwrap();
    target.write_all_at(&bytes, 0).unwrap();
    target.sync().unwrap();
}

pub(crate) async fn founded(nodes: &Nodes, disk: &SimDisk, options: UniformSetsOptions) -> Process {
    let process = nodes.open(disk, options).await.unwrap();
    process.replicas.bootstrap().await.unwrap();
    primaries(&[&process]).await;
    process
}

/// Waits until every set has a primary among the processes.
pub(crate) async fn primaries(processes: &[&Process]) {
    let sets: Vec<SetId> = processes[0].replicas.replicas().map(|replica| replica.status().identity.set).collect();
    let is_led = |set: &SetId| {
        processes.iter().any(|process| process.replicas.replica(*set).unwrap().role_state().role == Role::Primary)
    };
    let all = async {
        while !sets.iter().all(is_led) {
            time::sleep(Duration::from_millis(10)).await;
        }
    };
    time::timeout(Duration::from_secs(60), all).await.expect("primaries within a minute");
}

/// A partition where its primary is.
pub(crate) async fn at_primary(processes: &[&Process], level: Level, id: u64) -> Partition {
    primaries(processes).await;
    let mut handles = processes.iter().map(|process| process.replicas.partition(level, PartitionId(id)));
    handles.find(|partition| partition.check().is_ok()).expect("one is primary")
}

pub(crate) async fn put(partition: &Partition, key: &str, value: &str) -> Result<SequenceNumber> {
    let mut batch = partition.batch();
    batch.put(key.as_bytes(), value.as_bytes());
    partition.commit(batch).await
}

pub(crate) fn get(partition: &Partition, key: &str) -> Option<String> {
    partition.get(key.as_bytes()).unwrap().map(|value| String::from_utf8(value.to_vec()).unwrap())
}
