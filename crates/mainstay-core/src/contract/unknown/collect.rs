use std::collections::BTreeMap;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::canonical::{Entry, canonical, elements, entries};
use super::pairs::Sides;
use super::print::Print;
use super::shape::Shape;
use super::trials::Trials;
use super::{Canonical, Kept, List, Map, Node, Order, Unknown, hidden};
use crate::contract::decode::Notes;
use crate::contract::fault::Fault;
use crate::contract::limits::Limits;
use crate::contract::wire::{Head, Reader};

mod partners;

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
    let roomy = Limits { bytes_max: Limits::BYTES_CEILING, ..*limits };
    let rewrite = |bytes: &[u8]| roomy.decode::<T>(bytes).and_then(|value| roomy.encode(&value)).ok();
    let mut unknown = notes.ignored.clone();
    if let (Some(written), false) = (&written, notes.buffered.is_empty()) {
        unknown.extend(hidden::find(bytes, written, notes, &Trials::new(bytes, &rewrite))?);
        unknown.sort_unstable();
    }
    if unknown.is_empty() {
        return Ok(Unknown::default());
    }
    let place = written.as_ref().map(|_| 0);
    let sides = Sides { stored: bytes, written: written.as_deref().unwrap_or_default(), unknown: &unknown };
    let trials = Trials::new(bytes, &rewrite);
    let mut collector = Collector { sides, notes, trials, path: Vec::new(), answers: BTreeMap::new() };
    let root = collector.node(0, bytes.len(), place, false)?;
    Ok(Unknown(root.map(Box::new)))
}

struct Collector<'a> {
    sides: Sides<'a>,
    notes: &'a Notes,
    trials: Trials<'a>,
    /// The way to the value that is looked at, in what the type writes.
    path: Vec<Step>,
    /// What trials have shown, by the names on the way: what holds for one element of a list holds for all.
    answers: BTreeMap<(Question, Vec<Canonical>), bool>,
}

/// What a trial can show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Question {
    /// Does the type write the elements of this list in the order in which it reads them?
    KeepsOrder,
    /// Is there a text that the type does not take here?
    MayBeTag,
}

#[derive(Debug, Clone, PartialEq)]
enum Step {
    Entry(Canonical),
    Element(usize),
}

impl Collector<'_> {
    /// What is unknown inside the value between `at` and `end`, which the type writes at `place`, as far as that can be
    /// told.
    fn node(&mut self, at: usize, end: usize, place: Option<usize>, buffered: bool) -> Result<Option<Node>, Fault> {
        if !self.sides.has_unknown(at, end) {
            return Ok(None);
        }
        let buffered = buffered || self.notes.buffered.binary_search(&at).is_ok();
        let mut reader = Reader::new(self.sides.stored, at);
        match reader.head()? {
            Head::Map(count) => {
                let entries = entries(&mut reader, count)?;
                self.map(at, &entries, place, buffered)
            }
            Head::Array(count) => {
                let starts = elements(&mut reader, count)?;
                self.list(at, &starts, end, place, buffered)
            }
            _ => Ok(None),
        }
    }

    /// [`node`](Self::node), one step further.
    fn inside(
        &mut self,
        step: Step,
        at: usize,
        end: usize,
        place: Option<usize>,
        buffered: bool,
    ) -> Result<Option<Node>, Fault> {
        self.path.push(step);
        let node = self.node(at, end, place, buffered);
        self.path.pop();
        node
    }

    fn map(
        &mut self,
        at: usize,
        entries: &[Entry],
        place: Option<usize>,
        buffered: bool,
    ) -> Result<Option<Node>, Fault> {
        let written = self.written_entries(place)?;
        let places: BTreeMap<_, _> = written.iter().map(|entry| (&entry.name, entry.value)).collect();
        let names = self.names(entries, &written)?;
        let mut map = Map::default();
        for (entry, name) in entries.iter().zip(&names) {
            if self.sides.is_unknown(entry.value) {
                map.kept.push(Kept {
                    name: entry.name.clone(),
                    key: self.sides.stored[entry.key..entry.value].to_vec(),
                    value: self.sides.stored[entry.value..entry.end].to_vec(),
                });
                continue;
            }
            let place = places.get(name).copied();
            if self.notes.tags.binary_search(&entry.value).is_ok() {
                // As the type writes it: it may have read the variant under an alias.
                map.tag = Some((
                    name.clone(),
                    match place {
                        Some(place) => canonical(self.sides.written, place)?,
                        None => canonical(self.sides.stored, entry.value)?,
                    },
                ));
            }
            if let Some(node) = self.inside(Step::Entry(name.clone()), entry.value, entry.end, place, buffered)? {
                map.inside.insert(name.clone(), node);
            }
        }
        if map.kept.is_empty() && map.inside.is_empty() {
            return Ok(None);
        }
        let is_flattened = self.notes.flattened.binary_search(&at).is_ok();
        if !map.kept.is_empty() && map.tag.is_none() && (buffered || is_flattened) && place.is_some() {
            let mut tags = Vec::new();
            for (entry, name) in entries.iter().zip(&names) {
                let is_buffered = buffered || self.notes.buffered.binary_search(&entry.value).is_ok();
                if is_buffered && !self.sides.is_unknown(entry.value) && self.may_be_tag(entry, name)? {
                    tags.push(name);
                }
            }
            map.shape = Some(Shape::of(self.sides.written, &written, tags.into_iter())?);
        }
        Ok(Some(Node::Map(map)))
    }

    fn list(
        &mut self,
        at: usize,
        starts: &[usize],
        end: usize,
        place: Option<usize>,
        buffered: bool,
    ) -> Result<Option<Node>, Fault> {
        let ends = starts.iter().skip(1).copied().chain([end]);
        let ranges: Vec<_> = starts.iter().copied().zip(ends).collect();
        let places = self.written_elements(place)?;
        let (order, partners) = match &places {
            Some(places) => self.partners(at, starts, places)?,
            None => (self.fixed_order(at).unwrap_or(Order::Sequence), (0..starts.len()).map(Some).collect()),
        };
        let mut inside = BTreeMap::new();
        for ((start, end), partner) in ranges.into_iter().zip(partners) {
            let Some(partner) = partner else { continue };
            let place = places.as_ref().map(|places| places[partner]);
            if let Some(node) = self.inside(Step::Element(partner), start, end, place, buffered)? {
                inside.insert(partner, node);
            }
        }
        if inside.is_empty() {
            return Ok(None);
        }
        let known = match &places {
            Some(places) => places.iter().map(|place| Print::of(self.sides.written, *place, &[])).collect(),
            None => {
                starts.iter().map(|at| Print::of(self.sides.stored, *at, self.sides.unknown)).collect::<Result<_, _>>()
            }
        }?;
        Ok(Some(Node::List(List { order, known, inside })))
    }

    fn written_entries(&self, place: Option<usize>) -> Result<Vec<Entry>, Fault> {
        let Some(place) = place else { return Ok(Vec::new()) };
        let mut reader = Reader::new(self.sides.written, place);
        match reader.head()? {
            Head::Map(count) => entries(&mut reader, count),
            _ => Ok(Vec::new()),
        }
    }

    fn written_elements(&self, place: Option<usize>) -> Result<Option<Vec<usize>>, Fault> {
        let Some(place) = place else { return Ok(None) };
        let mut reader = Reader::new(self.sides.written, place);
        match reader.head()? {
            Head::Array(count) => elements(&mut reader, count).map(Some),
            _ => Ok(None),
        }
    }
}
