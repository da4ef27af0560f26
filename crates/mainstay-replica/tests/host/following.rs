//! Following the commits of a partition, on every level.

use std::collections::BTreeMap;
use std::future::{Future as _, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use mainstay_core::task;
use mainstay_core::time::{self, Duration};
use mainstay_core::{Epoch, ErrorKind, Level, PartitionId, SequenceNumber};
use mainstay_replica::{Batch, Changes, Committed, Object, Operation, Partition, Snapshot, UniformSetsOptions};
use mainstay_store::disk::sim::SimDisk;
use mainstay_store::state::{KeyRange, Order};

use crate::harness::{LEVELS, Nodes, founded, options, put};

type Entries = BTreeMap<Vec<u8>, Vec<u8>>;

/// Follows from now on.
fn follow(partition: &Partition) -> Changes {
    partition.changes(partition.snapshot().unwrap().sequence_number()).unwrap()
}

fn poll(changes: &mut Changes) -> Poll<mainstay_core::Result<Committed>> {
    pin!(changes.next()).poll(&mut Context::from_waker(Waker::noop()))
}

fn entries(snapshot: &Snapshot) -> Entries {
    let found = snapshot.scan(KeyRange::all(), Order::Ascending).unwrap();
    found.map(|entry| entry.unwrap()).map(|(key, value)| (key.to_vec(), value.to_vec())).collect()
}

/// Does to entries what a commit did to the partition.
fn replay(entries: &mut Entries, committed: &Committed) {
    for operation in committed.operations() {
        match operation {
            Operation::Put { key, value } => drop(entries.insert(key.into_owned(), value.to_vec())),
            Operation::Delete { key } => drop(entries.remove(key)),
            Operation::DeleteRange { start, end } => {
                entries.retain(|key, _| &key[..] < start || end.is_some_and(|end| &key[..] >= end));
            }
            Operation::Add { key, delta } => {
                let before = entries.get(key).map_or(0, |value| i64::from_le_bytes(value[..].try_into().unwrap()));
                match before + delta {
                    0 => drop(entries.remove(key)),
                    sum => drop(entries.insert(key.to_vec(), sum.to_le_bytes().to_vec())),
                }
            }
            Operation::Note { .. } => {}
        }
    }
}

fn some_of_all(partition: &Partition, round: u8) -> Batch {
    let mut batch = partition.batch();
    batch.put(&[b'k', round % 7], &[round; 3]).add(b"count", i64::from(round)).put_stamped(b"q", &[round], b"item");
    batch.note(&[round]);
    match round % 5 {
        0 => batch.delete(&[b'k', round % 3]),
        1 => batch.delete_range(&[b'k', 2], Some(&[b'k', 4])),
        2 => batch.add(b"count", -i64::from(round)),
        3 => batch.delete_range(b"q", None),
        _ => &mut batch,
    };
    batch
}

#[tokio::test(start_paused = true)]
async fn a_follower_sees_each_commit_of_its_partition_once_and_in_order() {
    let process = founded(&Nodes::default(), &SimDisk::new(1), options(1)).await;
    for level in LEVELS {
        let (one, two) =
            (process.replicas.partition(level, PartitionId(3)), process.replicas.partition(level, PartitionId(11)));
        let (mut of_one, mut of_two) = (follow(&one), follow(&two));
        let mut batch = one.batch();
        batch.put(b"a", b"1").delete(b"b").delete_range(b"c", Some(b"d")).delete_range(b"e", None).add(b"n", -4);
        batch.put_stamped(b"q", b"!", b"2").note(b"hello");
        let first = one.commit(batch).await.unwrap();
        put(&two, "x", "3").await.unwrap();
        let (mut here, mut there) = (one.batch(), two.batch());
        here.put(b"t", b"here");
        there.note(b"there");
        let together = one.commit_together(vec![here, there]).await.unwrap();
        one.commit(one.batch()).await.unwrap();

        let committed = of_one.next().await.unwrap();
        assert_eq!(committed.sequence_number, first, "{level}");
        let stamped = [&b"q"[..], &first.0.to_be_bytes(), b"!"].concat();
        let expected = [
            Operation::Put { key: b"a"[..].into(), value: b"1" },
            Operation::Delete { key: b"b" },
            Operation::DeleteRange { start: b"c", end: Some(b"d") },
            Operation::DeleteRange { start: b"e", end: None },
            Operation::Add { key: b"n", delta: -4 },
            Operation::Put { key: stamped.into(), value: b"2" },
            Operation::Note { note: b"hello" },
        ];
        assert_eq!(committed.operations().collect::<Vec<_>>(), expected, "{level}");
        let committed = of_one.next().await.unwrap();
        assert_eq!(committed.sequence_number, together);
        let expected = [Operation::Put { key: b"t"[..].into(), value: b"here" }];
        assert_eq!(committed.operations().collect::<Vec<_>>(), expected, "{level}");
        assert!(poll(&mut of_one).is_pending(), "a commit without anything is left out");

        of_two.next().await.unwrap();
        let committed = of_two.next().await.unwrap();
        assert_eq!(committed.sequence_number, together);
        assert_eq!(committed.operations().collect::<Vec<_>>(), [Operation::Note { note: b"there" }], "{level}");
        assert!(of_two.position() >= together);
    }
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_and_what_follows_it_are_the_state_without_gap_or_double() {
    let process = founded(&Nodes::default(), &SimDisk::new(1), options(1)).await;
    for level in LEVELS {
        let partition = process.replicas.partition(level, PartitionId(u64::MAX));
        // The first follower makes level none keep what follows.
        drop(follow(&partition));
        let commits = (0..200_u8).map(|round| partition.commit(some_of_all(&partition, round)));
        let mut commits = commits.collect::<futures_util::stream::FuturesUnordered<_>>();
        let mut taken = Vec::new();
        let mut done = 0;
        while let Some(outcome) = futures_util::StreamExt::next(&mut commits).await {
            outcome.unwrap();
            done += 1;
            if done % 20 == 0 {
                taken.push(partition.snapshot().unwrap());
            }
        }
        drop(commits);
        let last = put(&partition, "last", "").await.unwrap();
        let expected = entries(&partition.snapshot().unwrap());
        for snapshot in taken {
            let mut state = entries(&snapshot);
            let mut changes = partition.changes(snapshot.sequence_number()).unwrap();
            let mut before = snapshot.sequence_number();
            while before != last {
                let committed = changes.next().await.unwrap();
                assert!(committed.sequence_number > before, "{level}");
                before = committed.sequence_number;
                replay(&mut state, &committed);
            }
            assert_eq!(state, expected, "{level}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_follower_goes_on_after_a_restart_where_it_was() {
    let (nodes, disk) = (Nodes::default(), SimDisk::new(1));
    let mut process = founded(&nodes, &disk, options(1)).await;
    let mut position = SequenceNumber(0);
    let (mut sent, mut seen) = (Vec::new(), Vec::new());
    for round in 0..6 {
        let partition = process.replicas.partition(Level::Persisted, PartitionId(3));
        for number in 0..5 {
            sent.push(put(&partition, "key", &format!("{round} {number}")).await.unwrap());
        }
        let mut changes = partition.changes(position).unwrap();
        // Some rounds take less than there is, some all of it.
        for _ in 0..[2, 8, 0, 4, 10, 6][round] {
            let committed = changes.next().await.unwrap();
            seen.push(committed.sequence_number);
            position = if round % 2 == 0 { changes.position() } else { committed.sequence_number };
        }
        drop(changes);
        if round == 1 {
            process.replicas.replica(partition.set()).unwrap().checkpoint().await.unwrap();
        }
        drop(partition);
        if round % 2 == 0 {
            nodes.kill(process, &disk);
        } else {
            nodes.stop(process).await;
        }
        process = founded(&nodes, &disk, options(1)).await;
    }
    assert_eq!((seen.len(), &seen[..]), (30, &sent[..]));
}

#[tokio::test(start_paused = true)]
async fn dropping_the_wait_loses_nothing() {
    let process = founded(&Nodes::default(), &SimDisk::new(1), options(1)).await;
    for level in LEVELS {
        let partition = process.replicas.partition(level, PartitionId(3));
        let mut changes = follow(&partition);
        let (mut sent, mut seen) = (Vec::new(), Vec::new());
        for round in 0..20 {
            assert!(poll(&mut changes).is_pending());
            for _ in 0..=round % 3 {
                sent.push(put(&partition, "key", "v").await.unwrap());
            }
            while let Poll::Ready(committed) = poll(&mut changes) {
                seen.push(committed.unwrap().sequence_number);
            }
        }
        assert_eq!(seen, sent, "{level}");
        // A wait that is under way ends with the commit.
        let waiting = changes.next();
        let (committed, number) = futures_util::future::join(waiting, put(&partition, "key", "v")).await;
        assert_eq!(committed.unwrap().sequence_number, number.unwrap(), "{level}");
    }
}

#[tokio::test(start_paused = true)]
async fn who_is_too_far_behind_is_told_to_take_a_snapshot() {
    let mut small = UniformSetsOptions { sets_per_level: 1, ..options(1) };
    small.replica.checkpoint.log_keep_bytes = 0;
    let process = founded(&Nodes::default(), &SimDisk::new(1), small).await;
    for level in LEVELS {
        let partition = process.replicas.partition(level, PartitionId(3));
        let mut behind = follow(&partition);
        let mut idle = follow(&process.replicas.partition(level, PartitionId(4)));
        let first = put(&partition, "key", "first").await.unwrap();
        assert_eq!(behind.next().await.unwrap().sequence_number, first);
        assert!(poll(&mut idle).is_pending());
        for _ in 0..12 {
            put(&partition, "key", &"x".repeat(500 << 10)).await.unwrap();
            assert!(poll(&mut idle).is_pending(), "who keeps up with others' commits stays near");
        }
        if let Some(replica) = process.replicas.replica(partition.set()) {
            replica.checkpoint().await.unwrap();
            let cut = async {
                while replica.status().log_first < 10 {
                    time::sleep(Duration::from_millis(10)).await;
                }
            };
            time::timeout(Duration::from_secs(60), cut).await.expect("the log is cut within a minute");
        }
        for error in [behind.next().await.unwrap_err(), partition.changes(first).unwrap_err()] {
            assert_eq!(error.kind(), ErrorKind::TooOld, "{level}: {error}");
            assert!(error.to_string().contains("take a snapshot"), "{error}");
        }
        let mut changes = follow(&partition);
        let number = put(&partition, "key", "next").await.unwrap();
        assert_eq!(changes.next().await.unwrap().sequence_number, number, "{level}");
        assert!(poll(&mut idle).is_pending());
        let resumed = process.replicas.partition(level, PartitionId(4)).changes(idle.position());
        assert!(poll(&mut resumed.unwrap()).is_pending(), "{level}");
    }
}

#[tokio::test(start_paused = true)]
async fn level_none_keeps_nothing_before_it_is_followed() {
    let process = founded(&Nodes::default(), &SimDisk::new(1), options(1)).await;
    let partition = process.replicas.partition(Level::None, PartitionId(3));
    let before = partition.snapshot().unwrap().sequence_number();
    let first = put(&partition, "key", "1").await.unwrap();
    assert_eq!(partition.changes(before).unwrap_err().kind(), ErrorKind::TooOld);
    let second = put(&partition, "key", "2").await.unwrap();
    assert_eq!(partition.changes(first).unwrap().next().await.unwrap().sequence_number, second);
    let future = partition.changes(SequenceNumber(second.0 + 1)).unwrap_err();
    assert!(future.kind() == ErrorKind::Invalid && future.to_string().contains("last commit is 2"), "{future}");
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_put_at_once_is_a_commit_like_any_other() {
    let process = founded(&Nodes::default(), &SimDisk::new(1), options(1)).await;
    let partition = process.replicas.partition(Level::None, PartitionId(3));
    let epoch = partition.check().unwrap();
    let put = |partition: &Partition, epoch, text: &'static str| {
        // Encoded, a short text is a byte and its letters.
        let object = Object { value: Arc::new(text), head: 9, len: 2 + text.len() as u32 };
        partition.put_at_once(epoch, b"key", object)
    };
    let first = put(&partition, epoch, "one").unwrap();
    let mut changes = partition.changes(first).unwrap();
    let second = put(&partition, epoch, "two").unwrap();
    assert!(second > first);
    assert_eq!(changes.next().await.unwrap().sequence_number, second);
    let refused = put(&partition, Epoch(epoch.0 + 1), "three").unwrap_err();
    assert!(matches!(refused.kind(), ErrorKind::NotPrimary { .. }), "{refused}");
    assert_eq!(partition.get(b"key").unwrap().as_deref(), Some(&b"\x09\xa3two"[..]));
    let refused = put(&process.replicas.partition(Level::Volatile, PartitionId(3)), epoch, "one").unwrap_err();
    assert!(refused.kind() == ErrorKind::Invalid && refused.to_string().contains("takes time"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn nothing_comes_without_notes_after_they_are_wanted() {
    let process = founded(&Nodes::default(), &SimDisk::new(1), options(1)).await;
    let partition = process.replicas.partition(Level::None, PartitionId(3));
    let mut others = (4..).map(|id| process.replicas.partition(Level::None, PartitionId(id)));
    let other = others.find(|other| other.set() == partition.set()).unwrap();
    let commit = |partition: &Partition, is_bare| {
        let mut batch = partition.batch();
        batch.put(b"key", b"1");
        if is_bare {
            batch.without_notes();
        }
        partition.commit_at_once(batch)
    };
    let put = |partition: &Partition| {
        let object = Object { value: Arc::new("one"), head: 9, len: 5 };
        partition.put_at_once(partition.check().unwrap(), b"key", object)
    };
    let last = commit(&partition, true).unwrap();
    assert_eq!(partition.want_notes().unwrap(), last);
    for refused in [commit(&partition, true).unwrap_err(), put(&partition).unwrap_err()] {
        assert_eq!(refused.kind(), ErrorKind::Retry, "{refused}");
    }
    let together = [&other, &partition].map(|partition| {
        let mut batch = partition.batch();
        batch.put(b"key", b"2").without_notes();
        batch
    });
    let refused = partition.commit_together(together.into()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Retry, "{refused}");
    // Nobody wants them of the other one, and what was refused is not there.
    let others = [commit(&other, true).unwrap(), put(&other).unwrap()];
    assert_eq!(others, [1, 2].map(|more| SequenceNumber(last.0 + more)));
    let noted = commit(&partition, false).unwrap();
    assert_eq!(partition.want_notes().unwrap(), last, "since it was first asked for");
    assert_eq!(partition.changes(last).unwrap().next().await.unwrap().sequence_number, noted);
    let volatile = process.replicas.partition(Level::Volatile, PartitionId(3));
    assert_eq!(volatile.want_notes().unwrap_err().kind(), ErrorKind::Invalid);
}

#[tokio::test(start_paused = true)]
async fn a_stop_ends_all_followers() {
    let process = founded(&Nodes::default(), &SimDisk::new(1), options(1)).await;
    let partitions = LEVELS.map(|level| process.replicas.partition(level, PartitionId(3)));
    let mut followers = partitions.each_ref().map(follow);
    let waiting = futures_util::future::join_all(followers.iter_mut().map(Changes::next));
    let (ended, ()) = futures_util::future::join(waiting, process.replicas.stop()).await;
    for ((partition, changes), ended) in partitions.iter().zip(&mut followers).zip(ended) {
        let again = changes.next().await;
        for error in [ended.unwrap_err(), again.unwrap_err(), partition.changes(SequenceNumber(0)).unwrap_err()] {
            let is_clear = error.kind() == ErrorKind::Fatal && error.to_string().contains("has stopped");
            assert!(is_clear, "{partition:?}: {error}");
        }
    }
}

/// Counts how often it was woken.
#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[tokio::test(start_paused = true)]
async fn a_commit_wakes_the_task_that_polled_last() {
    let process = founded(&Nodes::default(), &SimDisk::new(1), options(1)).await;
    for level in LEVELS {
        let partition = process.replicas.partition(level, PartitionId(3));
        let mut changes = follow(&partition);
        let wakes = [Arc::new(Wakes::default()), Arc::new(Wakes::default())];
        for waker in wakes.clone().map(Waker::from) {
            assert!(changes.poll_next(&mut Context::from_waker(&waker)).is_pending(), "{level}");
        }
        let first = put(&partition, "a", "1").await.unwrap();
        let woken = || wakes.each_ref().map(|wakes| wakes.0.load(Ordering::SeqCst));
        assert_eq!(woken(), [0, 1], "{level}");
        // A poll by another task finds what the first one was woken for.
        assert_eq!(changes.next().await.unwrap().sequence_number, first, "{level}");
        assert!(poll(&mut changes).is_pending());
        put(&partition, "a", "2").await.unwrap();
        assert_eq!(woken(), [0, 1], "no task is woken for a wait that is over, at {level}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_position_moves_with_commits_of_other_partitions_while_it_waits() {
    let process = founded(&Nodes::default(), &SimDisk::new(1), options(1)).await;
    for level in LEVELS {
        let partition = process.replicas.partition(level, PartitionId(3));
        let mut others = (4..).map(|id| process.replicas.partition(level, PartitionId(id)));
        let other = others.find(|other| other.set() == partition.set()).unwrap();
        let mut changes = follow(&partition);
        for round in 0..3 {
            assert!(poll(&mut changes).is_pending(), "{level}");
            let elsewhere = put(&other, "x", &round.to_string()).await.unwrap();
            assert!(changes.position() < elsewhere, "nobody has polled");
            assert!(poll(&mut changes).is_pending(), "{level}");
            assert!(changes.position() >= elsewhere, "{level}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_follower_of_many_commits_lets_other_tasks_run() {
    let process = founded(&Nodes::default(), &SimDisk::new(1), options(1)).await;
    for level in LEVELS {
        let partition = process.replicas.partition(level, PartitionId(3));
        let mut changes = follow(&partition);
        for _ in 0..400 {
            put(&partition, "a", "1").await.unwrap();
        }
        let at_once = task::spawn(poll_fn(move |cx| {
            let mut found = 0;
            while changes.poll_next(cx).is_ready() {
                found += 1;
            }
            Poll::Ready(found)
        }));
        let at_once = at_once.await.unwrap();
        assert!((1..=128).contains(&at_once), "{at_once} without a break at {level}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_follower_reads_by_itself_where_the_runtime_has_ended() {
    let process = founded(&Nodes::default(), &SimDisk::new(1), options(1)).await;
    for level in [Level::Persisted, Level::Volatile] {
        let partition = process.replicas.partition(level, PartitionId(3));
        let mut changes = follow(&partition);
        let number = put(&partition, "a", "1").await.unwrap();
        let ended = tokio::runtime::Builder::new_multi_thread().build().unwrap();
        let handle = ended.handle().clone();
        ended.shutdown_background();
        // Its threads are not there to read.
        let entered = handle.enter();
        let polled = poll(&mut changes);
        drop(entered);
        let Poll::Ready(Ok(committed)) = polled else { panic!("nothing was read at {level}") };
        assert_eq!(committed.sequence_number, number, "{level}");
    }
}
