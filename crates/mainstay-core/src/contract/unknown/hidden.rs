//! Unknown fields in values that serde reads into a buffer (flattened fields, enums without an outer tag): there, what
//! the type ignores is not seen, and has to be found out.

use std::collections::BTreeMap;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::canonical::{canonical, elements, entries};
use crate::contract::decode::Notes;
use crate::contract::fault::Fault;
use crate::contract::limits::Limits;
use crate::contract::wire::{Head, Opening, Reader};

/// The most fields that are tried one by one. Beyond it, those that are left count as known: they are not carried over.
const TRIALS_MAX: usize = 64;

/// The offsets of values inside buffered parts of `bytes` that make no difference to the type: what it writes
/// (`written`) lacks them, and is the same without them.
pub(super) fn find<T>(limits: &Limits, bytes: &[u8], written: &[u8], notes: &Notes) -> Result<Vec<usize>, Fault>
where
    T: Serialize + DeserializeOwned,
{
    let mut missing = Vec::new();
    Comparison { bytes, written, notes, missing: &mut missing }.compare(0, 0, false)?;
    if missing.is_empty() {
        return Ok(missing);
    }
    let expected = canonical(written, 0, &[])?;
    let makes_no_difference = |without: &[usize]| -> Result<bool, Fault> {
        let mut rest = Vec::with_capacity(bytes.len());
        strip(&mut Reader::new(bytes, 0), without, &mut rest)?;
        let rewritten = limits.decode::<T>(&rest).and_then(|value| limits.encode(&value));
        match rewritten {
            Ok(rewritten) => Ok(canonical(&rewritten, 0, &[])? == expected),
            Err(_) => Ok(false),
        }
    };
    if makes_no_difference(&missing)? {
        return Ok(missing);
    }
    let mut found = Vec::new();
    for candidate in missing.into_iter().take(TRIALS_MAX) {
        if makes_no_difference(&[candidate])? {
            found.push(candidate);
        }
    }
    Ok(found)
}

struct Comparison<'a> {
    bytes: &'a [u8],
    written: &'a [u8],
    notes: &'a Notes,
    missing: &'a mut Vec<usize>,
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
                            self.missing.push(entry.value);
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

/// Copies a value without the map entries whose values start at one of the offsets `without`.
fn strip(reader: &mut Reader<'_>, without: &[usize], out: &mut Vec<u8>) -> Result<(), Fault> {
    let start = reader.at;
    match reader.head()? {
        Head::Array(count) => {
            Opening::array(count).write(out);
            for _ in 0..count {
                strip(reader, without, out)?;
            }
        }
        Head::Map(count) => {
            let entries = entries(reader, count)?;
            let end = reader.at;
            let stays = |value: usize| without.binary_search(&value).is_err();
            let left = entries.iter().filter(|entry| stays(entry.value)).count();
            Opening::map(left).write(out);
            for entry in entries.iter().filter(|entry| stays(entry.value)) {
                out.extend_from_slice(&reader.bytes[entry.key..entry.value]);
                strip(&mut Reader::new(reader.bytes, entry.value), without, out)?;
            }
            reader.at = end;
        }
        _ => out.extend_from_slice(&reader.bytes[start..reader.at]),
    }
    Ok(())
}
