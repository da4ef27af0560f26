use std::collections::VecDeque;

use bytes::Buf as _;

use super::Commit;
use super::answers::AnswerKey;
use crate::command::{CommandBuilder, encode_commit};

/// A longer commit is kept as it came: to copy it once more costs more than its memory, and others wait for it.
const ENCODED_BYTES_MAX: usize = 16 << 10;

/// How much memory an empty queue keeps for those who come.
const KEPT_BYTES_MAX: usize = 256 << 10;
const KEPT_COMMITS_MAX: usize = 4 << 10;

/// Commits that wait for an entry, in the order in which they came.
///
/// They are encoded when they come, as they will stand in the entry: so what a caller has put together is freed at once, by
/// the thread that made it, and the next caller there gets the same memory. That is what allocators are fast at; they are slow
/// where a crowd's batches are freed all together, by another thread.
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: VecDeque<Waiting>,
    encoded: VecDeque<u8>,
    bytes: usize,
}

#[derive(Debug)]
struct Waiting {
    /// What it takes in an entry.
    bytes: usize,
    /// The commit, if it is not among the encoded ones.
    whole: Option<Box<Commit>>,
    key: AnswerKey,
}

impl Queue {
    pub(super) fn push(&mut self, commit: Commit, key: AnswerKey) {
        let bytes = commit.bytes_in_entry();
        let whole = if bytes > ENCODED_BYTES_MAX {
            Some(Box::new(commit))
        } else {
            encode_commit(commit.batches(), |part| self.encoded.extend(part));
            None
        };
        self.waiting.push_back(Waiting { bytes, whole, key });
        self.bytes += bytes;
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// What all who wait take in an entry.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// What so many of those who came first take in an entry.
    pub(super) fn bytes_of(&self, commits: usize) -> usize {
        self.waiting.iter().take(commits).map(|waiting| waiting.bytes).sum()
    }

    /// What the first takes in an entry, and who waits for it.
    pub(super) fn first(&self) -> Option<(usize, AnswerKey)> {
        self.waiting.front().map(|first| (first.bytes, first.key))
    }

    /// Moves the first into an entry.
    pub(super) fn move_first(&mut self, to: &mut CommandBuilder) {
        let Some(first) = self.pop() else { return };
        match first.whole {
            Some(commit) => to.push(commit.batches()),
            None => to.push_encoded((&mut self.encoded).take(first.bytes)),
        }
    }

    /// Drops the first, and says who waits for it.
    pub(super) fn drop_first(&mut self) -> Option<AnswerKey> {
        let first = self.pop()?;
        if first.whole.is_none() {
            self.encoded.advance(first.bytes);
        }
        Some(first.key)
    }

    fn pop(&mut self) -> Option<Waiting> {
        let first = self.waiting.pop_front()?;
        self.bytes -= first.bytes;
        Some(first)
    }

    /// Gives back the memory of a crowd that has gone.
    pub(super) fn tidy(&mut self) {
        if self.is_empty() && (self.encoded.capacity() > KEPT_BYTES_MAX || self.waiting.capacity() > KEPT_COMMITS_MAX) {
            self.encoded = VecDeque::new();
            self.waiting = VecDeque::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use mainstay_core::Epoch;
    use mainstay_store::state::WriteBatch;

    use super::*;

    fn commit(value_bytes: usize) -> Commit {
        let mut batch = WriteBatch::new();
        batch.put(b"k", &vec![7; value_bytes]);
        Commit { batches: [batch].into(), epoch: None }
    }

    fn builder() -> CommandBuilder {
        CommandBuilder::new(Epoch(1), 0)
    }

    #[test]
    fn commits_come_out_as_they_went_in() {
        let mut queue = Queue::default();
        let value_bytes = |number: usize| if number % 5 == 3 { 2 * ENCODED_BYTES_MAX } else { number % 7 };
        let mut left = 0..100;
        // Half of them leave while others come, so that the bytes go round in their memory.
        for number in left.clone() {
            queue.push(commit(value_bytes(number)), number);
            if number % 2 == 0 {
                let first = left.next().unwrap();
                assert_eq!(queue.first(), Some((commit(value_bytes(first)).bytes_in_entry(), first)));
                let (mut moved, mut expected) = (builder(), builder());
                queue.move_first(&mut moved);
                expected.push(commit(value_bytes(first)).batches());
                assert_eq!(moved.finish(), expected.finish());
            }
        }
        let bytes = |numbers: std::ops::Range<usize>| {
            numbers.map(|number| commit(value_bytes(number)).bytes_in_entry()).sum::<usize>()
        };
        assert_eq!((queue.len(), queue.bytes()), (left.len(), bytes(left.clone())));
        assert_eq!(queue.bytes_of(5), bytes(left.start..left.start + 5));
        for number in left {
            assert_eq!(queue.drop_first(), Some(number));
        }
        assert_eq!((queue.drop_first(), queue.first(), queue.bytes(), queue.encoded.len()), (None, None, 0, 0));
    }

    #[test]
    fn the_memory_of_a_crowd_goes_with_it() {
        let mut queue = Queue::default();
        for number in 0..2 * KEPT_COMMITS_MAX {
            queue.push(commit(100), number);
        }
        queue.tidy();
        assert_eq!(queue.len(), 2 * KEPT_COMMITS_MAX, "nothing is lost while somebody waits");
        while queue.drop_first().is_some() {}
        queue.tidy();
        assert!(queue.encoded.capacity() <= KEPT_BYTES_MAX && queue.waiting.capacity() <= KEPT_COMMITS_MAX);
    }
}
