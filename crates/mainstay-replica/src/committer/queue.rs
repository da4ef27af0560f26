use std::collections::VecDeque;

use bytes::Buf;
use mainstay_store::state::WriteBatch;

use super::Commit;
use super::answers::AnswerKey;
use crate::command::encode_commit;

/// How much memory an empty queue keeps for those who come.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// Commits that wait for an entry, in the order in which they came.
///
/// They are encoded when they come, as they will stand in the entry: so what a caller has put together is freed at once, by
/// the thread that made it, and the next caller there gets the same memory. That is what allocators are fast at; they are slow
/// where a crowd's batches are freed all together, by another thread.
#[derive(Debug, Default)]
pub(super) struct Queue {
    encoded: VecDeque<u8>,
    waiting: VecDeque<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    bytes: usize,
    key: AnswerKey,
}

impl Queue {
    pub(super) fn push(&mut self, commit: &Commit, key: AnswerKey) {
        let before = self.encoded.len();
        encode_commit(&mut self.encoded, commit.batches.iter().map(WriteBatch::as_bytes));
        self.waiting.push_back(Waiting { bytes: self.encoded.len() - before, key });
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// What all who wait take in an entry.
    pub(super) fn bytes(&self) -> usize {
        self.encoded.len()
    }

    /// What so many of those who came first take in an entry.
    pub(super) fn bytes_of(&self, commits: usize) -> usize {
        self.waiting.iter().take(commits).map(|waiting| waiting.bytes).sum()
    }

    /// What the first takes in an entry, and who waits for it.
    pub(super) fn first(&self) -> Option<(usize, AnswerKey)> {
        self.waiting.front().map(|first| (first.bytes, first.key))
    }

    /// Takes the first out: its bytes, all of which are to be read.
    pub(super) fn take_first(&mut self) -> impl Buf {
        let bytes = self.waiting.pop_front().map_or(0, |first| first.bytes);
        (&mut self.encoded).take(bytes)
    }

    /// Drops the first, and says who waits for it.
    pub(super) fn drop_first(&mut self) -> Option<AnswerKey> {
        let first = self.waiting.pop_front()?;
        self.encoded.advance(first.bytes);
        Some(first.key)
    }

    /// Gives back the memory of a crowd that has gone.
    pub(super) fn tidy(&mut self) {
        if self.is_empty() && self.encoded.capacity() > KEPT_BYTES_MAX {
            self.encoded.shrink_to(KEPT_BYTES_MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::BufMut as _;

    use super::*;

    fn commit(value_bytes: usize) -> Commit {
        let mut batch = WriteBatch::new();
        batch.put(b"k", &vec![7; value_bytes]);
        Commit { batches: [batch].into(), epoch: None }
    }

    fn encoded(commit: &Commit) -> Vec<u8> {
        let mut encoded = Vec::new();
        encode_commit(&mut encoded, commit.batches.iter().map(WriteBatch::as_bytes));
        encoded
    }

    #[test]
    fn commits_come_out_as_they_went_in() {
        let mut queue = Queue::default();
        let commits: Vec<Commit> = (0..100).map(|number| commit(number % 7)).collect();
        let mut left = commits.iter().enumerate();
        // Half of them leave while others come, so that the bytes go round in their memory.
        for (key, commit) in commits.iter().enumerate() {
            queue.push(commit, key);
            if key % 2 == 0 {
                let (number, first) = left.next().unwrap();
                assert_eq!(queue.first(), Some((encoded(first).len(), number)));
                let mut bytes = Vec::new();
                bytes.put(queue.take_first());
                assert_eq!(bytes, encoded(first));
            }
        }
        let rest: Vec<(usize, &Commit)> = left.collect();
        assert_eq!(queue.len(), rest.len());
        assert_eq!(queue.bytes(), rest.iter().map(|(_, commit)| encoded(commit).len()).sum::<usize>());
        assert_eq!(queue.bytes_of(3), rest[..3].iter().map(|(_, commit)| encoded(commit).len()).sum::<usize>());
        for (number, _) in rest {
            assert_eq!(queue.drop_first(), Some(number));
        }
        assert_eq!((queue.drop_first(), queue.first(), queue.bytes()), (None, None, 0));
    }

    #[test]
    fn the_memory_of_a_crowd_goes_with_it() {
        let mut queue = Queue::default();
        queue.push(&commit(4 * KEPT_BYTES_MAX), 0);
        queue.tidy();
        assert!(queue.bytes() > 4 * KEPT_BYTES_MAX, "nothing is lost while somebody waits");
        queue.drop_first();
        queue.tidy();
        assert!(queue.encoded.capacity() <= KEPT_BYTES_MAX);
    }
}
