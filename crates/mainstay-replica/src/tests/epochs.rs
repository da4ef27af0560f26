//! A command is applied only in the epoch that it was written for, wherever it lands in the log.

use std::sync::Arc;

use mainstay_core::Epoch;
use mainstay_store::state::{MemoryStore, StateStore as _, WriteBatch};
use openraft::EntryPayload;
use openraft::storage::RaftStateMachine as _;

use crate::checkpoint_scheduler::CheckpointScheduler;
use crate::command::CommandBuilder;
use crate::progress::Progress;
use crate::raft::{Command, Entry, log_id};
use crate::state_machine::StateMachine;

#[tokio::test]
async fn a_command_of_another_epoch_changes_nothing() {
    let store = MemoryStore::new();
    let mut machine = StateMachine::new(
        Arc::new(store.clone()),
        Arc::new(CheckpointScheduler::new(u64::MAX)),
        Arc::new(Progress::new(0)),
    )
    .unwrap();
    let entry = |index: u64, term: u64, epoch: u64, key: &[u8]| {
        let mut batch = WriteBatch::new();
        batch.put(key, b"v");
        let mut builder = CommandBuilder::new(Epoch(epoch), 64);
        builder.push([batch.as_bytes()].into_iter());
        Ok((Entry { log_id: log_id(term, index), payload: EntryPayload::Normal(Command(builder.finish())) }, None))
    };
    let entries = [entry(1, 4, 4, b"same"), entry(2, 5, 4, b"older"), entry(3, 5, 6, b"newer")];
    machine.apply(futures_util::stream::iter(entries)).await.unwrap();
    assert!(store.get(b"same").unwrap().is_some());
    assert_eq!((store.get(b"older").unwrap(), store.get(b"newer").unwrap()), (None, None));
    assert_eq!(store.mark().index, 4, "the log goes on after them");
}
