use mainstay_replica::Key;
use quick_cache::Weighter;
use quick_cache::sync::Cache;

use crate::entry::Entry;
use crate::layout::{CollectionId, collection_of};

/// Values that are kept decoded. Whoever reads or changes an entry here holds its lock, so what is here is what is
/// committed.
pub(crate) struct ValueCache {
    entries: Cache<Key, Entry, ByBytes>,
}

/// What an entry takes besides its bytes: two handles and a place in a table.
const ENTRY_OVERHEAD_BYTES: u64 = 192;
/// How large entries are thought to be, to size the table at first; it grows by itself.
const ENTRY_BYTES_TYPICAL: u64 = 1024;

#[derive(Clone)]
struct ByBytes;

impl Weighter<Key, Entry> for ByBytes {
    fn weight(&self, key: &Key, entry: &Entry) -> u64 {
        // The decoded value is taken to be as large as the encoded one.
        ENTRY_OVERHEAD_BYTES + key.len() as u64 + 2 * entry.len() as u64
    }
}

impl ValueCache {
    pub(crate) fn new(bytes_max: u64) -> Self {
        let items = (bytes_max / ENTRY_BYTES_TYPICAL).max(16) as usize;
        Self { entries: Cache::with_weighter(items, bytes_max, ByBytes) }
    }

    pub(crate) fn get(&self, key: &Key) -> Option<Entry> {
        self.entries.get(key)
    }

    pub(crate) fn put(&self, key: Key, entry: Entry) {
        self.entries.insert(key, entry);
    }

    pub(crate) fn remove(&self, key: &Key) {
        self.entries.remove(key);
    }

    /// Forgets all entries of a collection.
    pub(crate) fn clear(&self, id: CollectionId) {
        self.entries.retain(|key, _| collection_of(key) != Some(id));
    }
}
