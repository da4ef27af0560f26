//! What a batch can do beside puts and deletes, on every level.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mainstay_core::{ErrorKind, Level, PartitionId, SequenceNumber, task};
use mainstay_replica::{Batch, Partition};
use mainstay_store::disk::sim::SimDisk;
use mainstay_store::state::{KeyRange, Order};

use crate::harness::{LEVELS, Nodes, founded, get, options, put};

fn count(partition: &Partition, key: &str) -> Option<i64> {
    partition.get(key.as_bytes()).unwrap().map(|value| i64::from_le_bytes(value[..].try_into().unwrap()))
}

fn adding(partition: &Partition, delta: i64) -> Batch {
    let mut batch = partition.batch();
    batch.add(b"count", delta);
    batch
}

/// The keys of a queue, as the stamp and what follows it, with their values.
fn queue(partition: &Partition) -> Vec<(SequenceNumber, u8, String)> {
    let entries = partition.read().unwrap().scan(KeyRange::prefix(b"queue/"), Order::Ascending).unwrap();
    let entry = |(key, value): (bytes::Bytes, bytes::Bytes)| {
        let (stamp, end) = key["queue/".len()..].split_at(8);
        let stamp = SequenceNumber(u64::from_be_bytes(stamp.try_into().unwrap()));
        (stamp, end[0], String::from_utf8(value.to_vec()).unwrap())
    };
    entries.map(|found| entry(found.unwrap())).collect()
}

#[tokio::test(start_paused = true)]
async fn additions_that_are_under_way_at_once_all_count() {
    let process = founded(&Nodes::default(), &SimDisk::new(1), options(1)).await;
    for level in LEVELS {
        let partition = process.replicas.partition(level, PartitionId(3));
        let commits = (1..=100).map(|delta| partition.commit(adding(&partition, delta)));
        for outcome in futures_util::future::join_all(commits).await {
            outcome.unwrap();
        }
        assert_eq!(count(&partition, "count"), Some(5050), "{level}");
        partition.commit(adding(&partition, -5050)).await.unwrap();
        assert_eq!(count(&partition, "count"), None, "{level}");
        assert_eq!(partition.read().unwrap().scan(KeyRange::all(), Order::Ascending).unwrap().count(), 0);
    }
}

/// A commit in memory may be done at its first poll, and the next one too.
#[tokio::test(start_paused = true)]
async fn who_commits_again_and_again_lets_others_run() {
    const COMMITS_MAX: usize = 500;
    let process = founded(&Nodes::default(), &SimDisk::new(1), options(1)).await;
    let partition = process.replicas.partition(Level::Volatile, PartitionId(3));
    let has_run = Arc::new(AtomicBool::new(false));
    let running = has_run.clone();
    drop(task::spawn(async move { running.store(true, Ordering::Relaxed) }));
    for _ in 0..COMMITS_MAX {
        partition.commit(adding(&partition, 1)).await.unwrap();
        if has_run.load(Ordering::Relaxed) {
            return;
        }
    }
    panic!("nobody else has run in {COMMITS_MAX} commits");
}

#[tokio::test(start_paused = true)]
async fn an_addition_to_what_is_no_counter_is_refused_alone_and_again_after_a_restart() {
    let (nodes, disk) = (Nodes::default(), SimDisk::new(1));
    let mut process = founded(&nodes, &disk, options(1)).await;
    for round in 1..=3 {
        for level in LEVELS {
            let partition = process.replicas.partition(level, PartitionId(3));
            put(&partition, "text", "no counter").await.unwrap();
            let mut changes = partition.changes(partition.read().unwrap().sequence_number()).unwrap();
            // With a fresh share of the runtime's budget, so that none of the commits is put off and overtaken.
            tokio::task::yield_now().await;
            // Many at once share an entry. The tenth and the last are wrong, each with something that is not.
            let commits = (1..=50).map(|number| {
                let mut batch = adding(&partition, 1);
                if number == 10 || number == 50 {
                    batch.put(b"left out", b"").add(b"text", 1);
                }
                partition.commit(batch)
            });
            let outcomes = futures_util::future::join_all(commits).await;
            for (number, outcome) in (1..).zip(outcomes) {
                if number == 10 || number == 50 {
                    let error = outcome.unwrap_err();
                    assert!(
                        error.kind() == ErrorKind::Invalid && error.to_string().contains("text"),
                        "{level}: {error}"
                    );
                } else {
                    let followed = changes.next().await.unwrap();
                    assert_eq!(followed.sequence_number, outcome.unwrap(), "{level}: only what happened is followed");
                }
            }
            let rounds = if level == Level::Persisted { round } else { 1 };
            assert_eq!(count(&partition, "count"), Some(48 * rounds), "{level}");
            assert_eq!(get(&partition, "left out"), None, "{level}");
            assert_eq!(get(&partition, "text").as_deref(), Some("no counter"), "{level}");
        }
        // The log is applied again from the last checkpoint on.
        nodes.kill(process, &disk);
        process = founded(&nodes, &disk, options(1)).await;
        let partition = process.replicas.partition(Level::Persisted, PartitionId(3));
        assert_eq!(count(&partition, "count"), Some(48 * round), "after a restart");
        assert_eq!(get(&partition, "left out"), None);
    }
}

#[tokio::test(start_paused = true)]
async fn the_stamp_in_a_key_is_the_sequence_number_of_the_commit() {
    let process = founded(&Nodes::default(), &SimDisk::new(1), options(1)).await;
    for level in LEVELS {
        let partition = process.replicas.partition(level, PartitionId(3));
        let sibling = process.replicas.partition(level, PartitionId(11));
        let enqueue = |partition: &Partition, name: &str| {
            let mut batch = partition.batch();
            batch.put_stamped(b"queue/", &[0], name.as_bytes()).put_stamped(b"queue/", &[1], name.as_bytes());
            batch.note(b"changes nothing");
            batch
        };
        let names: Vec<String> = (0..50).map(|number| format!("item {number}")).collect();
        let commits = names.iter().map(|name| partition.commit(enqueue(&partition, name)));
        let numbers = futures_util::future::join_all(commits).await;
        let mut expected: Vec<_> = numbers
            .into_iter()
            .zip(&names)
            .flat_map(|(number, name)| [0, 1].map(|end| (*number.as_ref().unwrap(), end, name.clone())))
            .collect();
        expected.sort();
        assert_eq!(queue(&partition), expected, "{level}");

        let together = vec![enqueue(&partition, "here"), enqueue(&sibling, "there")];
        let number = partition.commit_together(together).await.unwrap();
        assert_eq!(queue(&partition).last(), Some(&(number, 1, "here".to_owned())), "{level}");
        assert_eq!(queue(&sibling), [(number, 0, "there".to_owned()), (number, 1, "there".to_owned())], "{level}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_applied_again_after_a_crash_counts_once_and_has_the_same_stamps() {
    let (nodes, disk) = (Nodes::default(), SimDisk::new(1));
    let mut process = founded(&nodes, &disk, options(1)).await;
    let mut expected = Vec::new();
    for round in 1..=6_u8 {
        let partition = process.replicas.partition(Level::Persisted, PartitionId(3));
        let mut batch = adding(&partition, 2);
        batch.put_stamped(b"queue/", &[round], b"item");
        expected.push((partition.commit(batch).await.unwrap(), round, "item".to_owned()));
        if round % 3 == 0 {
            // What follows is in the log alone, and the counter is on disk alone when it comes again.
            process.replicas.replica(partition.set()).unwrap().checkpoint().await.unwrap();
        }
        nodes.kill(process, &disk);
        process = founded(&nodes, &disk, options(1)).await;
        let partition = process.replicas.partition(Level::Persisted, PartitionId(3));
        assert_eq!(count(&partition, "count"), Some(2 * i64::from(round)));
        assert_eq!(queue(&partition), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_knows_its_place_among_the_commits() {
    let process = founded(&Nodes::default(), &SimDisk::new(1), options(1)).await;
    for level in LEVELS {
        let partition = process.replicas.partition(level, PartitionId(3));
        let mut before = partition.read().unwrap().sequence_number();
        for round in 0..5 {
            let number = put(&partition, "key", &round.to_string()).await.unwrap();
            let snapshot = partition.read().unwrap();
            assert!(before < number && number <= snapshot.sequence_number(), "{level}");
            assert_eq!(partition.snapshot().unwrap().sequence_number(), snapshot.sequence_number());
            before = snapshot.sequence_number();
            assert_eq!(get(&partition, "key"), Some(round.to_string()));
        }
    }
}
