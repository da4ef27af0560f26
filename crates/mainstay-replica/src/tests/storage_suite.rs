use std::path::Path;
use std::sync::Arc;

use mainstay_store::disk::Disk as _;
use mainstay_store::disk::sim::SimDisk;
use mainstay_store::log::{GroupId, LogOptions, MemoryLog, NodeLog, SegmentLog};
use mainstay_store::state::{DiskStore, DiskStoreOptions, MemoryStore, StateStore};
use openraft::testing::log::{StoreBuilder, Suite};

use crate::checkpoint_scheduler::CheckpointScheduler;
use crate::log_storage::LogStorage;
use crate::progress::Progress;
use crate::raft::Types;
use crate::state_machine::StateMachine;

struct Memory;

impl StoreBuilder<Types, LogStorage, StateMachine> for Memory {
    async fn build(&self) -> Result<((), LogStorage, StateMachine), openraft::StorageError<Types>> {
        Ok(storages(Arc::new(MemoryLog::new()), Arc::new(MemoryStore::new())))
    }
}

struct Disk;

impl StoreBuilder<Types, LogStorage, StateMachine> for Disk {
    async fn build(&self) -> Result<((), LogStorage, StateMachine), openraft::StorageError<Types>> {
        let disk = Arc::new(SimDisk::new(1));
        let folder = Path::new("data");
        disk.create_dir_all(folder).expect("a new folder");
        let log = SegmentLog::open(disk.clone(), &folder.join("log"), LogOptions::default()).expect("a new log opens");
        let store =
            DiskStore::open(disk, &folder.join("state"), DiskStoreOptions::default()).expect("a new store opens");
        Ok(storages(Arc::new(log), Arc::new(store)))
    }
}

fn storages(log: Arc<dyn NodeLog>, store: Arc<dyn StateStore>) -> ((), LogStorage, StateMachine) {
    let machine = StateMachine::new(store, Arc::new(CheckpointScheduler::new(u64::MAX)), Arc::new(Progress::new(0)))
        .expect("an empty store has a position");
    ((), LogStorage::new(log, GroupId(3)), machine)
}

#[tokio::test]
async fn memory_passes_openrafts_storage_suite() {
    Suite::test_all(Memory).await.expect("the suite passes");
}

#[tokio::test]
async fn disk_passes_openrafts_storage_suite() {
    Suite::test_all(Disk).await.expect("the suite passes");
}
