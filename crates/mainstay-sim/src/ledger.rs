use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use bytes::Bytes;
use mainstay_core::Result;
use mainstay_store::state::{Counts, Import, Mark, StateSnapshot, StateStore, Write};
use parking_lot::Mutex;

/// What all replicas have applied, by place in the log. A place that two replicas (or one replica before and after a
/// crash) fill differently is the worst thing that can happen.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    entries: Mutex<BTreeMap<u64, Applied>>,
    divergence: Mutex<Option<String>>,
}

#[derive(Debug)]
struct Applied {
    digest: u64,
    keys: Vec<Bytes>,
}

impl Ledger {
    fn note(&self, replica: &str, mark: &Mark, digest: u64, keys: Vec<Bytes>) {
        let mut entries = self.entries.lock();
        let first = entries.entry(mark.index).or_insert_with(|| Applied { digest, keys });
        if first.digest != digest {
            let what = format!("{replica} applied something else than others at index {}", mark.index);
            self.divergence.lock().get_or_insert(what);
        }
    }

    /// The first divergence that was seen.
    pub(crate) fn divergence(&self) -> Option<String> {
        self.divergence.lock().clone()
    }

    /// True if the entry at a mark's index wrote a key.
    pub(crate) fn wrote(&self, index: u64, key: &[u8]) -> bool {
        self.entries.lock().get(&index).is_some_and(|applied| applied.keys.iter().any(|other| other == key))
    }
}

/// A store that tells the ledger what it applies.
#[derive(Debug)]
pub(crate) struct RecordingStore {
    pub replica: String,
    pub store: Arc<dyn StateStore>,
    pub ledger: Arc<Ledger>,
}

impl StateStore for RecordingStore {
    fn apply(&self, mark: Mark, writes: &mut dyn Iterator<Item = Write<'_>>) -> Result<()> {
        let mut hasher = DefaultHasher::new();
        mark.note.hash(&mut hasher);
        let mut keys = Vec::new();
        let mut seen = writes.inspect(|write| {
            match write {
                Write::Put { key, value } => {
                    (0, key, value).hash(&mut hasher);
                    keys.push(Bytes::copy_from_slice(key));
                }
                Write::Delete { key } => (1, key).hash(&mut hasher),
                Write::DeleteRange { start, end } => (2, start, end).hash(&mut hasher),
                Write::Add { key, delta } => (3, key, delta).hash(&mut hasher),
                Write::PutStamped { start, stamp, end, value } => (4, start, stamp, end, value).hash(&mut hasher),
                Write::Note { note } => (5, note).hash(&mut hasher),
            };
        });
        self.store.apply(mark.clone(), &mut seen)?;
        self.ledger.note(&self.replica, &mark, hasher.finish(), keys);
        Ok(())
    }

    fn mark(&self) -> Mark {
        self.store.mark()
    }

    fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        self.store.get(key)
    }

    fn multi_get(&self, keys: &[&[u8]]) -> Result<Vec<Option<Bytes>>> {
        self.store.multi_get(keys)
    }

    fn snapshot(&self) -> Result<Arc<dyn StateSnapshot>> {
        self.store.snapshot()
    }

    fn checkpoint(&self) -> Result<Mark> {
        self.store.checkpoint()
    }

    fn checkpointed(&self) -> Mark {
        self.store.checkpointed()
    }

    fn checkpointed_counts(&self) -> Counts {
        self.store.checkpointed_counts()
    }

    fn unsaved_bytes(&self) -> u64 {
        self.store.unsaved_bytes()
    }

    fn import(&self) -> Result<Box<dyn Import>> {
        self.store.import()
    }
}
