use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use mainstay_core::{Error, Result};
use parking_lot::RwLock;

use super::cursor::Cursor;
use super::export::{ChunkReader, ChunkWriter};
use super::object::{Held, Object};
use super::prepared::{Layer, Prepared};
use super::tree::Tree;
use super::value::Value;
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
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    shared: RwLock<Shared>,
    /// What the state's objects count for; for those who want to know without a lock.
    object_bytes: AtomicU64,
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
    map: Tree,
    counts: Counts,
    /// What the objects among the values count for.
    object_bytes: u64,
    mark: Mark,
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// Like [`apply`](StateStore::apply), with objects in the place of the values of some writes: each with the number of
    /// its write, in order, and with the same bytes.
    ///
    /// # Errors
    /// As [`apply`](StateStore::apply).
    pub fn apply_objects(
        &self,
        mark: Mark,
        writes: &mut dyn Iterator<Item = Write<'_>>,
        objects: &[(usize, Arc<dyn Object>)],
    ) -> Result<()> {
        let mut prepared = Prepared::new();
        prepared.fill(writes);
        let mut shared = self.inner.shared.write();
        mark.check_follows(&shared.state.mark)?;
        prepared.count(|key| Ok(shared.state.map.get(key).map(Value::to_bytes)))?;
        shared.unsaved_bytes += prepared.cost_bytes();
        let before = shared.state.object_bytes;
        let mut change = Change { state: &mut shared.state, objects, replaced: None };
        prepared.apply_to(&mut change);
        let replaced = change.replaced;
        shared.state.mark = mark;
        if shared.state.object_bytes != before {
            self.inner.object_bytes.store(shared.state.object_bytes, Ordering::Relaxed);
        }
        drop(shared);
        // Others go on while memory is given back.
        drop(replaced);
        Ok(())
    }

    /// The value of a key, as the object that it was written as if it was one.
    pub fn held(&self, key: &[u8]) -> Option<Held> {
        self.inner.shared.read().state.map.get(key).map(Value::to_held)
    }

    /// What all objects that are held count for: bytes, twice over, and a fixed amount for each. Those that only snapshots
    /// hold are left out.
    pub fn object_bytes(&self) -> u64 {
        self.inner.object_bytes.load(Ordering::Relaxed)
    }
}

/// Writes on their way into the state.
struct Change<'a> {
    state: &'a mut State,
    /// What is left of the objects.
    objects: &'a [(usize, Arc<dyn Object>)],
    /// The first value that was replaced, to be given back when others can go on; most batches have no second one.
    replaced: Option<Value>,
}

impl StateStore for MemoryStore {
    fn apply(&self, mark: Mark, writes: &mut dyn Iterator<Item = Write<'_>>) -> Result<()> {
        self.apply_objects(mark, writes, &[])
    }

    fn mark(&self) -> Mark {
        self.inner.shared.read().state.mark.clone()
    }

    fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        Ok(self.inner.shared.read().state.map.get(key).map(Value::to_bytes))
    }

    fn multi_get(&self, keys: &[&[u8]]) -> Result<Vec<Option<Bytes>>> {
        let shared = self.inner.shared.read();
        Ok(keys.iter().map(|key| shared.state.map.get(key).map(Value::to_bytes)).collect())
    }

    fn snapshot(&self) -> Result<Arc<dyn StateSnapshot>> {
        Ok(Arc::new(self.inner.shared.read().state.clone()))
    }

    fn checkpoint(&self) -> Result<Mark> {
        let mut shared = self.inner.shared.write();
        shared.checkpointed = shared.state.mark.clone();
        shared.unsaved_bytes = 0;
        Ok(shared.checkpointed.clone())
    }

    fn checkpointed(&self) -> Mark {
        self.inner.shared.read().checkpointed.clone()
    }

    fn unsaved_bytes(&self) -> u64 {
        self.inner.shared.read().unsaved_bytes
    }

    fn import(&self) -> Result<Box<dyn Import>> {
        Ok(Box::new(MemoryImport { store: self.clone(), reader: ChunkReader::default(), map: Tree::default() }))
    }
}

impl Layer for Change<'_> {
    fn put(&mut self, write: usize, key: Key, value: &[u8]) {
        let new = match self.objects.split_first() {
            Some(((number, object), rest)) if *number == write => {
                self.objects = rest;
                Value::Object(object.clone())
            }
            _ => Value::from(value),
        };
        let counts = &mut self.state.counts;
        let key_bytes = key.len() as u64;
        counts.bytes += value.len() as u64;
        self.state.object_bytes += new.object_bytes();
        match self.state.map.insert(key, new) {
            Some(before) => self.give_back(before),
            None => {
                counts.entries += 1;
                counts.bytes += key_bytes;
            }
        }
    }

    fn remove(&mut self, key: &[u8]) {
        if let Some(before) = self.state.map.remove(key) {
            self.state.counts.entries -= 1;
            self.state.counts.bytes -= key.len() as u64;
            self.give_back(before);
        }
    }

    fn remove_range(&mut self, start: &[u8], end: Option<&[u8]>) {
        let range = KeyRange::half_open(Bytes::copy_from_slice(start), end.map(Bytes::copy_from_slice));
        if range.is_empty() {
            return;
        }
        loop {
            let mut keys: Vec<Key> = Vec::new();
            self.state.map.visit(range.as_bounds(), Order::Ascending, |key, _| {
                keys.push(key.clone());
                if keys.len() < RANGE_KEYS_AT_ONCE { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            });
            if keys.is_empty() {
                return;
            }
            keys.iter().for_each(|key| self.remove(key));
        }
    }
}

impl Change<'_> {
    fn give_back(&mut self, before: Value) {
        self.state.counts.bytes -= before.bytes().len() as u64;
        self.state.object_bytes -= before.object_bytes();
        if self.replaced.is_none() {
            self.replaced = Some(before);
        }
    }
}

impl StateSnapshot for State {
    fn mark(&self) -> Mark {
        self.mark.clone()
    }

    fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        Ok(self.map.get(key).map(Value::to_bytes))
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
    map: Tree,
}

impl Import for MemoryImport {
    fn push(&mut self, chunk: &[u8]) -> Result<()> {
        for (key, value) in self.reader.accept(chunk)? {
            self.map.insert(Key::from(key), Value::from(value));
        }
        Ok(())
    }

    fn complete(&self) -> Result<Mark> {
        Ok(self.reader.complete()?.0)
    }

    fn finish(self: Box<Self>) -> Result<Mark> {
        let (mark, counts) = self.reader.complete()?;
        let state = State { map: self.map, counts, object_bytes: 0, mark: mark.clone() };
        let mut shared = self.store.inner.shared.write();
        let replaced = std::mem::replace(&mut shared.state, state);
        shared.checkpointed = mark.clone();
        shared.unsaved_bytes = 0;
        self.store.inner.object_bytes.store(0, Ordering::Relaxed);
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

#[cfg(test)]
mod tests {
    use super::super::WriteBatch;
    use super::*;

    struct Text(&'static [u8]);

    impl Object for Text {
        fn bytes(&self) -> &[u8] {
            self.0
        }
    }

    fn is_object(store: &MemoryStore, key: &[u8]) -> bool {
        matches!(store.held(key), Some(Held::Object(_)))
    }

    #[test]
    fn objects_are_values_that_come_back_as_they_were() {
        let store = MemoryStore::new();
        let apply = |index, batch: &WriteBatch, objects: &[(usize, Arc<dyn Object>)]| {
            store.apply_objects(Mark { index, ..Mark::default() }, &mut batch.iter(), objects).unwrap();
        };
        let mut batch = WriteBatch::new();
        batch.put(b"a", b"one").delete(b"b").put(b"c", b"two").put(b"d", b"four");
        apply(1, &batch, &[(2, Arc::new(Text(b"two"))), (3, Arc::new(Text(b"four")))]);
        assert_eq!([&b"a"[..], b"b", b"c", b"d"].map(|key| is_object(&store, key)), [false, false, true, true]);
        assert_eq!(store.get(b"c").unwrap().as_deref(), Some(&b"two"[..]));
        let snapshot = store.snapshot().unwrap();
        let both = store.object_bytes();

        let mut batch = WriteBatch::new();
        batch.put(b"c", b"three");
        apply(2, &batch, &[]);
        assert!(!is_object(&store, b"c") && is_object(&store, b"d"));
        assert!((1..both).contains(&store.object_bytes()));
        batch.clear();
        batch.delete_range(b"a", None);
        apply(3, &batch, &[]);
        assert_eq!((store.object_bytes(), store.snapshot().unwrap().counts().unwrap()), (0, Counts::default()));

        assert_eq!(snapshot.get(b"c").unwrap().as_deref(), Some(&b"two"[..]));
        assert_eq!(snapshot.counts().unwrap(), Counts { entries: 3, bytes: 3 + 3 + 3 + 4 });
    }
}
