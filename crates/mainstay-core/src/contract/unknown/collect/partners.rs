//! Which written value a stored one has become, where its name or its place does not say.

use std::collections::{BTreeMap, BTreeSet};

use super::super::canonical::{Entry, elements, entries};
use super::super::edit::{Edit, Edits};
use super::super::print::Print;
use super::super::{Canonical, Order};
use super::{Collector, Question, Step};
use crate::contract::fault::Fault;
use crate::contract::wire::{Head, Reader};

impl Collector<'_> {
    /// The name under which the type writes each entry: its own, or the one that is new and has the same key in another
    /// form or else the same content (it was read under an alias). Where there is none, its own.
    pub(super) fn names(&self, entries: &[Entry], written: &[Entry]) -> Result<Vec<Canonical>, Fault> {
        let mut names: Vec<_> = entries.iter().map(|entry| entry.name.clone()).collect();
        let is_written: BTreeSet<_> = written.iter().map(|entry| &entry.name).collect();
        let is_known = |entry: &Entry| !self.sides.is_unknown(entry.value);
        let is_left = |index: &usize| is_known(&entries[*index]) && !is_written.contains(&entries[*index].name);
        let mut left: Vec<usize> = (0..entries.len()).filter(is_left).collect();
        if !left.iter().any(|index| self.sides.has_unknown(entries[*index].key, entries[*index].end)) {
            return Ok(names);
        }
        let is_stored: BTreeSet<_> = entries.iter().filter(|entry| is_known(entry)).map(|entry| &entry.name).collect();
        let mut new: Vec<&Entry> = written.iter().filter(|entry| !is_stored.contains(&entry.name)).collect();

        let mut keys: BTreeMap<u64, (Vec<usize>, Vec<&Entry>)> = BTreeMap::new();
        for index in &left {
            keys.entry(Print::of(&entries[*index].name, 0, &[])?.loose).or_default().0.push(*index);
        }
        for entry in &new {
            keys.entry(Print::of(&entry.name, 0, &[])?.loose).or_default().1.push(entry);
        }
        left.clear();
        new.clear();
        for (before, after) in keys.into_values() {
            match (&before[..], &after[..]) {
                ([before], [after]) => names[*before].clone_from(&after.name),
                _ => {
                    left.extend(before);
                    new.extend(after);
                }
            }
        }

        let starts: Vec<usize> = left.iter().map(|index| entries[*index].value).collect();
        let places: Vec<usize> = new.iter().map(|entry| entry.value).collect();
        for (index, partner) in left.iter().zip(self.sides.pairs(&starts, &places)?) {
            if let Some(partner) = partner {
                names[*index].clone_from(&new[partner].name);
            }
        }
        Ok(names)
    }

    /// For each element that starts at one of `starts`, which of those at `places` it has become.
    pub(super) fn partners(
        &mut self,
        at: usize,
        starts: &[usize],
        places: &[usize],
    ) -> Result<(Order, Vec<Option<usize>>), Fault> {
        if starts.len() == places.len() {
            let in_order = (0..starts.len()).map(Some).collect();
            if let Some(order) = self.fixed_order(at) {
                return Ok((order, in_order));
            }
            if starts.len() == 1 || self.all_agree(starts, places)? || self.keeps_order(starts, places)? {
                return Ok((Order::Sequence, in_order));
            }
        }
        Ok((Order::Set, self.sides.pairs(starts, places)?))
    }

    /// The order of the list at `at`, where its type leaves no doubt.
    pub(super) fn fixed_order(&self, at: usize) -> Option<Order> {
        let is_among = |offsets: &[usize]| offsets.binary_search(&at).is_ok();
        match is_among(&self.notes.positional) {
            true => Some(Order::Places),
            false => is_among(&self.notes.tuples).then_some(Order::Sequence),
        }
    }

    fn all_agree(&self, starts: &[usize], places: &[usize]) -> Result<bool, Fault> {
        for (start, place) in starts.iter().zip(places) {
            if !self.sides.agrees(*start, *place)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// True if the type is seen to write the elements of the list, which is where the path ends, as it reads them: with
    /// the first one there twice, it writes what it writes for the first one twice, and then the others. A set does not.
    fn keeps_order(&mut self, starts: &[usize], places: &[usize]) -> Result<bool, Fault> {
        let [first, ..] = starts else { return Ok(true) };
        let question = self.question(Question::KeepsOrder, None);
        if let Some(answer) = self.answers.get(&question) {
            return Ok(*answer);
        }
        let rewritten = self.trials.rewritten(&Edits::from([(*first, Edit::Twice)]))?;
        let answer = match &rewritten {
            Some(rewritten) => match self.list_in(rewritten)? {
                Some(found) if found.len() == places.len() + 1 => {
                    let expected = places.iter().take(1).chain(places);
                    self.are_equal(rewritten, &found, expected)?
                }
                _ => false,
            },
            None => false,
        };
        self.answers.insert(question, answer);
        Ok(answer)
    }

    /// Where the elements of the list at the end of the path are in `rewritten`.
    fn list_in(&self, rewritten: &[u8]) -> Result<Option<Vec<usize>>, Fault> {
        let mut reader = Reader::new(rewritten, 0);
        for step in &self.path {
            let next = match (reader.head()?, step) {
                (Head::Map(count), Step::Entry(name)) => {
                    entries(&mut reader, count)?.into_iter().find(|entry| entry.name == *name).map(|entry| entry.value)
                }
                (Head::Array(count), Step::Element(index)) => elements(&mut reader, count)?.get(*index).copied(),
                _ => None,
            };
            let Some(next) = next else { return Ok(None) };
            reader.at = next;
        }
        match reader.head()? {
            Head::Array(count) => elements(&mut reader, count).map(Some),
            _ => Ok(None),
        }
    }

    fn are_equal<'p>(
        &self,
        rewritten: &[u8],
        found: &[usize],
        expected: impl Iterator<Item = &'p usize>,
    ) -> Result<bool, Fault> {
        for (found, expected) in found.iter().zip(expected) {
            // Loosely, because there may be a hash set inside.
            let expected = Print::of(self.sides.written, *expected, &[])?.loose;
            if Print::of(rewritten, *found, &[])?.loose != expected {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// True if an entry of the map at the end of the path is a text, and the type does not take every text there.
    pub(super) fn may_be_tag(&mut self, entry: &Entry, name: &Canonical) -> Result<bool, Fault> {
        if !matches!(Reader::new(self.sides.stored, entry.value).head()?, Head::Text(_)) {
            return Ok(false);
        }
        let question = self.question(Question::MayBeTag, Some(name));
        if let Some(answer) = self.answers.get(&question) {
            return Ok(*answer);
        }
        let answer = self.trials.rewritten(&Edits::from([(entry.value, Edit::Nonsense)]))?.is_none();
        self.answers.insert(question, answer);
        Ok(answer)
    }

    fn question(&self, question: Question, name: Option<&Canonical>) -> (Question, Vec<Canonical>) {
        let names = self.path.iter().map(|step| match step {
            Step::Entry(name) => name.clone(),
            // No name is empty: a list inside a list is another one.
            Step::Element(_) => Canonical::new(),
        });
        (question, names.chain(name.cloned()).collect())
    }
}
