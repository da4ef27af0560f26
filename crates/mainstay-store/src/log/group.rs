use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use bytes::Bytes;
use mainstay_core::{Error, ErrorKind};

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

    /// Returns memory after most of a long log was dropped.
    pub(super) fn give_back(&mut self) {
        const KEPT: usize = 4096;
        if self.entries.capacity() > KEPT && self.entries.len() < self.entries.capacity() / 4 {
            self.entries.shrink_to(KEPT.max(self.entries.len() * 2));
        }
    }

    /// The entries of a range that are there.
    ///
    /// # Errors
    /// `NotFound` if the range starts before the first.
    pub(super) fn range(
        &self,
        group: GroupId,
        range: &Range<u64>,
    ) -> mainstay_core::Result<impl Iterator<Item = &E> + '_> {
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

/// What decides whether a write may follow.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Shape {
    pub(super) first: u64,
    pub(super) next: u64,
    pub(super) compacted: bool,
}

/// Why a write may not follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Misfit {
    Gap { next: u64 },
    Compacted { first: u64 },
    NoIndexLeft,
}

impl std::fmt::Display for Misfit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Misfit::Gap { next } => write!(f, "the next index is {next}"),
            Misfit::Compacted { first } => write!(f, "it starts at {first} already"),
            Misfit::NoIndexLeft => f.write_str("no index would be left"),
        }
    }
}

impl Shape {
    pub(super) fn of<E>(group: &Group<E>) -> Self {
        Self { first: group.first, next: group.next(), compacted: group.mark.is_some() }
    }

    /// Adds entries from an index on.
    pub(super) fn append(&mut self, first: u64, count: u64) -> Result<(), Misfit> {
        let fresh = self.first == self.next && !self.compacted;
        if first != self.next && !fresh {
            return Err(Misfit::Gap { next: self.next });
        }
        // The index after the last must exist, too.
        let next = first.checked_add(count).filter(|next| *next < u64::MAX).ok_or(Misfit::NoIndexLeft)?;
        if count > 0 {
            *self = Self { first: if fresh { first } else { self.first }, next, ..*self };
        }
        Ok(())
    }

    /// Drops the entries from an index on.
    pub(super) fn truncate(&mut self, from: u64) -> Result<(), Misfit> {
        if from < self.first {
            return Err(Misfit::Compacted { first: self.first });
        }
        self.next = self.next.min(from);
        Ok(())
    }

    /// Drops the entries up to and with an index.
    pub(super) fn compact(&mut self, through: u64) -> Result<(), Misfit> {
        if through >= u64::MAX - 1 {
            return Err(Misfit::NoIndexLeft);
        }
        if through + 1 < self.first {
            return Err(Misfit::Compacted { first: self.first });
        }
        *self = Self { first: through + 1, next: self.next.max(through + 1), compacted: true };
        Ok(())
    }
}

/// Checks that a batch may follow what is there, as a whole.
///
/// # Errors
/// `Invalid` with the write that may not.
pub(super) fn check<E>(batch: &LogBatch, groups: &BTreeMap<GroupId, Group<E>>) -> mainstay_core::Result<()> {
    let shape_of = |id: GroupId| groups.get(&id).map(Shape::of).unwrap_or_default();
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

fn check_write(write: &LogWrite, shape: &mut Shape) -> mainstay_core::Result<()> {
    match write {
        LogWrite::Append { group, first, entries } => {
            shape.append(*first, entries.len() as u64).map_err(|misfit| {
                Error::invalid(format!("entries of group {} cannot start at index {first}: {misfit}", group.0))
            })?;
        }
        LogWrite::HardState { .. } => {}
        LogWrite::Truncate { group, from } => {
            shape.truncate(*from).map_err(|misfit| {
                Error::invalid(format!("group {} cannot be cut at index {from}: {misfit}", group.0))
            })?;
        }
        LogWrite::Compact { group, through, .. } => {
            shape.compact(*through).map_err(|misfit| {
                Error::invalid(format!("group {} cannot be compacted through {through}: {misfit}", group.0))
            })?;
        }
        LogWrite::Remove { .. } => *shape = Shape::default(),
    }
    Ok(())
}
