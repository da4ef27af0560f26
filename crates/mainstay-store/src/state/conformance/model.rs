use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use mainstay_core::ErrorKind;

use super::{OwnedWrite, Step, Subject};
use crate::state::{Counts, EXPORT_CHUNK_BYTES_MAX, KeyRange, Mark, MemoryStore, Order, StateSnapshot, StateStore};

/// What a store is compared with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Model {
    pub(super) entries: BTreeMap<Vec<u8>, Vec<u8>>,
    pub(super) mark: Mark,
}

impl Model {
    /// Panics if one of the writes adds to what is no counter.
    pub(super) fn apply(&mut self, mark: Mark, writes: &[OwnedWrite]) {
        assert!(self.try_apply(mark, writes), "an add to what is no counter");
    }

    /// Applies writes one by one; false, and nothing has changed, if one of them adds to what is no counter.
    pub(super) fn try_apply(&mut self, mark: Mark, writes: &[OwnedWrite]) -> bool {
        let mut entries = self.entries.clone();
        for write in writes {
            match write {
                OwnedWrite::Put(key, value) => drop(entries.insert(key.clone(), value.clone())),
                OwnedWrite::Delete(key) => drop(entries.remove(key)),
                OwnedWrite::DeleteRange(start, end) => {
                    entries.retain(|key, _| key < start || end.as_ref().is_some_and(|end| key >= end));
                }
                OwnedWrite::Add(key, delta) => {
                    let before = match entries.get(key).map(|value| <[u8; 8]>::try_from(&value[..])) {
                        None => 0,
                        Some(Ok(bytes)) => i64::from_le_bytes(bytes),
                        Some(Err(_)) => return false,
                    };
                    match before.saturating_add(*delta) {
                        0 => drop(entries.remove(key)),
                        sum => drop(entries.insert(key.clone(), sum.to_le_bytes().to_vec())),
                    }
                }
                OwnedWrite::PutStamped(start, stamp, end, value) => {
                    entries.insert([&start[..], &stamp.to_be_bytes(), end].concat(), value.clone());
                }
                OwnedWrite::Note(_) => {}
            }
        }
        *self = Self { entries, mark };
        true
    }

    fn counts(&self) -> Counts {
        Counts {
            entries: self.entries.len() as u64,
            bytes: self.entries.iter().map(|(key, value)| (key.len() + value.len()) as u64).sum(),
        }
    }

    fn scan(&self, range: &KeyRange, order: Order) -> Vec<(Bytes, Bytes)> {
        let mut found: Vec<(Bytes, Bytes)> = self
            .entries
            .iter()
            .filter(|(key, _)| range.contains(key))
            .map(|(key, value)| (Bytes::copy_from_slice(key), Bytes::copy_from_slice(value)))
            .collect();
        if order == Order::Descending {
            found.reverse();
        }
        found
    }

    /// Panics unless a snapshot holds exactly this.
    pub(super) fn assert_is(&self, snapshot: &dyn StateSnapshot) {
        assert_eq!(snapshot.mark(), self.mark, "the mark of a snapshot");
        for order in [Order::Ascending, Order::Descending] {
            let found: Vec<_> = snapshot.scan(KeyRange::all(), order).unwrap().map(Result::unwrap).collect();
            assert_eq!(found, self.scan(&KeyRange::all(), order), "a whole scan, {order:?}");
        }
        assert_eq!(snapshot.counts().unwrap(), self.counts(), "the counts of a snapshot");
        for (key, value) in self.entries.iter().take(20) {
            assert_eq!(snapshot.get(key).unwrap().as_deref(), Some(&value[..]), "the value of {key:?}");
        }
    }
}

/// The chunks of an export, each of a size that is allowed.
pub(super) fn export(snapshot: &dyn StateSnapshot) -> Vec<Bytes> {
    let chunks: Vec<Bytes> = snapshot.export().unwrap().map(Result::unwrap).collect();
    assert!(chunks.iter().all(|chunk| chunk.len() <= EXPORT_CHUNK_BYTES_MAX), "an exported chunk is too long");
    chunks
}

/// Imports chunks into a store.
pub(super) fn import(store: &dyn StateStore, chunks: &[Bytes]) -> Mark {
    let mut import = store.import().unwrap();
    for chunk in chunks {
        import.push(chunk).unwrap();
    }
    import.finish().unwrap()
}

/// Does the steps to a new store and to a model of it, and compares what they say.
///
/// # Panics
/// Where the store differs from the model.
pub fn check_steps(subject: &mut dyn Subject, steps: &[Step]) {
    let mut store = subject.create();
    let mut model = Model::default();
    // What the store is back at after it was reopened.
    let mut saved = Model::default();
    let mut held: VecDeque<(Arc<dyn StateSnapshot>, Model)> = VecDeque::new();

    for step in steps {
        match step {
            Step::Apply(writes) => {
                let index = model.mark.index + 1 + writes.len() as u64;
                let mark = Mark { index, note: Bytes::from(format!("note {index}")) };
                let applied = store.apply(mark.clone(), &mut writes.iter().map(OwnedWrite::as_write));
                let expected = if model.try_apply(mark, writes) { Ok(()) } else { Err(ErrorKind::Invalid) };
                assert_eq!(applied.map_err(|error| error.kind()), expected, "the outcome of {writes:?}");
                assert_eq!(store.mark(), model.mark, "the mark after an apply");
            }
            Step::Get(key) => {
                assert_eq!(store.get(key).unwrap().as_deref(), model.entries.get(key).map(Vec::as_slice), "{key:?}");
            }
            Step::MultiGet(keys) => {
                let refs: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
                let found = store.multi_get(&refs).unwrap();
                assert_eq!(found.len(), keys.len(), "the number of values");
                for (key, value) in keys.iter().zip(found) {
                    assert_eq!(value.as_deref(), model.entries.get(key).map(Vec::as_slice), "{key:?}");
                }
            }
            Step::Scan(range, order, count) => {
                let snapshot = store.snapshot().unwrap();
                let scan = snapshot.scan(range.clone(), *order).unwrap();
                drop(snapshot);
                let found: Vec<_> = scan.take(*count).map(Result::unwrap).collect();
                let mut expected = model.scan(range, *order);
                expected.truncate(*count);
                assert_eq!(found, expected, "a scan of {range:?}, {order:?}");
            }
            Step::Counts => assert_eq!(store.snapshot().unwrap().counts().unwrap(), model.counts(), "the counts"),
            Step::Hold => held.push_back((store.snapshot().unwrap(), model.clone())),
            Step::CheckHeld => held.iter().for_each(|(snapshot, model)| model.assert_is(&**snapshot)),
            Step::Release => drop(held.pop_front()),
            Step::Checkpoint => {
                assert_eq!(store.checkpoint().unwrap(), model.mark, "the mark of a checkpoint");
                assert_eq!(store.checkpointed(), model.mark, "the mark of the last checkpoint");
                assert_eq!(store.unsaved_bytes(), 0, "nothing is unsaved after a checkpoint");
                saved = model.clone();
            }
            Step::Reopen => {
                if subject.is_durable() {
                    held.clear();
                    store = subject.reopen(store).expect("a durable store can be reopened");
                    model = saved.clone();
                    assert_eq!(store.checkpointed(), model.mark, "the mark of the last checkpoint, after reopening");
                    model.assert_is(&*store.snapshot().unwrap());
                }
            }
            Step::Move => {
                let chunks = export(&*store.snapshot().unwrap());
                let other = subject.create();
                assert_eq!(import(&*other, &chunks), model.mark, "the mark of an import");
                store = other;
                saved = model.clone();
            }
            Step::Restore => {
                let (snapshot, mut restored) =
                    held.pop_front().unwrap_or_else(|| (store.snapshot().unwrap(), model.clone()));
                let held_at = restored.clone();
                let mut chunks = export(&*snapshot);
                if restored.mark.index < model.mark.index {
                    let mut back = store.import().unwrap();
                    chunks.iter().for_each(|chunk| back.push(chunk).unwrap());
                    assert_eq!(back.finish().unwrap_err().kind(), ErrorKind::Invalid, "an import that goes back");
                    model.assert_is(&*store.snapshot().unwrap());
                    // The same state at a later mark, as a log brings it back.
                    let other = MemoryStore::new();
                    import(&other, &chunks);
                    let index = model.mark.index + 1;
                    restored.mark = Mark { index, note: Bytes::from(format!("note {index}")) };
                    other.apply(restored.mark.clone(), &mut std::iter::empty()).unwrap();
                    chunks = export(&*other.snapshot().unwrap());
                }
                assert_eq!(import(&*store, &chunks), restored.mark, "the mark of an import");
                assert_eq!(store.checkpointed(), restored.mark, "an import is a checkpoint");
                model = restored;
                saved = model.clone();
                // What was there before the import can still be read.
                held_at.assert_is(&*snapshot);
            }
        }
    }
    held.iter().for_each(|(snapshot, model)| model.assert_is(&**snapshot));
    model.assert_is(&*store.snapshot().unwrap());
}
