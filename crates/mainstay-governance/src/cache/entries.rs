use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

/// Values in memory, within bounds of number and bytes: those that were used least recently go first.
pub(super) struct Entries<K, V> {
    by_key: BTreeMap<K, Entry<V>>,
    /// Every use has a number, and the lowest is the one that was used least recently.
    by_use: BTreeMap<u64, K>,
    uses: u64,
    bytes: usize,
    entries_max: usize,
    bytes_max: usize,
}

struct Entry<V> {
    value: Option<V>,
    bytes: usize,
    expires: Instant,
    use_number: u64,
    is_used: bool,
}

/// What there is of a key.
#[derive(Debug, PartialEq)]
pub(super) enum Found<V> {
    /// A value that is good, or that there is none.
    Fresh(Option<V>),
    /// What was good, so long ago.
    Stale(Option<V>, Duration),
    Nothing,
}

impl<K, V> Default for Entries<K, V> {
    fn default() -> Self {
        Self { by_key: BTreeMap::new(), by_use: BTreeMap::new(), uses: 0, bytes: 0, entries_max: 0, bytes_max: 0 }
    }
}

impl<K: Ord + Clone, V: Clone> Entries<K, V> {
    /// No entry, and so many at most.
    pub(super) fn new(entries_max: usize, bytes_max: usize) -> Self {
        Self { entries_max, bytes_max, ..Self::default() }
    }

    /// Looks a key up, which is a use of it.
    pub(super) fn get(&mut self, key: &K, now: Instant) -> Found<V> {
        let Some(entry) = self.by_key.get_mut(key) else { return Found::Nothing };
        self.uses += 1;
        self.by_use.remove(&entry.use_number);
        self.by_use.insert(self.uses, key.clone());
        (entry.use_number, entry.is_used) = (self.uses, true);
        match now.checked_duration_since(entry.expires) {
            Some(age) => Found::Stale(entry.value.clone(), age),
            None => Found::Fresh(entry.value.clone()),
        }
    }

    /// True if what there is of a key is good. To ask is not a use of it.
    pub(super) fn is_fresh(&self, key: &K, now: Instant) -> bool {
        self.by_key.get(key).is_some_and(|entry| now < entry.expires)
    }

    /// Puts a value in, or that there is none, and lets others go as far as there is no room. One that is too large for
    /// all of it is not kept.
    pub(super) fn put(&mut self, key: K, value: Option<V>, bytes: usize, expires: Instant) {
        self.remove(&key);
        if bytes > self.bytes_max {
            return;
        }
        self.uses += 1;
        self.by_use.insert(self.uses, key.clone());
        self.by_key.insert(key, Entry { value, bytes, expires, use_number: self.uses, is_used: false });
        self.bytes += bytes;
        while self.by_key.len() > self.entries_max || self.bytes > self.bytes_max {
            let Some((_, key)) = self.by_use.first_key_value() else { break };
            let key = key.clone();
            self.remove(&key);
        }
    }

    pub(super) fn remove(&mut self, key: &K) {
        if let Some(entry) = self.by_key.remove(key) {
            self.by_use.remove(&entry.use_number);
            self.bytes -= entry.bytes;
        }
    }

    /// The keys of values that were used since they were put in, and whose end is near. They count as unused from here on.
    pub(super) fn due(&mut self, now: Instant, ahead: Duration) -> Vec<K> {
        let near = self.by_key.iter_mut().filter(|(_, entry)| entry.is_used && entry.expires <= now + ahead);
        near.map(|(key, entry)| {
            entry.is_used = false;
            key.clone()
        })
        .collect()
    }

    /// Lets go what has been stale for longer than this.
    pub(super) fn tidy(&mut self, now: Instant, stale_for: Duration) {
        let gone: Vec<K> =
            self.by_key.iter().filter(|(_, it)| it.expires + stale_for <= now).map(|(key, _)| key.clone()).collect();
        gone.iter().for_each(|key| self.remove(key));
    }

    pub(super) fn len(&self) -> usize {
        self.by_key.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests;
