use std::sync::Arc;

use bytes::Bytes;
use imbl::OrdMap;
use mainstay_core::{Error, Result};
use parking_lot::RwLock;

use super::cursor::Cursor;
use super::export::{ChunkReader, ChunkWriter};
use super::prepared::{Layer, Prepared};
use super::{
    Counts, Export, Import, Key, KeyRange, Mark, Order, RANGE_KEYS_AT_ONCE, Scan, StateSnapshot, StateStore, Write,
};

/// A state store in memory: for volatile partitions, and for tests.
///
/// The map shares structure between versions, so a snapshot costs one reference, and a change copies the path to one
/// leaf only where a snapshot still holds it. Nothing is durable: a checkpoint only remembers its mark.
///
/// ```
/// use mainstay_store::state::{Mark, MemoryStore, StateStore as _, WriteBatch};
///
/// let store = MemoryStore::new();
/// let mut batch = WriteBatch::new();
/// batch.put(b"name", b"alice");
/// store.apply(Mark { index: 1, ..Mark::default() }, &mut batch.iter())?;
/// assert_eq!(store.get(b"name")?.as_deref(), Some(&b"alice"[..]));
/// # Ok::<(), mainstay_core::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct MemoryStore {
    shared: Arc<RwLock<Shared>>,
}

#[derive(Debug, Default)]
struct Shared {
    state: State,
    checkpointed: Mark,
    unsaved_bytes: u64,
}

/// The state at one mark. A clone is a snapshot.
#[derive(Debug, Clone, Default)]
struct State {
    map: OrdMap<Key, Bytes>,
    counts: Counts,
    mark: Mark,
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }
}

impl StateStore for MemoryStore {
    fn apply(&self, mark: Mark, writes: &mut dyn Iterator<Item = Write<'_>>) -> Result<()> {
        let mut prepared = Prepared::new();
        prepared.fill(writes);
        let mut shared = self.shared.write();
        mark.check_follows(&shared.state.mark)?;
        prepared.count(|key| Ok(shared.state.map.get(key).cloned()))?;
        shared.unsaved_bytes += prepared.cost_bytes();
        prepared.apply_to(&mut shared.state);
        shared.state.mark = mark;
        Ok(())
    }

    fn mark(&self) -> Mark {
        self.shared.read().state.mark.clone()
    }

    fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        Ok(self.shared.read().state.map.get(key).cloned())
    }

    fn multi_get(&self, keys: &[&[u8]]) -> Result<Vec<Option<Bytes>>> {
        let shared = self.shared.read();
        Ok(keys.iter().map(|key| shared.state.map.get(*key).cloned()).collect())
    }

    fn snapshot(&self) -> Result<Arc<dyn StateSnapshot>> {
        Ok(Arc::new(self.shared.read().state.clone()))
    }

    fn checkpoint(&self) -> Result<Mark> {
        let mut shared = self.shared.write();
        shared.checkpointed = shared.state.mark.clone();
        shared.unsaved_bytes = 0;
        Ok(shared.checkpointed.clone())
    }

    fn checkpointed(&self) -> Mark {
        self.shared.read().checkpointed.clone()
    }

    fn unsaved_bytes(&self) -> u64 {
        self.shared.read().unsaved_bytes
    }

    fn import(&self) -> Result<Box<dyn Import>> {
        Ok(Box::new(MemoryImport { store: self.clone(), reader: ChunkReader::default(), map: OrdMap::new() }))
    }
}

impl Layer for State {
    fn put(&mut self, key: Key, value: Bytes) {
        let (key_bytes, value_bytes) = (key.len() as u64, value.len() as u64);
        match self.map.insert(key, value) {
            Some(before) => self.counts.bytes -= before.len() as u64,
            None => {
                self.counts.entries += 1;
                self.counts.bytes += key_bytes;
            }
        }
        self.counts.bytes += value_bytes;
    }

    fn remove(&mut self, key: &[u8]) {
        if let Some(value) = self.map.remove(key) {
            self.counts.entries -= 1;
            self.counts.bytes -= (key.len() + value.len()) as u64;
        }
    }

    fn remove_range(&mut self, start: &[u8], end: Option<&[u8]>) {
        let range = KeyRange::half_open(Bytes::copy_from_slice(start), end.map(Bytes::copy_from_slice));
        if range.is_empty() {
            return;
        }
        loop {
            let keys: Vec<Key> = self
                .map
                .range::<_, [u8]>(range.as_bounds())
                .take(RANGE_KEYS_AT_ONCE)
                .map(|(key, _)| key.clone())
                .collect();
            if keys.is_empty() {
                return;
            }
            keys.iter().for_each(|key| self.remove(key));
        }
    }
}

impl StateSnapshot for State {
    fn mark(&self) -> Mark {
        self.mark.clone()
    }

    fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        Ok(self.map.get(key).cloned())
    }

    fn scan(&self, range: KeyRange, order: Order) -> Result<Scan> {
        let mut cursor = Cursor::new(self.map.clone(), range, order);
        Ok(Box::new(std::iter::from_fn(move || cursor.next().transpose())))
    }

    fn counts(&self) -> Result<Counts> {
        Ok(self.counts)
    }

    fn export(&self) -> Result<Export> {
        Ok(Box::new(ChunkWriter::new(self.scan(KeyRange::all(), Order::Ascending)?, self.mark.clone())))
    }
}

struct MemoryImport {
    store: MemoryStore,
    reader: ChunkReader,
    map: OrdMap<Key, Bytes>,
}

impl Import for MemoryImport {
    fn push(&mut self, chunk: &[u8]) -> Result<()> {
        for (key, value) in self.reader.accept(chunk)? {
            self.map.insert(Key::from(key), Bytes::copy_from_slice(value));
        }
        Ok(())
    }

    fn complete(&self) -> Result<Mark> {
        Ok(self.reader.complete()?.0)
    }

    fn finish(self: Box<Self>) -> Result<Mark> {
        let (mark, counts) = self.reader.complete()?;
        let state = State { map: self.map, counts, mark: mark.clone() };
        let mut shared = self.store.shared.write();
        let replaced = std::mem::replace(&mut shared.state, state);
        shared.checkpointed = mark.clone();
        shared.unsaved_bytes = 0;
        drop(shared);
        // Freeing a large map takes a while; nobody waits for it here.
        drop(replaced);
        Ok(mark)
    }
}

impl Mark {
    /// Refuses a mark that lies before the one that a store is at.
    pub(crate) fn check_follows(&self, current: &Mark) -> Result<()> {
        if self.index < current.index {
            return Err(Error::invalid(format!(
                "cannot apply entry {} to a state at entry {}: a log is applied in order",
                self.index, current.index
            )));
        }
        Ok(())
    }
}
