use std::collections::BTreeMap;

use bytes::Bytes;

use super::record::{CARRY_HEADER_BYTES, Carry, MOVED_HEADER_BYTES, TEXT_HEADER_BYTES};
use crate::log::GroupId;
use crate::log::group::Group;

/// Where the bytes of an entry are, and what they must add up to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) segment: u32,
    pub(super) offset: u32,
    pub(super) len: u32,
    pub(super) checksum: u32,
}

/// How much of a segment is still needed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) entries: u64,
    pub(super) bytes: u64,
}

/// All groups, and how much of each segment they need.
#[derive(Debug, Default)]
pub(super) struct Index {
    pub(super) groups: BTreeMap<GroupId, Group<Position>>,
    tallies: BTreeMap<u32, Tally>,
}

impl Index {
    /// How much of a segment is needed.
    pub(super) fn tally(&self, segment: u32) -> Tally {
        self.tallies.get(&segment).copied().unwrap_or_default()
    }

    /// What all entries take once they are moved.
    pub(super) fn moved_bytes(&self) -> u64 {
        self.tallies.values().map(|tally| tally.bytes + tally.entries * MOVED_HEADER_BYTES as u64).sum()
    }

    /// What a new segment begins with takes.
    pub(super) fn carried_bytes(&self) -> usize {
        let texts = self.groups.values().flat_map(|group| [&group.hard_state, &group.mark]).flatten();
        self.groups.len() * CARRY_HEADER_BYTES + texts.map(|bytes| TEXT_HEADER_BYTES + bytes.len()).sum::<usize>()
    }

    /// Adds an entry behind the last.
    pub(super) fn append(&mut self, group: GroupId, first: u64, positions: impl Iterator<Item = Position>) {
        let group = self.groups.entry(group).or_default();
        group.start_at(first);
        for position in positions {
            add(&mut self.tallies, position);
            group.entries.push_back(position);
        }
    }

    pub(super) fn hard_state(&mut self, group: GroupId, state: Bytes) {
        self.groups.entry(group).or_default().hard_state = Some(state);
    }

    pub(super) fn truncate(&mut self, group: GroupId, from: u64) {
        if let Some(group) = self.groups.get_mut(&group) {
            group.truncate(from).for_each(|position| subtract(&mut self.tallies, position));
        }
    }

    pub(super) fn compact(&mut self, group: GroupId, through: u64, mark: Bytes) {
        let group = self.groups.entry(group).or_default();
        group.compact(through, mark).for_each(|position| subtract(&mut self.tallies, position));
        group.give_back();
    }

    pub(super) fn remove(&mut self, group: GroupId) {
        if let Some(group) = self.groups.remove(&group) {
            group.entries.into_iter().for_each(|position| subtract(&mut self.tallies, position));
        }
    }

    /// Lets an entry be somewhere else; false if there is no such entry.
    pub(super) fn relocate(&mut self, group: GroupId, index: u64, position: Position) -> bool {
        let Some(entry) = self.entry_mut(group, index) else { return false };
        let old = std::mem::replace(entry, position);
        subtract(&mut self.tallies, old);
        add(&mut self.tallies, position);
        true
    }

    /// Adds entries before the first.
    pub(super) fn prepend(&mut self, group: GroupId, positions: impl DoubleEndedIterator<Item = Position>) {
        let group = self.groups.entry(group).or_default();
        for position in positions.rev() {
            add(&mut self.tallies, position);
            group.entries.push_front(position);
            group.first -= 1;
        }
    }

    /// Where an entry is.
    pub(super) fn entry(&self, group: GroupId, index: u64) -> Option<Position> {
        let group = self.groups.get(&group)?;
        group.entries.get(usize::try_from(index.checked_sub(group.first)?).ok()?).copied()
    }

    fn entry_mut(&mut self, group: GroupId, index: u64) -> Option<&mut Position> {
        let group = self.groups.get_mut(&group)?;
        group.entries.get_mut(usize::try_from(index.checked_sub(group.first)?).ok()?)
    }

    /// The entries that a segment holds.
    pub(super) fn entries_in(&self, segment: u32) -> impl Iterator<Item = (GroupId, u64, Position)> + '_ {
        self.groups.iter().flat_map(move |(id, group)| {
            let numbered = (group.first..).zip(group.entries.iter());
            numbered
                .filter(move |(_, position)| position.segment == segment)
                .map(move |(index, position)| (*id, index, *position))
        })
    }

    /// What a new segment begins with.
    pub(super) fn carries(&self) -> impl Iterator<Item = Carry> + '_ {
        self.groups.iter().map(|(id, group)| Carry {
            group: *id,
            first: group.first,
            next: group.next(),
            hard_state: group.hard_state.clone(),
            mark: group.mark.clone(),
        })
    }
}

fn add(tallies: &mut BTreeMap<u32, Tally>, position: Position) {
    let tally = tallies.entry(position.segment).or_default();
    tally.entries += 1;
    tally.bytes += u64::from(position.len);
}

fn subtract(tallies: &mut BTreeMap<u32, Tally>, position: Position) {
    if let Some(tally) = tallies.get_mut(&position.segment) {
        tally.entries -= 1;
        tally.bytes -= u64::from(position.len);
        if tally.entries == 0 {
            tallies.remove(&position.segment);
        }
    }
}
