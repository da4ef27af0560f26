use std::path::Path;
use std::sync::Arc;

use mainstay_core::{Level, NodeId, PartitionId, time};
use mainstay_replica::{InProcessNetwork, Partition, Role, UniformSets, UniformSetsOptions};
use mainstay_state::{Dictionary, StateManager, StateOptions};
use mainstay_store::disk::RealDisk;

use super::record::Record;
use crate::outcome::Outcome;

/// How long a set may take to be ready.
const READY_TIMEOUT: time::Duration = time::Duration::from_secs(30);

/// How many records one transaction brings while data is prepared.
const FILL_AT_ONCE: usize = 1000;

/// Room for all 100,000 records of the benchmark in memory; README.md says so.
const CACHE_BYTES: u64 = 64 << 20;

pub(super) type Records = Dictionary<String, Record>;

/// A node with one replica of everything, as a program has it, and the records of one partition.
pub(super) struct Node {
    replicas: UniformSets,
    pub(super) partition: Partition,
    pub(super) state: StateManager,
    pub(super) records: Records,
}

impl Node {
    /// Starts in an empty folder, with a record for every key.
    pub(super) async fn start(folder: &Path, level: Level, keys: &[String]) -> Outcome<Self> {
        let node = NodeId(1);
        let transport = InProcessNetwork::new().endpoint(node);
        let replicas = UniformSets::open(Arc::new(RealDisk), folder, UniformSetsOptions::new(node), transport).await?;
        replicas.bootstrap().await?;
        let partition = replicas.partition(level, PartitionId(1));
        let mut watch = partition.watch();
        let primary = watch.wait_for(|role_state| role_state.role == Role::Primary);
        time::timeout(READY_TIMEOUT, primary).await.map_err(|_| "no primary in time")??;
        // As whoever has one large partition would set it.
        let mut options = StateOptions::default();
        options.cache_bytes = CACHE_BYTES;
        let state = StateManager::open_with(partition.clone(), options).await?;
        let records: Records = state.collection("records").await?;
        for (first, some) in (0..).step_by(FILL_AT_ONCE).zip(keys.chunks(FILL_AT_ONCE)) {
            let fill = async |mut tx: mainstay_state::Attempt| {
                for (number, key) in (first..).zip(some) {
                    records.set(&mut tx, key.clone(), Record::new(number)).await?;
                }
                Ok(())
            };
            state.transact(fill).await?;
        }
        Ok(Self { replicas, partition, state, records })
    }

    /// Stops it; handles that are left do nothing any more.
    pub(super) async fn stop(&self) {
        self.replicas.stop().await;
    }
}

/// One who changes records, with handles of its own.
#[derive(Clone)]
pub(super) struct Caller {
    pub(super) state: StateManager,
    pub(super) records: Records,
}

impl Caller {
    pub(super) fn of(node: &Node) -> Self {
        Self { state: node.state.clone(), records: node.records.clone() }
    }

    /// What is measured: reads a record, adds one to its number, and commits that.
    pub(super) async fn change(&self, key: &str) -> Outcome<()> {
        let change =
            async |mut tx: mainstay_state::Attempt| self.records.update(&mut tx, key, |record| record.count += 1).await;
        match self.state.transact(change).await? {
            Some(_) => Ok(()),
            None => Err(format!("{key} is not there").into()),
        }
    }
}
