//! Unknown fields in values that serde reads into a buffer (flattened fields, enums without an outer tag): there, what
//! the type ignores is not seen, and has to be found out.

use std::collections::{BTreeMap, VecDeque};

use super::Canonical;
use super::canonical::{elements, entries};
use super::edit::{Edit, Edits};
use super::print::Print;
use super::trials::Trials;
use crate::contract::decode::Notes;
use crate::contract::fault::Fault;
use crate::contract::wire::{Head, Reader};

/// The offsets of values inside buffered parts of `bytes` that make no difference to the type: what it writes
/// (`written`) lacks them, and is the same without them.
///
/// All that is missing is tried at once, then what has the same name, then halves of that, until the trials are used up:
/// what is left then counts as known.
pub(super) fn find(bytes: &[u8], written: &[u8], notes: &Notes, trials: &Trials<'_>) -> Result<Vec<usize>, Fault> {
    let mut comparison = Comparison { bytes, written, notes, missing: BTreeMap::new() };
    comparison.compare(0, 0, false)?;
    let groups: Vec<Vec<usize>> = comparison.missing.into_values().collect();
    let mut found = Vec::new();
    if groups.is_empty() {
        return Ok(found);
    }
    // Compared loosely: a hash set has another order each time.
    let expected = Print::of(written, 0, &[])?.loose;
    let mut left = VecDeque::from([groups.concat()]);
    let mut by_name = (groups.len() > 1).then_some(groups);
    while let Some(group) = left.pop_front() {
        let edits: Edits = found.iter().chain(&group).map(|at| (*at, Edit::LeaveOut)).collect();
        let makes_no_difference = match trials.rewritten(&edits)? {
            Some(rewritten) => Print::of(&rewritten, 0, &[])?.loose == expected,
            None if trials.are_used_up() => break,
            None => false,
        };
        match by_name.take() {
            _ if makes_no_difference => found.extend(group),
            Some(groups) => left.extend(groups),
            None if group.len() > 1 => {
                let (first, second) = group.split_at(group.len() / 2);
                left.extend([first.to_vec(), second.to_vec()]);
            }
            None => {}
        }
    }
    found.sort_unstable();
    Ok(found)
}

struct Comparison<'a> {
    bytes: &'a [u8],
    written: &'a [u8],
    notes: &'a Notes,
    /// Offsets of values that are not written, by their names.
    missing: BTreeMap<Canonical, Vec<usize>>,
}

impl Comparison<'_> {
    /// Adds the buffered values inside the one at `at` that have no counterpart inside the one at `place`.
    fn compare(&mut self, at: usize, place: usize, buffered: bool) -> Result<(), Fault> {
        let buffered = buffered || self.notes.buffered.binary_search(&at).is_ok();
        let mut left = Reader::new(self.bytes, at);
        let mut right = Reader::new(self.written, place);
        match (left.head()?, right.head()?) {
            (Head::Map(count), Head::Map(written_count)) => {
                let written = entries(&mut right, written_count)?;
                let written: BTreeMap<_, _> = written.into_iter().map(|entry| (entry.name, entry.value)).collect();
                for entry in entries(&mut left, count)? {
                    if self.notes.ignored.binary_search(&entry.value).is_ok() {
                        continue;
                    }
                    match written.get(&entry.name) {
                        Some(place) => self.compare(entry.value, *place, buffered)?,
                        None if buffered || self.notes.buffered.binary_search(&entry.value).is_ok() => {
                            self.missing.entry(entry.name).or_default().push(entry.value);
                        }
                        None => {}
                    }
                }
            }
            (Head::Array(count), Head::Array(written_count)) if count == written_count => {
                for (start, place) in elements(&mut left, count)?.into_iter().zip(elements(&mut right, count)?) {
                    self.compare(start, place, buffered)?;
                }
            }
            _ => {}
        }
        Ok(())
    }
}
