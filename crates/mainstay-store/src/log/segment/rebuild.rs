use std::collections::BTreeMap;
use std::ops::Range;

use super::index::{Index, Position};
use super::record::{BatchReader, Carry, Stored};
use crate::log::GroupId;
use crate::log::group::{Group, Misfit, Shape};

/// The groups while the log is read back. What is read was written by somebody, checksum and all, but need not make
/// sense: each write is held to what [`check`](crate::log::group::check) holds new ones to.
#[derive(Debug, Default)]
pub(super) struct Rebuild {
    /// A group that has entries in `gone` starts behind them here.
    index: Index,
    gone: BTreeMap<GroupId, Gone>,
}

/// The entries at the front of a group that the oldest segment carries and does not hold. All of them were dropped or
/// moved since, or that segment would not be the oldest. How many there were is a need until then, which takes no
/// memory.
#[derive(Debug)]
struct Gone {
    /// Not empty.
    indexes: Range<u64>,
    moved: BTreeMap<u64, Position>,
}

/// Where a batch stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BatchPlace {
    /// First in the oldest segment: it says where the groups start.
    Start,
    /// First in a later segment: it says once more what was read.
    Seam,
    /// Anywhere else.
    Within,
}

impl Rebuild {
    /// Applies a batch.
    ///
    /// # Errors
    /// A text that says why it cannot follow what is there.
    pub(super) fn batch(&mut self, mut reader: BatchReader<'_>, place: BatchPlace) -> Result<(), String> {
        let mut carried = 0;
        let mut last: Option<GroupId> = None;
        while let Some(write) = reader.next()? {
            let carry = match (write, place) {
                (Stored::Carry(carry), BatchPlace::Start | BatchPlace::Seam) => carry,
                (Stored::Carry(_), BatchPlace::Within) => {
                    return Err("it carries a group in the midst of a segment".into());
                }
                (_, BatchPlace::Start | BatchPlace::Seam) => {
                    return Err("it is the first of its segment and does not carry what came before".into());
                }
                (write, BatchPlace::Within) => {
                    self.write(write)?;
                    continue;
                }
            };
            if last.is_some_and(|last| last >= carry.group) {
                return Err("it carries groups out of their order".into());
            }
            last = Some(carry.group);
            carried += 1;
            if place == BatchPlace::Start { self.adopt(carry)? } else { self.compare(&carry)? }
        }
        if place == BatchPlace::Seam && carried != self.index.groups.len() {
            return Err("it does not carry every group".into());
        }
        Ok(())
    }

    /// What was read, once everything was.
    ///
    /// # Errors
    /// The first entry whose bytes are nowhere.
    pub(super) fn finish(mut self) -> Result<Index, (GroupId, u64)> {
        for (id, Gone { indexes, moved }) in self.gone {
            if let Some(missing) = first_missing(&indexes, &moved) {
                return Err((id, missing));
            }
            self.index.prepend(id, moved.into_values());
        }
        Ok(self.index)
    }

    fn write(&mut self, write: Stored) -> Result<(), String> {
        match write {
            Stored::Append { group, first, entries } => {
                let fits = self.shape(group).append(first, entries.len() as u64);
                fits.map_err(|misfit| wrong("appends to", group, first, misfit))?;
                if !entries.is_empty() {
                    self.index.append(group, first, entries.into_iter());
                }
            }
            Stored::HardState { group, state } => self.index.hard_state(group, state),
            Stored::Truncate { group, from } => {
                self.shape(group).truncate(from).map_err(|misfit| wrong("cuts", group, from, misfit))?;
                self.truncate(group, from);
            }
            Stored::Compact { group, through, mark } => {
                let fits = self.shape(group).compact(through);
                fits.map_err(|misfit| wrong("compacts", group, through, misfit))?;
                let next = through + 1;
                match self.gone.get_mut(&group) {
                    Some(gone) if next < gone.indexes.end => {
                        gone.indexes.start = next;
                        gone.moved = gone.moved.split_off(&next);
                        self.index.groups.entry(group).or_default().mark = Some(mark);
                    }
                    _ => {
                        self.gone.remove(&group);
                        self.index.compact(group, through, mark);
                    }
                }
            }
            Stored::Remove { group } => {
                self.gone.remove(&group);
                self.index.remove(group);
            }
            Stored::Moved { group, index, entry } => match self.gone.get_mut(&group) {
                Some(gone) if gone.indexes.contains(&index) => drop(gone.moved.insert(index, entry)),
                _ if self.index.relocate(group, index, entry) => {}
                _ => return Err(format!("it moves entry {index} of group {}, which is not there", group.0)),
            },
            // `batch` keeps them.
            Stored::Carry(_) => {}
        }
        Ok(())
    }

    fn truncate(&mut self, id: GroupId, from: u64) {
        let Some(gone) = self.gone.get_mut(&id).filter(|gone| from < gone.indexes.end) else {
            return self.index.truncate(id, from);
        };
        gone.indexes.end = from;
        gone.moved.split_off(&from);
        if gone.indexes.is_empty() {
            self.gone.remove(&id);
        }
        self.index.truncate(id, from);
        if let Some(group) = self.index.groups.get_mut(&id) {
            group.first = from;
        }
    }

    /// Takes over what the oldest segment says of a group.
    fn adopt(&mut self, carry: Carry) -> Result<(), String> {
        let Carry { group, first, next, hard_state, mark } = carry;
        if first > next || next == u64::MAX {
            return Err(format!("it carries group {} with entries that cannot be", group.0));
        }
        if first < next {
            self.gone.insert(group, Gone { indexes: first..next, moved: BTreeMap::new() });
        }
        self.index.groups.insert(group, Group { hard_state, mark, first: next, entries: [].into() });
        Ok(())
    }

    /// Holds what a later segment says of a group to what was read.
    fn compare(&self, carry: &Carry) -> Result<(), String> {
        let group = carry.group;
        let Some(known) = self.index.groups.get(&group) else {
            return Err(format!("it carries group {}, which is not known", group.0));
        };
        let Shape { first, next, .. } = self.shape(group);
        if (first, next, &known.hard_state, &known.mark) != (carry.first, carry.next, &carry.hard_state, &carry.mark) {
            return Err(format!("what it carries of group {} is not what was written", group.0));
        }
        Ok(())
    }

    fn shape(&self, id: GroupId) -> Shape {
        let Some(group) = self.index.groups.get(&id) else { return Shape::default() };
        let shape = Shape::of(group);
        match self.gone.get(&id) {
            Some(gone) => Shape { first: gone.indexes.start, ..shape },
            None => shape,
        }
    }
}

fn first_missing(indexes: &Range<u64>, moved: &BTreeMap<u64, Position>) -> Option<u64> {
    indexes
        .clone()
        .zip(moved.keys().map(Some).chain(std::iter::repeat(None)))
        .find_map(|(index, found)| (found != Some(&index)).then_some(index))
}

fn wrong(does: &str, group: GroupId, index: u64, misfit: Misfit) -> String {
    format!("it {does} group {} at index {index}, but {misfit}", group.0)
}
