//! Following the log of a replica, without a replica: what is read, from where, and what is left out.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use mainstay_core::{Epoch, ErrorKind, Level, PartitionId, Result, SequenceNumber, SetId};
use mainstay_store::log::{GroupId, LogBatch, MemoryLog, NodeLog};
use mainstay_store::state::{MemoryStore, WriteBatch};
use openraft::EntryPayload;
use openraft::storage::RaftStateMachine as _;

use crate::changes::Changes;
use crate::checkpoint_scheduler::CheckpointScheduler;
use crate::command::{CommandBuilder, last_sequence_number, sequence_number};
use crate::log_storage::LogStorage;
use crate::partition::prefix;
use crate::progress::Progress;
use crate::raft::{Command, Entry, log_id};
use crate::state_machine::StateMachine;
use crate::wire;

const SET: SetId = SetId { level: Level::Volatile, number: 0 };
const GROUP: GroupId = GroupId(0);

struct Log {
    log: Arc<MemoryLog>,
    progress: Arc<Progress>,
}

impl Log {
    fn new() -> Self {
        Self { log: Arc::default(), progress: Arc::new(Progress::new(0)) }
    }

    /// Appends an entry of term 5 with commits for an epoch, each a put of so many bytes in a partition.
    fn append(&self, epoch: u64, commits: &[(u64, usize)]) {
        let mut builder = CommandBuilder::new(Epoch(epoch), 64);
        for (partition, len) in commits {
            let mut batch = WriteBatch::with_prefix(&prefix(PartitionId(*partition)));
            batch.put(b"key", &vec![0; *len]);
            builder.push([batch.as_bytes()].into_iter());
        }
        self.append_payload(EntryPayload::Normal(Command(builder.finish())));
    }

    fn append_payload(&self, payload: EntryPayload<Command, u64, crate::raft::Member>) {
        let index = self.log.group(GROUP).next;
        let entry = wire::encode_entry(&Entry { log_id: log_id(5, index), payload });
        let mut batch = LogBatch::new();
        batch.append(GROUP, index, vec![entry]);
        self.log.submit(batch, Box::new(|result| result.unwrap())).unwrap();
    }

    fn apply_all(&self) {
        self.progress.applied(self.log.group(GROUP).next);
    }

    fn follow(&self, after: SequenceNumber) -> Result<Changes> {
        let storage = LogStorage::new(self.log.clone(), GROUP);
        Changes::of_log(PartitionId(1), SET, storage, self.progress.clone(), after)
    }
}

/// What can be had without waiting.
fn ready(changes: &mut Changes) -> Vec<SequenceNumber> {
    let mut found = Vec::new();
    while let Poll::Ready(next) = poll(changes) {
        found.push(next.unwrap().sequence_number);
    }
    found
}

fn poll(changes: &mut Changes) -> Poll<Result<crate::Committed>> {
    pin!(changes.next()).poll(&mut Context::from_waker(Waker::noop()))
}

#[tokio::test]
async fn only_what_was_applied_is_delivered() {
    let log = Log::new();
    log.append_payload(EntryPayload::Blank);
    log.append(5, &[(1, 1), (2, 1), (1, 1)]);
    log.append(4, &[(1, 1)]);
    log.append(5, &[(2, 1)]);
    let mut changes = log.follow(SequenceNumber(0)).unwrap();
    assert_eq!(ready(&mut changes), []);
    log.apply_all();
    log.append(5, &[(1, 1)]);
    let expected = [sequence_number(1, 0), sequence_number(1, 2)];
    assert_eq!(
        ready(&mut changes),
        expected,
        "not of another partition, nor of another epoch, nor what is not applied"
    );
    assert_eq!(changes.position(), last_sequence_number(4), "the rest has nothing for this partition");
    log.apply_all();
    assert_eq!(ready(&mut changes), [sequence_number(4, 0)]);
}

#[tokio::test]
async fn a_follower_begins_after_its_number_also_within_an_entry() {
    let log = Log::new();
    log.append_payload(EntryPayload::Blank);
    log.append(5, &[(1, 1), (1, 1), (1, 1)]);
    log.append(5, &[(1, 1)]);
    log.apply_all();
    let from = |after| ready(&mut log.follow(after).unwrap());
    let all: Vec<SequenceNumber> = (0..3).map(|position| sequence_number(1, position)).collect();
    assert_eq!(from(SequenceNumber(0)), [&all[..], &[sequence_number(2, 0)]].concat());
    assert_eq!(from(all[0]), [all[1], all[2], sequence_number(2, 0)]);
    assert_eq!(from(all[2]), [sequence_number(2, 0)]);
    assert_eq!(from(last_sequence_number(2)), [sequence_number(2, 0)]);
    assert_eq!(from(sequence_number(2, 0)), []);
    assert_eq!(from(SequenceNumber(u64::MAX)), [], "a number of the future is waited for");

    // Who has taken some of an entry goes on with the rest of it.
    let mut changes = log.follow(SequenceNumber(0)).unwrap();
    for expected in &all {
        assert!(changes.position() < *expected);
        assert_eq!(changes.next().await.unwrap().sequence_number, *expected);
        assert_eq!(from(changes.position()), from(*expected));
    }
}

#[tokio::test]
async fn a_long_log_is_read_in_pieces() {
    let log = Log::new();
    log.append_payload(EntryPayload::Blank);
    for _ in 0..20 {
        log.append(5, &[(1, 300 << 10), (1, 1)]);
    }
    log.apply_all();
    let mut changes = log.follow(SequenceNumber(0)).unwrap();
    let mut found = vec![changes.next().await.unwrap().sequence_number];
    assert!(changes.held() < 10, "{} commits are in memory", changes.held());
    found.extend(ready(&mut changes));
    let expected: Vec<SequenceNumber> =
        (1..=20).flat_map(|index| [0, 1].map(|at| sequence_number(index, at))).collect();
    assert_eq!(found, expected);
}

#[tokio::test]
async fn what_was_compacted_or_skipped_is_too_old() {
    let log = Log::new();
    for _ in 0..6 {
        log.append(5, &[(1, 1)]);
    }
    log.apply_all();
    let mut before = log.follow(sequence_number(1, 0)).unwrap();
    let mut batch = LogBatch::new();
    batch.compact(GROUP, 2, "mark".into());
    log.log.submit(batch, Box::new(|result| result.unwrap())).unwrap();
    for after in [SequenceNumber(0), sequence_number(2, 0)] {
        let error = log.follow(after).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TooOld);
        assert!(error.to_string().contains("take a snapshot"), "{error}");
    }
    for _ in 0..2 {
        assert_eq!(before.next().await.unwrap_err().kind(), ErrorKind::TooOld, "again and again");
    }
    let mut changes = log.follow(last_sequence_number(3)).unwrap();
    assert_eq!(changes.next().await.unwrap().sequence_number, sequence_number(3, 0));

    // A snapshot takes the place of what follows, up to entry 9; what the log has there may never have been committed.
    let mut after = log.follow(last_sequence_number(10)).unwrap();
    log.append(5, &[(1, 1)]);
    log.progress.skips_to(10);
    log.progress.applied(10);
    for index in [4, 5] {
        let read_before = changes.next().await.unwrap().sequence_number;
        assert_eq!(read_before, sequence_number(index, 0));
    }
    assert_eq!(changes.next().await.unwrap_err().kind(), ErrorKind::TooOld);
    assert_eq!(log.follow(sequence_number(9, 0)).unwrap_err().kind(), ErrorKind::TooOld);
    assert!(poll(&mut after).is_pending());
}

#[tokio::test]
async fn a_snapshot_that_is_installed_hides_what_the_log_has_below_it() {
    let machine = |progress: &Arc<Progress>| {
        let store = Arc::new(MemoryStore::new());
        StateMachine::new(store, Arc::new(CheckpointScheduler::new(u64::MAX)), progress.clone()).unwrap()
    };
    let mut primary = machine(&Arc::new(Progress::new(0)));
    let entries = (0..10).map(|index| Ok((Entry { log_id: log_id(6, index), payload: EntryPayload::Blank }, None)));
    primary.apply(futures_util::stream::iter(entries.collect::<Vec<_>>())).await.unwrap();
    let snapshot = primary.get_current_snapshot().await.unwrap().unwrap();

    let log = Log::new();
    log.append_payload(EntryPayload::Blank);
    log.append(5, &[(1, 1)]);
    let mut behind = log.follow(SequenceNumber(0)).unwrap();
    let mut replica = machine(&log.progress);
    replica.install_snapshot(&snapshot.meta, snapshot.snapshot).await.unwrap();
    assert_eq!(log.progress.next(), 10);
    assert_eq!(behind.next().await.unwrap_err().kind(), ErrorKind::TooOld, "that entry was never committed");
    log.follow(last_sequence_number(10)).unwrap();
}

#[tokio::test]
async fn a_stop_ends_followers_and_tells_why() {
    let log = Log::new();
    let mut changes = log.follow(SequenceNumber(0)).unwrap();
    let mut waiting = pin!(changes.next());
    assert!(waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    log.progress.stop("the disk broke");
    for error in [waiting.await.unwrap_err(), log.follow(SequenceNumber(0)).unwrap_err()] {
        assert!(error.kind() == ErrorKind::Fatal && error.to_string().contains("the disk broke"), "{error}");
    }
}
