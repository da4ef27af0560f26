use super::super::Counts;

/// The difference that changes make to the counts of what is in the file.
///
/// What is added and what is removed are kept apart, and only put together with the counts from the file at the end: those
/// may be anything, and a sum that does not work out is damage, not a number.
#[derive(Debug, Default)]
pub(super) struct Difference {
    added: Counts,
    removed: Counts,
}

impl Difference {
    pub(super) fn add(&mut self, key_len: usize, value_len: usize) {
        count(&mut self.added, key_len, value_len);
    }

    pub(super) fn remove(&mut self, key_len: usize, value_len: usize) {
        count(&mut self.removed, key_len, value_len);
    }

    /// The counts after the changes; none if more was removed than there was.
    pub(super) fn apply_to(&self, before: Counts) -> Option<Counts> {
        // What is removed was all there before.
        let sum = |before: u64, added, removed| before.checked_sub(removed)?.checked_add(added);
        Some(Counts {
            entries: sum(before.entries, self.added.entries, self.removed.entries)?,
            bytes: sum(before.bytes, self.added.bytes, self.removed.bytes)?,
        })
    }
}

/// Counts an entry that is or was in memory: so many that the sum ends at 2^64 there cannot be.
fn count(counts: &mut Counts, key_len: usize, value_len: usize) {
    counts.entries += 1;
    counts.bytes += (key_len + value_len) as u64;
}
