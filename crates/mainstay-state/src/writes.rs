use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use mainstay_core::{Error, ErrorKind, Result};
use mainstay_replica::{Batch, Key, Object, prefix_successor};
use smallvec::SmallVec;

use crate::cache::ValueCache;
use crate::entry::Entry;
use crate::layout::{self, CollectionId};
use crate::moment::Moment;
use crate::options::TRANSACTION_BYTES_MAX;
use crate::written::Written;

/// What a transaction has written and not yet committed.
#[derive(Default)]
pub(crate) struct Writes {
    entries: Written,
    /// How many entries more, or fewer, each collection has.
    lengths: SmallVec<[(CollectionId, i64); 1]>,
    /// What few transactions write.
    others: Option<Box<Others>>,
    bytes: usize,
    /// The values that are replaced go along for those who watch, and the store keeps bytes alone.
    history: bool,
}

#[derive(Default)]
struct Others {
    /// Keys that are not entries of a collection: records of the registry and of gates.
    records: BTreeMap<Key, Option<Bytes>>,
    /// Items of queues, in order; they get their keys when they are committed.
    items: BTreeMap<CollectionId, VecDeque<Entry>>,
    /// Collections whose entries were all removed before anything else that stands here.
    cleared: Vec<CollectionId>,
}

/// A change of one entry.
pub(crate) struct Write {
    /// What is committed, expired or not.
    pub(crate) old: Option<Entry>,
    /// What it becomes; `None` to remove it.
    pub(crate) new: Option<Entry>,
}

impl Write {
    /// It was not there before, and is not there now. Whoever enumerates an older snapshot has to know all the same.
    fn is_nothing(&self) -> bool {
        self.old.is_none() && self.new.is_none()
    }
}

impl Writes {
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
            && self.others.as_ref().is_none_or(|others| {
                others.records.is_empty() && others.items.values().all(VecDeque::is_empty) && others.cleared.is_empty()
            })
    }

    /// What all of it counts for, with what it replaces.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// What the transaction has made of an entry; `None` if it has not touched it.
    pub(crate) fn entry(&self, key: &Key) -> Option<Option<&Entry>> {
        if let Some(write) = self.entries.get(key) {
            return Some(write.new.as_ref());
        }
        // Most transactions clear nothing.
        let cleared = &self.others.as_ref()?.cleared;
        cleared.contains(&layout::collection_of(key)?).then_some(None)
    }

    /// What the transaction has made of a record; `None` if it has not touched it.
    pub(crate) fn record(&self, key: &Key) -> Option<Option<&Bytes>> {
        self.others.as_ref()?.records.get(key).map(Option::as_ref)
    }

    pub(crate) fn put_record(&mut self, key: Key, record: Option<Bytes>) -> Result<()> {
        let cost = |record: Option<&Bytes>| record.map_or(0, Bytes::len) + key.len() + OPERATION_OVERHEAD_BYTES;
        let before = self.record(&key).map_or(0, cost);
        charge(&mut self.bytes, cost(record.as_ref()), before)?;
        self.others.get_or_insert_default().records.insert(key, record);
        Ok(())
    }

    /// Changes an entry of a collection. `committed` is what the store has, expired or not; it does not matter if the
    /// transaction has changed the entry before.
    pub(crate) fn put(&mut self, key: Key, committed: Option<Entry>, new: Option<Entry>) -> Result<()> {
        let Some(collection) = layout::collection_of(&key) else {
            return Err(Error::fatal("an entry was written under a key that is none"));
        };
        let after = i64::from(new.is_some());
        let added = cost_of_new(&key, new.as_ref());
        let before = match self.entries.get_mut(&key) {
            Some(write) => {
                charge(&mut self.bytes, added, cost_of_new(&key, write.new.as_ref()))?;
                let before = i64::from(write.new.is_some());
                write.new = new;
                before
            }
            None => {
                let committed = committed.filter(|_| !self.is_cleared(collection));
                let before = i64::from(committed.is_some());
                // Removing what is not there is no change.
                if committed.is_some() || new.is_some() {
                    charge(&mut self.bytes, added + cost_of_old(&key, committed.as_ref()), 0)?;
                    self.entries.insert(key, Write { old: committed, new });
                }
                before
            }
        };
        if after != before {
            self.change_length(collection, after - before);
        }
        Ok(())
    }

    /// Puts an item at the end of a queue.
    pub(crate) fn push(&mut self, collection: CollectionId, item: Entry) -> Result<()> {
        charge(&mut self.bytes, cost_of_item(&item), 0)?;
        self.change_length(collection, 1);
        self.others.get_or_insert_default().items.entry(collection).or_default().push_back(item);
        Ok(())
    }

    /// Takes back the first item that this transaction has put into a queue.
    pub(crate) fn pop(&mut self, collection: CollectionId) -> Option<Entry> {
        let item = self.others.as_mut()?.items.get_mut(&collection)?.pop_front()?;
        self.bytes -= cost_of_item(&item);
        self.change_length(collection, -1);
        Some(item)
    }

    /// The items that this transaction has put into a queue, in order.
    pub(crate) fn items(&self, collection: CollectionId) -> impl DoubleEndedIterator<Item = &Entry> {
        self.others.iter().filter_map(move |others| others.items.get(&collection)).flatten()
    }

    /// Removes all entries of a collection, those that this transaction has written too.
    pub(crate) fn clear(&mut self, collection: CollectionId) -> Result<()> {
        let written = self
            .of(collection)
            .map(|(key, write)| cost_of_new(key, write.new.as_ref()) + cost_of_old(key, write.old.as_ref()));
        let given_back = written.chain(self.items(collection).map(cost_of_item)).sum();
        let added = if self.is_cleared(collection) { 0 } else { CLEAR_BYTES };
        charge(&mut self.bytes, added, given_back)?;
        let written: Vec<Key> = self.of(collection).map(|(key, _)| key.clone()).collect();
        for key in written {
            self.entries.remove(&key);
        }
        self.lengths.retain(|(other, _)| *other != collection);
        let others = self.others.get_or_insert_default();
        others.items.remove(&collection);
        if !others.cleared.contains(&collection) {
            others.cleared.push(collection);
        }
        Ok(())
    }

    /// Removes a collection: all entries and its record, or nothing.
    pub(crate) fn drop_collection(&mut self, collection: CollectionId, record: Key) -> Result<()> {
        // There is room for the second if there is for both.
        let both = CLEAR_BYTES + record.len() + OPERATION_OVERHEAD_BYTES;
        let mut bytes = self.bytes;
        charge(&mut bytes, both, 0)?;
        self.put_record(record, None)?;
        self.clear(collection)
    }

    pub(crate) fn is_cleared(&self, collection: CollectionId) -> bool {
        self.cleared().contains(&collection)
    }

    fn cleared(&self) -> &[CollectionId] {
        self.others.as_ref().map_or(&[], |others| &others.cleared)
    }

    /// By how much this transaction changes the number of entries of a collection, after a clear if there was one.
    pub(crate) fn length_change(&self, collection: CollectionId) -> i64 {
        self.lengths.iter().find(|(other, _)| *other == collection).map_or(0, |(_, change)| *change)
    }

    fn change_length(&mut self, collection: CollectionId, by: i64) {
        match self.lengths.iter_mut().find(|(other, _)| *other == collection) {
            Some((_, change)) => *change += by,
            None => self.lengths.push((collection, by)),
        }
    }

    /// The changes of a collection's entries, in order.
    pub(crate) fn of(&self, collection: CollectionId) -> impl DoubleEndedIterator<Item = (&Key, &Write)> {
        let start = layout::entry_prefix(collection);
        let end = prefix_successor(&start);
        self.entries.range(&start, end.as_deref())
    }

    /// Writes everything into a batch. With `history`, the values that are replaced, and had not expired by the `moment` of the
    /// transaction, go along for those who watch.
    ///
    /// # Errors
    /// As [`Entry::raw`].
    pub(crate) fn fill(&mut self, batch: &mut Batch, history: bool, moment: &Moment) -> Result<()> {
        self.history = history;
        for collection in self.cleared() {
            for prefix in [layout::entry_prefix(*collection), layout::expiry_prefix(*collection)] {
                batch.delete_range(&prefix, prefix_successor(&prefix).as_deref());
            }
            batch.delete(&layout::length(*collection));
        }
        let (records, items) = self.others.as_ref().map(|others| (&others.records, &others.items)).unzip();
        for (key, record) in records.into_iter().flatten() {
            match record {
                Some(record) => batch.put(key, record),
                None => batch.delete(key),
            };
        }
        for (key, write) in self.entries.iter().filter(|(_, write)| !write.is_nothing()) {
            let (old, new) = (write.old.as_ref(), write.new.as_ref());
            let expires = new.and_then(Entry::expires);
            if let Some(at) = old.and_then(Entry::expires)
                && expires != Some(at)
            {
                batch.delete(&layout::expiry(at, key));
            }
            // What had expired was there for nobody, and so nothing that could be replaced.
            if let Some(old) = old.filter(|old| history && (new.is_none() || moment.is_live(old))) {
                batch.note(&old.raw()?);
            }
            match new {
                Some(new) => match new.object() {
                    Some(object) if !history => _ = batch.put_object(key, object)?,
                    // In its place behind what it replaces.
                    _ => _ = batch.put(key, &new.raw()?),
                },
                None => _ = batch.delete(key),
            }
            if let Some(at) = expires {
                batch.put(&layout::expiry(at, key), &[]);
            }
        }
        for (collection, items) in items.into_iter().flatten() {
            // Fewer than a number has room for, because of TRANSACTION_BYTES_MAX.
            for (number, item) in (0u32..).zip(items) {
                batch.put_stamped(&layout::entry_prefix(*collection), &number.to_be_bytes(), &item.raw()?);
            }
        }
        for (collection, change) in &self.lengths {
            if *change != 0 {
                batch.add(&layout::length(*collection), *change);
            }
        }
        Ok(())
    }

    /// The only change, if that sets an entry to a value that the store is to keep as it is, which is what most transactions
    /// do.
    pub(crate) fn only_object(&self) -> Option<(&Key, Object)> {
        let (key, Write { old, new }) = self.entries.only()?;
        let is_counted = self.lengths.iter().any(|(_, change)| *change != 0);
        if self.others.is_some() || is_counted || old.as_ref().is_some_and(|old| old.expires().is_some()) {
            return None;
        }
        Some((key, new.as_ref()?.object()?))
    }

    /// Forgets what is known of the entries whose change may or may not have been committed.
    pub(crate) fn forget(&self, cache: &ValueCache) {
        for collection in self.cleared() {
            cache.clear(*collection);
        }
        for (key, _) in self.entries.iter() {
            cache.remove(key);
        }
    }

    /// Keeps the values that are now committed for those who read them next.
    pub(crate) fn settle(&self, cache: &ValueCache) {
        for collection in self.cleared() {
            cache.clear(*collection);
        }
        for (key, write) in self.entries.iter() {
            match &write.new {
                // Whoever finds an object in the store does not ask the cache, and whatever replaces it by bytes tells it.
                Some(Entry::Plain { .. }) if !self.history => {}
                Some(entry) => cache.put(key.clone(), entry.clone()),
                None => cache.remove(key),
            }
        }
    }
}

/// What a batch has besides the bytes of keys and values, for each of its writes.
const OPERATION_OVERHEAD_BYTES: usize = 32;
/// What the removal of all entries of a collection has in a batch.
const CLEAR_BYTES: usize = 4 * OPERATION_OVERHEAD_BYTES;

/// Counts bytes, in the place of those that are given back.
fn charge(bytes: &mut usize, added: usize, given_back: usize) -> Result<()> {
    let sum = *bytes - given_back + added;
    if added > given_back && sum > TRANSACTION_BYTES_MAX {
        return Err(Error::new(
            ErrorKind::TooLarge,
            format!(
                "the transaction would write {sum} bytes, with what it replaces, and TRANSACTION_BYTES_MAX is \
                 {TRANSACTION_BYTES_MAX}: commit in smaller steps"
            ),
        ));
    }
    *bytes = sum;
    Ok(())
}

/// What a batch has of the new value of an entry, or of its removal.
fn cost_of_new(key: &[u8], new: Option<&Entry>) -> usize {
    key.len() + OPERATION_OVERHEAD_BYTES + new.map_or(0, |new| new.len() + cost_of_place(key, new))
}

/// What it has of the value before, and of the number of entries that changes with it.
fn cost_of_old(key: &[u8], old: Option<&Entry>) -> usize {
    OPERATION_OVERHEAD_BYTES + old.map_or(0, |old| old.len() + cost_of_place(key, old))
}

/// What it has of an entry's place among those that expire.
fn cost_of_place(key: &[u8], entry: &Entry) -> usize {
    entry.expires().map_or(0, |_| layout::EXPIRY_PREFIX_BYTES + key.len() + OPERATION_OVERHEAD_BYTES)
}

fn cost_of_item(item: &Entry) -> usize {
    item.len() + OPERATION_OVERHEAD_BYTES
}
