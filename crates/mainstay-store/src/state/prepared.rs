use std::collections::BTreeMap;
use std::ops::Bound;

use bytes::Bytes;
use mainstay_core::{Error, ErrorKind, Result};
use smallvec::SmallVec;

use super::{COUNTER_BYTES, Key, STAMP_BYTES, StateStore, Write};

/// How many writes are held without an allocation: most batches that are applied alone are no longer.
const INLINE_WRITES: usize = 4;

/// How much of a key an error shows.
const NAMED_BYTES_MAX: usize = 64;

/// How long an entry in a file may be, with what a write costs beside: what redb takes.
const ENTRY_BYTES_MAX: u64 = 3 << 30;

/// Where entries are kept in memory.
pub(super) trait Layer {
    /// Sets a key.
    ///
    /// The layer keeps memory of its own: a slice of the log entry would keep all of the entry alive.
    fn put(&mut self, key: Key, value: &[u8]);

    /// Removes a key.
    fn remove(&mut self, key: &[u8]);

    /// Removes all keys from `start` and before `end`.
    fn remove_range(&mut self, start: &[u8], end: Option<&[u8]>);
}

/// Writes on their way into a store, in two steps: [`count`](Prepared::count) does all that can fail, and
/// [`apply_to`](Prepared::apply_to) cannot, so that writes are applied together or not at all.
pub(super) struct Prepared<'a> {
    writes: SmallVec<[Write<'a>; INLINE_WRITES]>,
    /// The keys that are added to, with what they are after the writes so far.
    counters: Counters<'a>,
}

type Counters<'a> = BTreeMap<&'a [u8], Counter>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Counter {
    /// The writes so far have not touched it.
    Unread,
    /// The value is a sum, which is not among the writes.
    Sum(i64),
    /// One of the writes has set it, or removed it (0).
    Written(i64),
    /// One of the writes has given it a value of so many bytes.
    Other(usize),
}

impl<'a> Prepared<'a> {
    pub(super) fn new() -> Self {
        Self { writes: SmallVec::new(), counters: BTreeMap::new() }
    }

    /// Takes all writes in.
    #[inline]
    pub(super) fn fill(&mut self, writes: impl Iterator<Item = Write<'a>>) {
        self.writes.reserve(writes.size_hint().0);
        for write in writes {
            if let Write::Add { key, .. } = write {
                self.counters.insert(key, Counter::Unread);
            }
            self.writes.push(write);
        }
    }

    /// Works out the sums, with a look at what is there before.
    pub(super) fn count(&mut self, mut current: impl FnMut(&[u8]) -> Result<Option<Bytes>>) -> Result<()> {
        if self.counters.is_empty() {
            return Ok(());
        }
        self.writes.iter().try_for_each(|write| step(&mut self.counters, write, &mut current, &mut |_, _| ()))
    }

    /// Refuses an entry that is longer than a file can hold: no checkpoint could ever write it.
    pub(super) fn check_lengths(&self) -> Result<()> {
        if self.cost_bytes() <= ENTRY_BYTES_MAX {
            return Ok(());
        }
        match self.writes.iter().find(|write| write.cost_bytes() > ENTRY_BYTES_MAX) {
            Some(Write::Put { key, .. } | Write::PutStamped { start: key, .. }) => Err(too_long(key)),
            _ => Ok(()),
        }
    }

    /// What the writes count for in memory.
    pub(super) fn cost_bytes(&self) -> u64 {
        self.writes.iter().map(Write::cost_bytes).sum()
    }

    /// Applies all writes, and then the sums: nobody sees what is between.
    pub(super) fn apply_to(&self, layer: &mut impl Layer) {
        for write in &self.writes {
            match *write {
                Write::Put { key, value } => layer.put(Key::from(key), value),
                Write::Delete { key } => layer.remove(key),
                Write::DeleteRange { start, end } => layer.remove_range(start, end),
                Write::PutStamped { start, stamp, end, value } => {
                    layer.put(stamped(start, stamp, end), value);
                }
                Write::Add { .. } | Write::Note { .. } => {}
            }
        }
        for (&key, counter) in &self.counters {
            match *counter {
                Counter::Sum(0) => layer.remove(key),
                Counter::Sum(sum) => layer.put(Key::from(key), &sum.to_le_bytes()),
                Counter::Unread | Counter::Written(_) | Counter::Other(_) => {}
            }
        }
    }
}

impl Counter {
    /// What a key is to which one of the writes has given a value.
    fn of(value: &[u8]) -> Self {
        number(value).map_or(Counter::Other(value.len()), Counter::Written)
    }
}

/// Finds out which of several groups of writes cannot be applied to a store one after the other, because they add to
/// something that is no counter, and why. A group that is named counts as not applied for those after it: the others
/// together can be applied.
///
/// # Errors
/// What reading a counter can fail with.
pub fn refused<'a, T: Ord>(
    store: &dyn StateStore,
    groups: impl Iterator<Item = (T, impl Iterator<Item = Write<'a>>)>,
) -> Result<BTreeMap<T, Error>> {
    let groups: Vec<(T, Vec<Write<'a>>)> = groups.map(|(name, writes)| (name, writes.collect())).collect();
    let writes = groups.iter().flat_map(|(_, writes)| writes);
    let added = writes.filter_map(|write| if let Write::Add { key, .. } = write { Some(*key) } else { None });
    let mut counters: Counters<'a> = added.map(|key| (key, Counter::Unread)).collect();
    let mut refused = BTreeMap::new();
    for (name, writes) in groups {
        let mut before = Vec::new();
        let counted = writes.iter().try_for_each(|write| {
            step(&mut counters, write, &mut |key| store.get(key), &mut |key, was| before.push((key, was)))
        });
        match counted {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::Invalid => {
                // From the last change to the first.
                counters.extend(before.into_iter().rev());
                refused.insert(name, error);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(refused)
}

/// What a write does to the counters. `changed` hears what each was before.
fn step<'a>(
    counters: &mut Counters<'a>,
    write: &Write<'a>,
    current: &mut impl FnMut(&[u8]) -> Result<Option<Bytes>>,
    changed: &mut impl FnMut(&'a [u8], Counter),
) -> Result<()> {
    let mut set = |range: (Bound<&[u8]>, Bound<&[u8]>), to| {
        let found = counters.range_mut::<[u8], _>(range);
        found.for_each(|(key, counter)| changed(key, std::mem::replace(counter, to)));
    };
    match *write {
        Write::Put { key, value } => set(only(key), Counter::of(value)),
        Write::Delete { key } => set(only(key), Counter::Written(0)),
        Write::PutStamped { start, stamp, end, value } => {
            set(only(&stamped(start, stamp, end)), Counter::of(value));
        }
        Write::DeleteRange { start, end: Some(end) } if end <= start => {}
        Write::DeleteRange { start, end } => {
            let end = end.map_or(Bound::Unbounded, Bound::Excluded);
            set((Bound::Included(start), end), Counter::Written(0));
        }
        Write::Add { key, delta } => {
            // All keys that are added to are there since the beginning.
            let before = match counters.get(key).copied().unwrap_or(Counter::Unread) {
                Counter::Sum(number) | Counter::Written(number) => number,
                Counter::Other(len) => return Err(no_counter(key, len)),
                Counter::Unread => match current(key)? {
                    Some(value) => number(&value).ok_or_else(|| no_counter(key, value.len()))?,
                    None => 0,
                },
            };
            let was = counters.insert(key, Counter::Sum(before.saturating_add(delta)));
            changed(key, was.unwrap_or(Counter::Unread));
        }
        Write::Note { .. } => {}
    }
    Ok(())
}

fn only(key: &[u8]) -> (Bound<&[u8]>, Bound<&[u8]>) {
    (Bound::Included(key), Bound::Included(key))
}

fn number(value: &[u8]) -> Option<i64> {
    <[u8; COUNTER_BYTES]>::try_from(value).ok().map(i64::from_le_bytes)
}

fn stamped(start: &[u8], stamp: u64, end: &[u8]) -> Key {
    let stamp: [u8; STAMP_BYTES] = stamp.to_be_bytes();
    Key::concat(&[start, &stamp, end])
}

fn no_counter(key: &[u8], len: usize) -> Error {
    Error::invalid(format!(
        "cannot add to key {}: its value has {len} bytes where a counter has {COUNTER_BYTES}; put nothing else under the \
         keys of counters",
        named(key)
    ))
}

fn too_long(key: &[u8]) -> Error {
    Error::new(
        ErrorKind::TooLarge,
        format!("key {} and its value have more than {ENTRY_BYTES_MAX} bytes: divide the value", named(key)),
    )
}

/// A key as errors show it.
fn named(key: &[u8]) -> String {
    let (start, more) = match key.split_at_checked(NAMED_BYTES_MAX) {
        Some((start, _)) => (start, "…"),
        None => (key, ""),
    };
    format!("\"{}{more}\"", start.escape_ascii())
}
