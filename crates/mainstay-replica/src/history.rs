use std::collections::VecDeque;

use bytes::Bytes;
use mainstay_core::{Result, SequenceNumber};
use mainstay_store::state::WriteBatch;

use crate::object_put::ObjectPut;

/// What a history holds at most, unless a single commit is larger: how far a follower may fall behind.
pub(crate) const HISTORY_BYTES_MAX: usize = 4 << 20;

/// What a commit costs in memory beside its bytes.
const COMMIT_OVERHEAD_BYTES: usize = 128;

/// The last commits of a set that has no log, for those who follow it.
#[derive(Debug)]
pub(crate) struct History {
    commits: VecDeque<Commit>,
    bytes: usize,
    /// The number of the last commit that is not here any more, or never was.
    before: SequenceNumber,
}

#[derive(Debug)]
struct Commit {
    number: SequenceNumber,
    batches: Vec<Bytes>,
    bytes: usize,
}

impl History {
    /// A history of what comes after a commit.
    pub(crate) fn after(number: SequenceNumber) -> Self {
        Self { commits: VecDeque::new(), bytes: 0, before: number }
    }

    /// The number from which on all is here.
    pub(crate) fn before(&self) -> SequenceNumber {
        self.before
    }

    /// Adds the newest commit and lets go of the oldest ones above the limit.
    ///
    /// # Errors
    /// What encoding an object fails with; nothing is added then.
    pub(crate) fn push(&mut self, number: SequenceNumber, batches: &[WriteBatch], objects: &[ObjectPut]) -> Result<()> {
        // Their keys have their prefix already.
        let mut others = WriteBatch::new();
        for (key, object) in objects {
            others.put(key, &object.to_bytes()?);
        }
        let batches = batches.iter().chain(Some(&others)).filter(|batch| !batch.is_empty());
        let batches: Vec<Bytes> = batches.map(|batch| Bytes::copy_from_slice(batch.as_bytes())).collect();
        let bytes = COMMIT_OVERHEAD_BYTES + batches.iter().map(Bytes::len).sum::<usize>();
        self.bytes += bytes;
        self.commits.push_back(Commit { number, batches, bytes });
        while self.bytes > HISTORY_BYTES_MAX && self.commits.len() > 1 {
            // The loop has just seen that there are some.
            let Some(oldest) = self.commits.pop_front() else { break };
            self.bytes -= oldest.bytes;
            self.before = oldest.number;
        }
        Ok(())
    }

    /// The commits after a number, in order.
    pub(crate) fn since(&self, number: SequenceNumber) -> impl Iterator<Item = (SequenceNumber, &[Bytes])> {
        let start = self.commits.partition_point(|commit| commit.number <= number);
        self.commits.range(start..).map(|commit| (commit.number, &commit.batches[..]))
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
        history.since(SequenceNumber(after)).map(|(number, _)| number.0).collect()
    }

    #[test]
    fn the_oldest_go_at_the_limit_and_the_newest_stays_however_large() {
        let mut history = History::after(SequenceNumber(4));
        assert_eq!((history.before(), numbers(&history, 4)), (SequenceNumber(4), vec![]));
        for number in 5..25 {
            history.push(SequenceNumber(number), &[batch(HISTORY_BYTES_MAX / 10)], &[]).unwrap();
            assert!(history.bytes <= HISTORY_BYTES_MAX);
        }
        let before = history.before().0;
        assert!(before > 10, "20 tenths do not fit");
        assert_eq!(numbers(&history, before), (before + 1..25).collect::<Vec<_>>());
        assert_eq!(numbers(&history, 23), [24]);
        history.push(SequenceNumber(25), &[batch(2 * HISTORY_BYTES_MAX)], &[]).unwrap();
        assert_eq!((history.before().0, numbers(&history, 24)), (24, vec![25]));
        history.push(SequenceNumber(26), &[batch(1), batch(2)], &[]).unwrap();
        assert_eq!((history.before().0, numbers(&history, 25)), (25, vec![26]));
        assert_eq!(history.since(SequenceNumber(25)).map(|(_, batches)| batches.len()).sum::<usize>(), 2);
    }
}
