use bytes::Bytes;
use quick_cache::Weighter;
use quick_cache::sync::Cache;

use crate::entry::Entry;
use crate::layout::{CollectionId, collection_of};
use crate::lock::LockKey;

/// Values that are kept decoded. Whoever reads or changes an entry here holds its lock, so what is here is what is
/// committed.
pub(crate) struct ValueCache {
    /// By the lock that guards each: its key needs no memory of its own, and comparing it follows no pointer.
    entries: Cache<LockKey, Entry, ByBytes>,
}

/// What an entry takes besides its bytes: two handles and a place in a table.
const ENTRY_OVERHEAD_BYTES: u64 = 192;
/// How large entries are thought to be, to size the table at first; it grows by itself.
const ENTRY_BYTES_TYPICAL: u64 = 1024;

#[derive(Clone)]
struct ByBytes;

impl Weighter<LockKey, Entry> for ByBytes {
    fn weight(&self, key: &LockKey, entry: &Entry) -> u64 {
        // The decoded value is taken to be as large as the encoded one.
        ENTRY_OVERHEAD_BYTES + key.len() as u64 + 2 * entry.raw.len() as u64
    }
}

impl ValueCache {
    pub(crate) fn new(bytes_max: u64) -> Self {
        let items = (bytes_max / ENTRY_BYTES_TYPICAL).max(16) as usize;
        Self { entries: Cache::with_weighter(items, bytes_max, ByBytes) }
    }

    pub(crate) fn get(&self, key: &Bytes) -> Option<Entry> {
        self.entries.get(&LockKey::new(key))
    }

    pub(crate) fn put(&self, key: &Bytes, entry: Entry) {
        self.entries.insert(LockKey::new(key), entry);
    }

    pub(crate) fn remove(&self, key: &Bytes) {
        self.entries.remove(&LockKey::new(key));
    }

    /// Forgets all entries of a collection.
    pub(crate) fn clear(&self, id: CollectionId) {
        self.entries.retain(|key, _| {
            let (start, len) = key.start();
            collection_of(&start[..len]) != Some(id)
        });
    }
}
