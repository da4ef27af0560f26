use std::collections::BTreeMap;

use super::canonical::{elements, entries};
use super::print::Print;
use crate::contract::fault::Fault;
use crate::contract::wire::{Head, NIL, Reader};

/// The most pairs of values that are compared with each other, one with all, where equality finds no pairs. What is left
/// beyond it has no partner.
const COMPARISONS_MAX: usize = 1 << 14;

/// A value as it is stored, beside the same value as its type writes it: with defaults filled in, under today's names,
/// without what is unknown.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sides<'a> {
    pub(super) stored: &'a [u8],
    pub(super) written: &'a [u8],
    /// The offsets of values in `stored` that are unknown, in rising order.
    pub(super) unknown: &'a [usize],
}

impl Sides<'_> {
    pub(super) fn is_unknown(&self, at: usize) -> bool {
        self.unknown.binary_search(&at).is_ok()
    }

    /// True if something is unknown between two offsets of `stored`.
    pub(super) fn has_unknown(&self, from: usize, to: usize) -> bool {
        let next = self.unknown.partition_point(|unknown| *unknown < from);
        self.unknown.get(next).is_some_and(|unknown| *unknown < to)
    }

    /// For each of some stored values, which of some written ones it has become, if that can be told: the only one that
    /// is equal, or else the only one that it agrees with, if no other value has the same partner.
    pub(super) fn pairs(&self, starts: &[usize], places: &[usize]) -> Result<Vec<Option<usize>>, Fault> {
        let mut found = vec![None; starts.len()];
        let mut groups: BTreeMap<Print, (Vec<usize>, Vec<usize>)> = BTreeMap::new();
        for (index, start) in starts.iter().enumerate() {
            groups.entry(Print::of(self.stored, *start, self.unknown)?).or_default().0.push(index);
        }
        for (index, place) in places.iter().enumerate() {
            groups.entry(Print::of(self.written, *place, &[])?).or_default().1.push(index);
        }
        let (mut left, mut new) = (Vec::new(), Vec::new());
        for (before, after) in groups.into_values() {
            match (&before[..], &after[..]) {
                ([before], [after]) => found[*before] = Some(*after),
                _ => {
                    left.extend(before);
                    new.extend(after);
                }
            }
        }
        if left.len() * new.len() > COMPARISONS_MAX {
            return Ok(found);
        }
        let mut candidates = vec![Vec::new(); new.len()];
        for before in &left {
            let mut agreeing = Vec::new();
            for (index, after) in new.iter().enumerate() {
                if self.agrees(starts[*before], places[*after])? {
                    agreeing.push(index);
                }
            }
            let is_only = agreeing.len() == 1;
            agreeing.into_iter().for_each(|index| candidates[index].push((*before, is_only)));
        }
        for (after, candidates) in new.iter().zip(&candidates) {
            if let [(before, true)] = candidates[..] {
                found[before] = Some(*after);
            }
        }
        Ok(found)
    }

    /// True if the type writes all that it knows of the stored value at `at`, as it is there, at `place`. It may write
    /// more (defaults), and leave out what is nil.
    pub(super) fn agrees(&self, at: usize, place: usize) -> Result<bool, Fault> {
        let mut left = Reader::new(self.stored, at);
        let mut right = Reader::new(self.written, place);
        let place_of_list = place;
        match (left.head()?, right.head()?) {
            (Head::Map(count), Head::Map(written_count)) => {
                let places = entries(&mut right, written_count)?;
                let places: BTreeMap<_, _> = places.into_iter().map(|entry| (entry.name, entry.value)).collect();
                for entry in entries(&mut left, count)? {
                    let agrees = match places.get(&entry.name) {
                        _ if self.is_unknown(entry.value) => true,
                        Some(place) => self.agrees(entry.value, *place)?,
                        None => self.stored[entry.value] == NIL,
                    };
                    if !agrees {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            (Head::Array(count), Head::Array(written_count)) if count == written_count => {
                for (start, place) in elements(&mut left, count)?.into_iter().zip(elements(&mut right, count)?) {
                    if !self.agrees(start, place)? {
                        // It may be a set, which has no order.
                        return self.are_loosely_equal(at, place_of_list);
                    }
                }
                Ok(true)
            }
            _ => self.are_loosely_equal(at, place),
        }
    }

    fn are_loosely_equal(&self, at: usize, place: usize) -> Result<bool, Fault> {
        let stored = Print::of(self.stored, at, self.unknown)?;
        Ok(stored.loose == Print::of(self.written, place, &[])?.loose)
    }
}
