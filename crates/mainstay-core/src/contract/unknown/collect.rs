use std::collections::BTreeMap;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::canonical::{Entry, canonical, elements, entries};
use super::{Canonical, Kept, List, Map, Node, Unknown, hidden};
use crate::contract::decode::Notes;
use crate::contract::fault::Fault;
use crate::contract::limits::Limits;
use crate::contract::wire::{Head, Reader};

/// What the type of `value` did not know about the bytes that it was read from, given the decoder's notes.
pub(in crate::contract) fn collect<T>(limits: &Limits, bytes: &[u8], value: &T, notes: &Notes) -> Result<Unknown, Fault>
where
    T: Serialize + DeserializeOwned,
{
    if notes.ignored.is_empty() && notes.buffered.is_empty() {
        return Ok(Unknown::default());
    }
    // A type that reads what it cannot write back (it may exceed a limit, with its defaults filled in) still keeps
    // what it plainly ignored; there is just nothing to compare with.
    let written = limits.encode(value).ok();
    if notes.ignored.is_empty() && written.as_deref() == Some(bytes) {
        return Ok(Unknown::default());
    }
    let mut unknown = notes.ignored.clone();
    if let (Some(written), false) = (&written, notes.buffered.is_empty()) {
        unknown.extend(hidden::find::<T>(limits, bytes, written, notes)?);
        unknown.sort_unstable();
    }
    if unknown.is_empty() {
        return Ok(Unknown::default());
    }
    let collector = Collector { bytes, written: written.as_deref(), notes, unknown: &unknown };
    let root = collector.node(0, Some(0), false)?;
    Ok(Unknown(root.map(Box::new)))
}

struct Collector<'a> {
    bytes: &'a [u8],
    /// The same value as its type writes it: with defaults filled in, under today's names, without what is unknown.
    written: Option<&'a [u8]>,
    notes: &'a Notes,
    unknown: &'a [usize],
}

impl Collector<'_> {
    /// What is unknown inside the value at `at`, which the type writes at `written`, as far as that can be told.
    fn node(&self, at: usize, written: Option<usize>, buffered: bool) -> Result<Option<Node>, Fault> {
        let buffered = buffered || self.notes.buffered.binary_search(&at).is_ok();
        let mut reader = Reader::new(self.bytes, at);
        match reader.head()? {
            Head::Map(count) => {
                let entries = entries(&mut reader, count)?;
                self.map(&entries, written, buffered)
            }
            Head::Array(count) => {
                let starts = elements(&mut reader, count)?;
                self.list(at, &starts, written, buffered)
            }
            _ => Ok(None),
        }
    }

    fn is_unknown(&self, at: usize) -> bool {
        self.unknown.binary_search(&at).is_ok()
    }

    fn map(&self, entries: &[Entry], written: Option<usize>, buffered: bool) -> Result<Option<Node>, Fault> {
        let written = self.written_entries(written)?;
        let mut map = Map::default();
        for entry in entries {
            if self.is_unknown(entry.value) {
                map.kept.push(Kept {
                    name: entry.name.clone(),
                    key: self.bytes[entry.key..entry.value].to_vec(),
                    value: self.bytes[entry.value..entry.end].to_vec(),
                });
                continue;
            }
            if self.notes.tags.binary_search(&entry.value).is_ok() {
                map.tag = Some((entry.name.clone(), canonical(self.bytes, entry.value, &[])?));
            }
            let place = written.get(&entry.name).copied();
            if let Some(node) = self.node(entry.value, place, buffered)? {
                let name = match place {
                    Some(_) => entry.name.clone(),
                    None => self.todays_name(entry, entries, &written)?,
                };
                map.inside.insert(name, node);
            }
        }
        if map.kept.is_empty() && map.inside.is_empty() {
            return Ok(None);
        }
        if buffered && map.tag.is_none() {
            let known = entries.iter().filter(|entry| !self.is_unknown(entry.value));
            map.shape = Some(known.map(|entry| entry.name.clone()).collect());
        }
        Ok(Some(Node::Map(map)))
    }

    fn list(&self, at: usize, starts: &[usize], written: Option<usize>, buffered: bool) -> Result<Option<Node>, Fault> {
        let places = self.written_elements(written, starts)?;
        let mut inside = BTreeMap::new();
        for (index, start) in starts.iter().enumerate() {
            let place = places.as_ref().map(|places| places[index]);
            if let Some(node) = self.node(*start, place, buffered)? {
                inside.insert(index, node);
            }
        }
        if inside.is_empty() {
            return Ok(None);
        }
        let known = match (&places, self.written) {
            (Some(places), Some(written)) => places.iter().map(|place| canonical(written, *place, &[])).collect(),
            _ => starts.iter().map(|start| canonical(self.bytes, *start, self.unknown)).collect::<Result<_, _>>(),
        }?;
        let positional = self.notes.positional.binary_search(&at).is_ok();
        Ok(Some(Node::List(List { positional, known, inside })))
    }

    fn written_entries(&self, at: Option<usize>) -> Result<BTreeMap<Canonical, usize>, Fault> {
        if let (Some(written), Some(at)) = (self.written, at) {
            let mut reader = Reader::new(written, at);
            if let Head::Map(count) = reader.head()? {
                return Ok(entries(&mut reader, count)?.into_iter().map(|entry| (entry.name, entry.value)).collect());
            }
        }
        Ok(BTreeMap::new())
    }

    /// Where the elements that start at `starts` are in what the type writes, if it writes them in the same order: a
    /// hash set does not.
    fn written_elements(&self, at: Option<usize>, starts: &[usize]) -> Result<Option<Vec<usize>>, Fault> {
        let (Some(written), Some(at)) = (self.written, at) else { return Ok(None) };
        let mut reader = Reader::new(written, at);
        let Head::Array(count) = reader.head()? else { return Ok(None) };
        if count != starts.len() {
            return Ok(None);
        }
        let places = elements(&mut reader, count)?;
        for (start, place) in starts.iter().zip(&places) {
            if !self.agrees(*start, written, *place)? {
                return Ok(None);
            }
        }
        Ok(Some(places))
    }

    /// True if all that both sides say about a value is the same: one may have fields that the other lacks.
    fn agrees(&self, at: usize, written: &[u8], place: usize) -> Result<bool, Fault> {
        let mut left = Reader::new(self.bytes, at);
        let mut right = Reader::new(written, place);
        match (left.head()?, right.head()?) {
            (Head::Map(count), Head::Map(written_count)) => {
                let places = entries(&mut right, written_count)?;
                let places: BTreeMap<_, _> = places.into_iter().map(|entry| (entry.name, entry.value)).collect();
                for entry in entries(&mut left, count)? {
                    if let (Some(place), false) = (places.get(&entry.name), self.is_unknown(entry.value))
                        && !self.agrees(entry.value, written, *place)?
                    {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            (Head::Array(count), Head::Array(written_count)) if count == written_count => {
                for (start, place) in elements(&mut left, count)?.into_iter().zip(elements(&mut right, count)?) {
                    if !self.agrees(start, written, place)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            _ => Ok(canonical(self.bytes, at, self.unknown)? == canonical(written, place, &[])?),
        }
    }

    /// The name under which the type writes an entry that it read under another one (an alias): the only one that is
    /// new and has the same content, or else the old one.
    fn todays_name(
        &self,
        entry: &Entry,
        entries: &[Entry],
        written: &BTreeMap<Canonical, usize>,
    ) -> Result<Canonical, Fault> {
        let mut renamed = None;
        for (name, place) in written {
            let is_new = entries.iter().all(|other| other.name != *name);
            if is_new && self.agrees(entry.value, self.written.unwrap_or_default(), *place)? {
                if renamed.is_some() {
                    return Ok(entry.name.clone());
                }
                renamed = Some(name.clone());
            }
        }
        Ok(renamed.unwrap_or_else(|| entry.name.clone()))
    }
}
