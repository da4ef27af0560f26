use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use bytes::Bytes;
use mainstay_core::{Error, ErrorKind, Result};

use super::batch::{LogBatch, LogWrite};
use super::{GroupId, GroupView};

/// A group in memory: what it knows, and for each entry an `E`: the bytes, or where they are.
#[derive(Debug)]
pub(super) struct Group<E> {
    pub(super) hard_state: Option<Bytes>,
    pub(super) mark: Option<Bytes>,
    pub(super) first: u64,
    pub(super) entries: VecDeque<E>,
}

impl<E> Default for Group<E> {
    fn default() -> Self {
        Self { hard_state: None, mark: None, first: 0, entries: VecDeque::new() }
    }
}

impl<E> Group<E> {
    pub(super) fn next(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    pub(super) fn view(&self) -> GroupView {
        GroupView { hard_state: self.hard_state.clone(), mark: self.mark.clone(), first: self.first, next: self.next() }
    }

    /// Makes room for entries from an index on; [`check`] has seen that it is one that may follow.
    pub(super) fn start_at(&mut self, first: u64) {
        if self.entries.is_empty() {
            self.first = first;
        }
    }

    /// Drops the entries from an index on.
    pub(super) fn truncate(&mut self, from: u64) -> impl Iterator<Item = E> + '_ {
        let kept = usize::try_from(from.saturating_sub(self.first)).unwrap_or(usize::MAX).min(self.entries.len());
        self.entries.drain(kept..)
    }

    /// Drops the entries up to and with an index; returns how many stood at the front.
    pub(super) fn compact(&mut self, through: u64, mark: Bytes) -> impl Iterator<Item = E> + '_ {
        let next = through + 1;
        let dropped = usize::try_from(next.saturating_sub(self.first)).unwrap_or(usize::MAX).min(self.entries.len());
        self.first = next;
        self.mark = Some(mark);
        self.entries.drain(..dropped)
    }

    /// The entries of a range that are there.
    ///
    /// # Errors
    /// `NotFound` if the range starts before the first.
    pub(super) fn range(&self, group: GroupId, range: &Range<u64>) -> Result<impl Iterator<Item = &E> + '_> {
        if range.start < self.first {
            return Err(Error::new(
                ErrorKind::NotFound,
                format!(
                    "entry {} of group {} is not in the log any more, which starts at {}: take a snapshot instead",
                    range.start, group.0, self.first
                ),
            ));
        }
        let start = usize::try_from(range.start - self.first).unwrap_or(usize::MAX).min(self.entries.len());
        let count = usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(usize::MAX);
        Ok(self.entries.range(start..).take(count))
    }
}

/// What [`check`] needs to know of a group.
#[derive(Debug, Clone, Copy)]
struct Shape {
    first: u64,
    next: u64,
    compacted: bool,
}

/// Checks that a batch may follow what is there, as a whole.
///
/// # Errors
/// `Invalid` with the write that may not.
pub(super) fn check<E>(batch: &LogBatch, groups: &BTreeMap<GroupId, Group<E>>) -> Result<()> {
    let shape_of = |id: GroupId| match groups.get(&id) {
        Some(group) => Shape { first: group.first, next: group.next(), compacted: group.mark.is_some() },
        None => Shape { first: 0, next: 0, compacted: false },
    };
    if let [write] = &batch.writes[..] {
        // The common case needs no memory of what the batch itself has changed.
        return check_write(write, &mut shape_of(write.group()));
    }
    let mut changed: BTreeMap<GroupId, Shape> = BTreeMap::new();
    for write in &batch.writes {
        check_write(write, changed.entry(write.group()).or_insert_with(|| shape_of(write.group())))?;
    }
    Ok(())
}

fn check_write(write: &LogWrite, shape: &mut Shape) -> Result<()> {
    match write {
        LogWrite::Append { group, first, entries } => {
            let fresh = shape.first == shape.next && !shape.compacted;
            if *first != shape.next && !fresh {
                return Err(Error::invalid(format!(
                    "entries of group {} from index {first} do not follow its last: the next index is {}",
                    group.0, shape.next
                )));
            }
            // The index after the last must exist, too.
            let next = first.checked_add(entries.len() as u64).filter(|next| *next < u64::MAX);
            let Some(next) = next else {
                return Err(Error::invalid(format!(
                    "entries of group {} from index {first} go beyond the last index there is",
                    group.0
                )));
            };
            if !entries.is_empty() {
                *shape = Shape { first: if fresh { *first } else { shape.first }, next, ..*shape };
            }
        }
        LogWrite::HardState { .. } => {}
        LogWrite::Truncate { group, from } => {
            if *from < shape.first {
                return Err(Error::invalid(format!(
                    "group {} cannot be cut at index {from}: it starts at {}",
                    group.0, shape.first
                )));
            }
            shape.next = shape.next.min(*from);
        }
        LogWrite::Compact { group, through, .. } => {
            if *through >= u64::MAX - 1 {
                return Err(Error::invalid(format!(
                    "group {} cannot be compacted through {through}: no index would be left",
                    group.0
                )));
            }
            if through + 1 < shape.first {
                return Err(Error::invalid(format!(
                    "group {} cannot be compacted through {through}: it starts at {} already",
                    group.0, shape.first
                )));
            }
            *shape = Shape { first: through + 1, next: shape.next.max(through + 1), compacted: true };
        }
        LogWrite::Remove { .. } => *shape = Shape { first: 0, next: 0, compacted: false },
    }
    Ok(())
}
