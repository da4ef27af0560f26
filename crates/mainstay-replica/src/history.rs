use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use mainstay_core::{PartitionId, Result, SequenceNumber};
use mainstay_store::state::WriteBatch;

use crate::object_put::{ObjectPut, ObjectPuts, object_put_bytes};

/// What a history holds at most, unless a single commit is larger: how far a follower may fall behind.
pub(crate) const HISTORY_BYTES_MAX: usize = 4 << 20;

/// What a commit costs in memory beside its bytes.
const COMMIT_OVERHEAD_BYTES: usize = 128;

/// The last commits of a set that has no log, for those who follow it.
#[derive(Debug)]
pub(crate) struct History {
    commits: VecDeque<Kept>,
    bytes: usize,
    /// The number of the last commit that is not here any more, or never was.
    before: SequenceNumber,
    /// The partitions of which no commit comes without notes, and after which one that is so.
    noted: BTreeMap<PartitionId, SequenceNumber>,
}

/// A commit as it is kept. Its objects are encoded by whoever reads them, and not while others wait to commit.
#[derive(Debug, Clone)]
pub(crate) struct Kept {
    pub(crate) number: SequenceNumber,
    batches: Vec<Bytes>,
    objects: ObjectPuts,
    bytes: usize,
}

impl Kept {
    /// What it did, as batches; the objects come last.
    ///
    /// # Errors
    /// What encoding an object fails with.
    pub(crate) fn into_batches(self) -> Result<Vec<Bytes>> {
        let mut batches = self.batches;
        if !self.objects.is_empty() {
            // Their keys have their prefix already.
            let mut others = WriteBatch::new();
            for (key, object) in &self.objects {
                others.put(key, &object.to_bytes()?);
            }
            batches.push(Bytes::copy_from_slice(others.as_bytes()));
        }
        Ok(batches)
    }
}

impl History {
    /// A history of what comes after a commit.
    pub(crate) fn after(number: SequenceNumber) -> Self {
        Self { commits: VecDeque::new(), bytes: 0, before: number, noted: BTreeMap::new() }
    }

    /// The number from which on all is here.
    pub(crate) fn before(&self) -> SequenceNumber {
        self.before
    }

    /// Sees to it that no commit of a partition comes without notes after one, or after an earlier one, which is returned.
    pub(crate) fn want_notes(&mut self, partition: PartitionId, after: SequenceNumber) -> SequenceNumber {
        *self.noted.entry(partition).or_insert(after)
    }

    pub(crate) fn wants_notes(&self, partition: PartitionId) -> bool {
        self.noted.contains_key(&partition)
    }

    /// Adds the newest commit and lets go of the oldest ones above the limit. They are returned, to be dropped where nobody
    /// waits: their objects may be the last of their kind, and then code of others runs.
    #[must_use]
    pub(crate) fn push(&mut self, number: SequenceNumber, batches: &[WriteBatch], objects: &[ObjectPut]) -> Vec<Kept> {
        let objects: ObjectPuts = objects.iter().cloned().collect();
        let batches = batches.iter().filter(|batch| !batch.is_empty());
        let batches: Vec<Bytes> = batches.map(|batch| Bytes::copy_from_slice(batch.as_bytes())).collect();
        let bytes = COMMIT_OVERHEAD_BYTES
            + batches.iter().map(Bytes::len).sum::<usize>()
            + objects.iter().map(object_put_bytes).sum::<usize>();
        self.bytes += bytes;
        self.commits.push_back(Kept { number, batches, objects, bytes });
        let mut gone = Vec::new();
        while self.bytes > HISTORY_BYTES_MAX && self.commits.len() > 1 {
            // The loop has just seen that there are some.
            let Some(oldest) = self.commits.pop_front() else { break };
            self.bytes -= oldest.bytes;
            self.before = oldest.number;
            gone.push(oldest);
        }
        gone
    }

    /// The commits after a number, in order, as many as `bytes_max` allows but at least one.
    pub(crate) fn since(&self, number: SequenceNumber, bytes_max: usize) -> impl Iterator<Item = &Kept> {
        let start = self.commits.partition_point(|commit| commit.number <= number);
        let mut bytes = 0;
        self.commits.range(start..).take_while(move |commit| {
            let fits = bytes < bytes_max;
            bytes += commit.bytes;
            fits
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(len: usize) -> WriteBatch {
        let mut batch = WriteBatch::new();
        batch.put(b"key", &vec![0; len]);
        batch
    }

    fn numbers(history: &History, after: u64) -> Vec<u64> {
        history.since(SequenceNumber(after), usize::MAX).map(|kept| kept.number.0).collect()
    }

    #[test]
    fn the_oldest_go_at_the_limit_and_the_newest_stays_however_large() {
        let mut history = History::after(SequenceNumber(4));
        assert_eq!((history.before(), numbers(&history, 4)), (SequenceNumber(4), vec![]));
        for number in 5..25 {
            drop(history.push(SequenceNumber(number), &[batch(HISTORY_BYTES_MAX / 10)], &[]));
            assert!(history.bytes <= HISTORY_BYTES_MAX);
        }
        let before = history.before().0;
        assert!(before > 10, "20 tenths do not fit");
        assert_eq!(numbers(&history, before), (before + 1..25).collect::<Vec<_>>());
        assert_eq!(numbers(&history, 23), [24]);
        drop(history.push(SequenceNumber(25), &[batch(2 * HISTORY_BYTES_MAX)], &[]));
        assert_eq!((history.before().0, numbers(&history, 24)), (24, vec![25]));
        drop(history.push(SequenceNumber(26), &[batch(1), batch(2)], &[]));
        assert_eq!((history.before().0, numbers(&history, 25)), (25, vec![26]));
        assert_eq!(
            history.since(SequenceNumber(25), 1).map(|kept| kept.clone().into_batches().unwrap().len()).sum::<usize>(),
            2
        );
    }
}
