use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use mainstay_core::{Error, Result};
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use smallvec::SmallVec;

use super::cursor::Cursor;
use super::export::{ChunkReader, ChunkWriter};
use super::object::{Held, Object};
use super::prepared::{Layer, Prepared};
use super::tree::Tree;
use super::value::Value;
use super::{
    Counts, Export, Import, Key, KeyRange, Mark, Order, Scan, StateSnapshot, StateStore, WRITE_OVERHEAD_BYTES, Write,
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
    object_bytes: ObjectBytes,
}

/// On cache lines of its own: it seldom changes, and what would stand beside it always does.
#[derive(Debug, Default)]
#[repr(align(128))]
struct ObjectBytes(AtomicU64);

impl Inner {
    /// Locks for a single look or change: all take less than a microsecond, so waiting for one on the processor costs less
    /// than sleeping.
    #[inline]
    fn read(&self) -> RwLockReadGuard<'_, Shared> {
        spin(|| self.shared.try_read()).unwrap_or_else(|| self.shared.read())
    }

    /// As [`read`](Inner::read).
    #[inline]
    fn write(&self) -> RwLockWriteGuard<'_, Shared> {
        spin(|| self.shared.try_write()).unwrap_or_else(|| self.shared.write())
    }
}

/// How often a lock is tried before its user sleeps: for some microseconds, which is what sleeping costs.
const TRIES_MAX: u32 = 100;

#[inline]
fn spin<T>(mut attempt: impl FnMut() -> Option<T>) -> Option<T> {
    for _ in 0..TRIES_MAX {
        if let Some(done) = attempt() {
            return Some(done);
        }
        std::hint::spin_loop();
    }
    None
}

#[derive(Debug, Default)]
struct Shared {
    state: State,
    checkpointed: Mark,
    unsaved_bytes: u64,
}

impl Shared {
    /// Sets a key to an object, and returns what it had.
    #[inline]
    fn set_object(&mut self, (key, object): (Key, Object)) -> Option<Value> {
        self.unsaved_bytes += key.len() as u64 + u64::from(object.len) + WRITE_OVERHEAD_BYTES;
        self.state.set(key, object.into())
    }
}

/// The state at one mark. A clone is a snapshot.
#[derive(Debug, Clone, Default)]
struct State {
    map: Tree<Value>,
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

    /// Applies the writes that `writes` gives for the next index, without a log that has given one, and returns it. Behind
    /// them keys are set to objects, which are kept as they are. `first` sees the index and the objects before anybody else
    /// applies something, and nothing is applied if it refuses.
    ///
    /// # Errors
    /// As [`apply`](StateStore::apply); that of `first`; `Corrupt` if no index follows.
    #[inline]
    pub fn append<'a, W, const N: usize>(
        &self,
        writes: impl FnOnce(u64) -> W,
        objects: SmallVec<[(Key, Object); N]>,
        first: impl FnOnce(u64, &[(Key, Object)]) -> Result<()>,
    ) -> Result<u64>
    where
        W: Iterator<Item = Write<'a>>,
    {
        let mut shared = self.inner.write();
        let index = shared.state.next_index()?;
        let mut prepared = Prepared::new();
        prepared.fill(writes(index));
        prepared.count(|key| shared.state.map.get(key).map(Value::to_bytes).transpose())?;
        first(index, &objects)?;
        let replaced = self.change(&mut shared, Some(&prepared), objects.into_iter());
        shared.state.mark.index = index;
        drop(shared);
        // Others go on while memory is given back, and whatever code of others that runs.
        drop(replaced);
        Ok(index)
    }

    /// [`append`](MemoryStore::append) of objects alone, which is most of what is appended.
    ///
    /// # Errors
    /// That of `first`; `Corrupt` if no index follows.
    #[inline]
    pub fn append_objects<const N: usize>(
        &self,
        objects: SmallVec<[(Key, Object); N]>,
        first: impl FnOnce(u64, &[(Key, Object)]) -> Result<()>,
    ) -> Result<u64> {
        let mut shared = self.inner.write();
        let index = shared.state.next_index()?;
        first(index, &objects)?;
        let replaced = self.change(&mut shared, None, objects.into_iter());
        shared.state.mark.index = index;
        drop(shared);
        drop(replaced);
        Ok(index)
    }

    /// [`append_objects`](MemoryStore::append_objects) of a single one.
    ///
    /// # Errors
    /// That of `first`; `Corrupt` if no index follows.
    #[inline]
    pub fn append_object(
        &self,
        put: (Key, Object),
        first: impl FnOnce(u64, &(Key, Object)) -> Result<()>,
    ) -> Result<u64> {
        let mut shared = self.inner.write();
        let index = shared.state.next_index()?;
        first(index, &put)?;
        let replaced = shared.set_object(put);
        shared.state.mark.index = index;
        self.publish_object_bytes(&shared);
        drop(shared);
        drop(replaced);
        Ok(index)
    }

    /// Applies what can be applied, and returns the values that it has replaced.
    #[inline]
    fn change(
        &self,
        shared: &mut Shared,
        prepared: Option<&Prepared<'_>>,
        objects: impl Iterator<Item = (Key, Object)>,
    ) -> Replaced {
        let mut change = Change { state: &mut shared.state, replaced: Replaced::new() };
        if let Some(prepared) = prepared {
            shared.unsaved_bytes += prepared.cost_bytes();
            prepared.apply_to(&mut change);
        }
        let mut replaced = change.replaced;
        replaced.extend(objects.filter_map(|put| shared.set_object(put)));
        self.publish_object_bytes(shared);
        replaced
    }

    /// Most changes replace an object by one that counts for as much.
    #[inline]
    fn publish_object_bytes(&self, shared: &Shared) {
        let (published, bytes) = (&self.inner.object_bytes.0, shared.state.object_bytes);
        if published.load(Ordering::Relaxed) != bytes {
            published.store(bytes, Ordering::Relaxed);
        }
    }

    /// Looks at the mark while nothing is applied.
    pub fn at_mark<T>(&self, look: impl FnOnce(&Mark) -> T) -> T {
        look(&self.inner.shared.read().state.mark)
    }

    /// The value of a key, as the object that it was written as if it was one.
    pub fn held(&self, key: &[u8]) -> Option<Held> {
        self.inner.read().state.map.get(key).map(Value::to_held)
    }

    /// What all objects that are held count for: twice the bytes they are encoded to, and a fixed amount for each. Those that only snapshots
    /// hold are left out.
    pub fn object_bytes(&self) -> u64 {
        self.inner.object_bytes.0.load(Ordering::Relaxed)
    }
}

/// Writes on their way into the state.
struct Change<'a> {
    state: &'a mut State,
    /// The values that were replaced, to be given back when others can go on: an object may be the last of its kind, and then
    /// code of others runs.
    replaced: Replaced,
}

/// Most batches replace one value at most.
type Replaced = SmallVec<[Value; 1]>;

impl StateStore for MemoryStore {
    fn apply(&self, mark: Mark, writes: &mut dyn Iterator<Item = Write<'_>>) -> Result<()> {
        let mut prepared = Prepared::new();
        prepared.fill(writes);
        let mut shared = self.inner.shared.write();
        mark.check_follows(&shared.state.mark)?;
        prepared.count(|key| shared.state.map.get(key).map(Value::to_bytes).transpose())?;
        let replaced = self.change(&mut shared, Some(&prepared), std::iter::empty());
        shared.state.mark = mark;
        drop(shared);
        drop(replaced);
        Ok(())
    }

    fn mark(&self) -> Mark {
        self.inner.shared.read().state.mark.clone()
    }

    fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        // Nothing is encoded under the lock.
        self.held(key).map(Held::into_bytes).transpose()
    }

    fn multi_get(&self, keys: &[&[u8]]) -> Result<Vec<Option<Bytes>>> {
        let shared = self.inner.shared.read();
        let held: Vec<_> = keys.iter().map(|key| shared.state.map.get(key).map(Value::to_held)).collect();
        drop(shared);
        held.into_iter().map(|held| held.map(Held::into_bytes).transpose()).collect()
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

    fn checkpointed_counts(&self) -> Counts {
        self.inner.shared.read().state.counts
    }

    fn unsaved_bytes(&self) -> u64 {
        self.inner.shared.read().unsaved_bytes
    }

    fn import(&self) -> Result<Box<dyn Import>> {
        Ok(Box::new(MemoryImport { store: self.clone(), reader: ChunkReader::default(), map: Tree::default() }))
    }
}

impl Layer for Change<'_> {
    fn put(&mut self, key: Key, value: &[u8]) {
        self.replaced.extend(self.state.set(key, Value::from(value)));
    }

    fn remove(&mut self, key: &[u8]) {
        self.replaced.extend(self.state.remove(key));
    }

    fn remove_range(&mut self, start: &[u8], end: Option<&[u8]>) {
        let range = KeyRange::half_open(Bytes::copy_from_slice(start), end.map(Bytes::copy_from_slice));
        if range.is_empty() {
            return;
        }
        let State { map, counts, object_bytes, .. } = &mut *self.state;
        map.remove_range(range.as_bounds(), |key, value| {
            counts.discount_entry(key, &value, object_bytes);
            self.replaced.push(value);
        });
    }
}

impl State {
    /// The index of what is appended next. A state that was imported may be at any.
    #[inline]
    fn next_index(&self) -> Result<u64> {
        self.mark.index.checked_add(1).ok_or_else(|| {
            Error::corrupt("the state in memory is at the last index that there is: start with an empty data folder")
        })
    }

    /// Sets a key, and returns what it had.
    #[inline]
    fn set(&mut self, key: Key, value: Value) -> Option<Value> {
        let key_bytes = key.len() as u64;
        self.counts.bytes += value.len();
        self.object_bytes += value.object_bytes();
        let before = self.map.insert(key, value);
        match &before {
            Some(before) => self.counts.discount(before, &mut self.object_bytes),
            None => {
                self.counts.entries += 1;
                self.counts.bytes += key_bytes;
            }
        }
        before
    }

    fn remove(&mut self, key: &[u8]) -> Option<Value> {
        let before = self.map.remove(key)?;
        self.counts.discount_entry(key, &before, &mut self.object_bytes);
        Some(before)
    }
}

impl Counts {
    /// Takes off an entry that is not there any more.
    fn discount_entry(&mut self, key: &[u8], value: &Value, object_bytes: &mut u64) {
        take_off(&mut self.entries, 1);
        take_off(&mut self.bytes, key.len() as u64);
        self.discount(value, object_bytes);
    }

    /// Takes off a value that is not there any more.
    #[inline]
    fn discount(&mut self, value: &Value, object_bytes: &mut u64) {
        take_off(&mut self.bytes, value.len());
        take_off(object_bytes, value.object_bytes());
    }
}

/// A count below zero would wrap, and quotas and exports would go by it: the counts and the map do not belong together any
/// more, and nothing that goes on from them can be right.
#[inline]
fn take_off(count: &mut u64, amount: u64) {
    assert!(amount <= *count, "a count of the state in memory would be negative: {count} less {amount}");
    *count -= amount;
}

impl StateSnapshot for State {
    fn mark(&self) -> Mark {
        self.mark.clone()
    }

    fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        self.map.get(key).map(Value::to_bytes).transpose()
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
    map: Tree<Value>,
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
        mark.check_not_before(&shared.state.mark)?;
        let replaced = std::mem::replace(&mut shared.state, state);
        shared.checkpointed = mark.clone();
        shared.unsaved_bytes = 0;
        self.store.inner.object_bytes.0.store(0, Ordering::Relaxed);
        drop(shared);
        // Freeing a large map takes a while; nobody waits for it here.
        drop(replaced);
        Ok(mark)
    }
}

impl Mark {
    /// Refuses the mark of an apply that does not lie behind the one that a store is at: an entry would be applied twice, or
    /// after a later one.
    pub(crate) fn check_follows(&self, current: &Mark) -> Result<()> {
        if self.index > current.index {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "cannot apply entry {} to a state at entry {}: a log is applied in order, each entry once",
            self.index, current.index
        )))
    }

    /// Refuses the mark of an import that lies before the one that a store is at: entries that were applied would be lost.
    pub(crate) fn check_not_before(&self, current: &Mark) -> Result<()> {
        if self.index >= current.index {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "cannot import a state at entry {} into one at entry {}: what was applied since would be lost; import into an \
             empty store, or a later state",
            self.index, current.index
        )))
    }
}

#[cfg(test)]
mod tests {
    use mainstay_core::ErrorKind;
    use mainstay_core::contract::Encodable;

    use super::super::WriteBatch;
    use super::*;

    fn text(text: &'static str) -> Object {
        // Encoded, a short text is a byte and its letters.
        Object { value: Arc::new(text), head: 9, len: 2 + text.len() as u32 }
    }

    fn is_object(store: &MemoryStore, key: &[u8]) -> bool {
        matches!(store.held(key), Some(Held::Object(_)))
    }

    /// A value of a mebibyte that counts how often it is encoded.
    struct Counted(Arc<AtomicU64>);

    const COUNTED_BYTES: usize = 1 << 20;

    impl Encodable for Counted {
        fn encode_at_end(&self, bytes: &mut Vec<u8>) -> Result<()> {
            self.0.fetch_add(1, Ordering::Relaxed);
            bytes.resize(bytes.len() + COUNTED_BYTES, 7);
            Ok(())
        }
    }

    #[test]
    fn a_scan_encodes_few_objects_ahead() {
        let store = MemoryStore::new();
        let encoded = Arc::new(AtomicU64::new(0));
        let objects: SmallVec<[_; 1]> = (0..600_u32)
            .map(|key| {
                let value = Arc::new(Counted(encoded.clone()));
                (Key::from(&key.to_be_bytes()[..]), Object { value, head: 9, len: 1 + COUNTED_BYTES as u32 })
            })
            .collect();
        store.append_objects(objects, |_, _| Ok(())).unwrap();
        for order in [Order::Ascending, Order::Descending] {
            encoded.store(0, Ordering::Relaxed);
            let scan = store.snapshot().unwrap().scan(KeyRange::all(), order).unwrap();
            let mut seen = 0;
            for entry in scan {
                entry.unwrap();
                seen += 1;
                assert!(encoded.load(Ordering::Relaxed) - seen < 2, "{seen} of {encoded:?}");
            }
            assert_eq!(seen, 600);
        }
    }

    #[test]
    fn an_index_that_no_other_follows_is_told() {
        let store = MemoryStore::new();
        store.apply(Mark { index: u64::MAX, ..Mark::default() }, &mut std::iter::empty()).unwrap();
        let batch = WriteBatch::new();
        let object = || (Key::from(&b"n"[..]), text("late"));
        let none = SmallVec::<[_; 1]>::new;
        for error in [
            store.append(|_| batch.iter(), none(), |_, _| panic!()).unwrap_err(),
            store.append_objects(SmallVec::<[_; 1]>::from_iter([object()]), |_, _| panic!()).unwrap_err(),
            store.append_object(object(), |_, _| panic!()).unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        }
        assert_eq!((store.mark().index, store.get(b"n").unwrap()), (u64::MAX, None));
    }

    #[test]
    fn objects_are_values_that_come_back_as_they_were() {
        let store = MemoryStore::new();
        let apply = |index, batch: &WriteBatch, objects: &[(&[u8], &'static str)]| {
            let puts: SmallVec<[_; 1]> = objects.iter().map(|(key, to)| (Key::from(*key), text(to))).collect();
            let first = |next, seen: &[_]| {
                assert_eq!((next, seen.len()), (index, objects.len()));
                Ok(())
            };
            assert_eq!(store.append(|index| batch.stamped(index), puts, first).unwrap(), index);
        };
        let mut batch = WriteBatch::new();
        batch.put(b"a", b"one").delete(b"b").put(b"c", b"overwritten");
        apply(1, &batch, &[(b"c", "two"), (b"d", "four")]);
        assert_eq!([&b"a"[..], b"b", b"c", b"d"].map(|key| is_object(&store, key)), [false, false, true, true]);
        assert_eq!(store.get(b"c").unwrap().as_deref(), Some(&b"\x09\xa3two"[..]));
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
        batch.clear();
        batch.put(b"n", b"no counter").add(b"n", 1);
        assert!(store.append(|_| batch.iter(), SmallVec::<[_; 1]>::new(), |_, _| panic!()).is_err());
        batch.clear();
        batch.put(b"n", b"refused");
        let refuse = |_, _: &[_]| Err(Error::invalid("not now"));
        assert!(store.append(|_| batch.iter(), SmallVec::<[_; 1]>::new(), refuse).is_err());
        let objects: SmallVec<[_; 1]> = [(Key::from(&b"n"[..]), text("refused"))].into_iter().collect();
        assert!(store.append_objects(objects, refuse).is_err());
        let object = (Key::from(&b"n"[..]), text("refused"));
        assert!(store.append_object(object, |_, _| Err(Error::invalid("not now"))).is_err());
        assert_eq!((store.mark().index, store.get(b"n").unwrap()), (3, None));

        assert_eq!(snapshot.get(b"c").unwrap().as_deref(), Some(&b"\x09\xa3two"[..]));
        assert_eq!(snapshot.counts().unwrap(), Counts { entries: 3, bytes: 3 + 3 + 5 + 6 });
    }
}
