use std::collections::BTreeMap;

use mainstay::actor::{DynamicState, DynamicStateMut};
use mainstay::collections::VALUE_BYTES_MAX;
use mainstay::contract::Limits;
use mainstay::{Error, ErrorKind, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// How the names begin under which writes are stored.
const MARK: &str = "w";

/// Writes that are acknowledged and not with the source yet. Each is stored by itself, under a name that stays the same while
/// the key is written again.
pub(super) struct Buffer<K, V> {
    by_key: BTreeMap<K, Buffered<V>>,
    next_name: u64,
    /// The number of the last write.
    version: u64,
    /// How many may go together: one, while it is being found out which of them the source refuses.
    is_sorting_out: bool,
}

struct Buffered<V> {
    name: u64,
    version: u64,
    value: Option<V>,
    /// True if the source has refused it by itself, so that it waits for the next round.
    is_refused: bool,
}

/// A write as it is stored.
#[derive(Serialize, Deserialize)]
struct Stored<K, V> {
    key: K,
    value: Option<V>,
}

/// The same, borrowed.
#[derive(Serialize)]
struct ToStore<'w, K, V> {
    key: &'w K,
    value: &'w Option<V>,
}

/// What a stored value may be.
const VALUE_LIMITS: Limits = Limits { bytes_max: VALUE_BYTES_MAX, ..Limits::DEFAULT };

impl<K, V> Default for Buffer<K, V> {
    fn default() -> Self {
        Self { by_key: BTreeMap::new(), next_name: 0, version: 0, is_sorting_out: false }
    }
}

impl<K, V> Buffer<K, V>
where
    K: Ord + Clone + Serialize + DeserializeOwned + Send + Sync + 'static,
    V: Clone + Serialize + DeserializeOwned + Send + Sync + 'static,
{
    /// The writes that are stored.
    pub(super) fn restore(state: DynamicState<'_>) -> Result<Self> {
        let mut buffer = Self::default();
        for name in state.names()? {
            let Some(number) = name.strip_prefix(MARK).and_then(|number| number.parse::<u64>().ok()) else { continue };
            let stored = state.get::<Stored<K, V>>(&name)?;
            buffer.next_name = buffer.next_name.max(number + 1);
            buffer.version += 1;
            let (version, value) = (buffer.version, stored.value.clone());
            let buffered = Buffered { name: number, version, value, is_refused: false };
            buffer.by_key.insert(stored.key.clone(), buffered);
        }
        Ok(buffer)
    }

    /// Refuses a write that cannot be stored. To be asked before anything is changed: otherwise it is refused at the end of
    /// the turn, when the shard has to be made anew and forgets what it has loaded.
    pub(super) fn check(key: &K, value: &Option<V>) -> Result<()> {
        let encoded = VALUE_LIMITS.encode(&ToStore { key, value });
        encoded.map(drop).map_err(|error| match error.kind() {
            ErrorKind::TooLarge => {
                let text = format!(
                    "a write cannot be buffered: {error}; key and value have at most VALUE_BYTES_MAX = {VALUE_BYTES_MAX} bytes \
                     together, so split the value over several keys"
                );
                Error::new(ErrorKind::TooLarge, text)
            }
            _ => error.about("a write cannot be buffered"),
        })
    }

    /// Stores a write with the turn, and says as which version.
    pub(super) fn put(&mut self, mut state: DynamicStateMut<'_>, key: K, value: Option<V>) -> Result<u64> {
        let name = self.by_key.get(&key).map_or(self.next_name, |known| known.name);
        state.set(&stored_name(name), Stored { key: key.clone(), value: value.clone() })?;
        self.next_name = self.next_name.max(name + 1);
        self.version += 1;
        let buffered = Buffered { name, version: self.version, value, is_refused: false };
        self.by_key.insert(key, buffered);
        Ok(self.version)
    }

    /// Takes out what the source has, except for keys that were written again meanwhile. Returns what it was.
    pub(super) fn written(
        &mut self,
        mut state: DynamicStateMut<'_>,
        written: Vec<(K, u64)>,
    ) -> Result<Vec<(K, Option<V>)>> {
        let unchanged = written.into_iter().filter_map(|(key, version)| {
            let buffered = self.by_key.get(&key).filter(|buffered| buffered.version == version)?;
            Some((key, buffered.name))
        });
        let written: Vec<(K, u64)> = unchanged.collect();
        // Before anything is forgotten in memory: if this fails, nothing of the turn has happened.
        for (_, name) in &written {
            state.try_remove(&stored_name(*name))?;
        }
        let taken = written.into_iter().filter_map(|(key, _)| {
            let buffered = self.by_key.remove(&key)?;
            Some((key, buffered.value))
        });
        Ok(taken.collect())
    }

    /// What is to be written next, the oldest first.
    pub(super) fn next_batch(&self, batch_max: usize) -> Vec<(K, Option<V>, u64)> {
        let batch_max = if self.is_sorting_out { 1 } else { batch_max };
        let ready = self.by_key.iter().filter(|(_, buffered)| !buffered.is_refused);
        let mut ready: Vec<_> = ready.map(|(key, buffered)| (buffered.name, key, buffered)).collect();
        ready.sort_unstable_by_key(|(name, ..)| *name);
        let batch = ready.into_iter().take(batch_max);
        batch.map(|(_, key, buffered)| (key.clone(), buffered.value.clone(), buffered.version)).collect()
    }

    /// Takes note that the source has refused writes. If that will not pass by itself, they are tried one by one, so that
    /// those which it would take do not wait for those which it never will.
    pub(super) fn refused(&mut self, unwritten: Vec<(K, u64)>, may_pass: bool) {
        if may_pass {
            // All wait for the next round.
            self.is_sorting_out = false;
            self.by_key.values_mut().for_each(|buffered| buffered.is_refused = true);
            return;
        }
        match unwritten.as_slice() {
            [(key, version)] => {
                if let Some(buffered) = self.by_key.get_mut(key).filter(|buffered| buffered.version == *version) {
                    buffered.is_refused = true;
                }
            }
            _ => self.is_sorting_out = true,
        }
    }

    /// Begins another round.
    pub(super) fn try_all_again(&mut self) {
        self.is_sorting_out = false;
        self.by_key.values_mut().for_each(|buffered| buffered.is_refused = false);
    }

    pub(super) fn get(&self, key: &K) -> Option<&Option<V>> {
        self.by_key.get(key).map(|buffered| &buffered.value)
    }

    pub(super) fn contains(&self, key: &K) -> bool {
        self.by_key.contains_key(key)
    }

    pub(super) fn len(&self) -> usize {
        self.by_key.len()
    }

    /// How many may be written now.
    pub(super) fn ready(&self) -> usize {
        self.by_key.values().filter(|buffered| !buffered.is_refused).count()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// True while writes are tried one by one.
    pub(super) fn is_sorting_out(&self) -> bool {
        self.is_sorting_out
    }

    /// The number of the last write.
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// The lowest number of those that are not with the source.
    pub(super) fn oldest_version(&self) -> Option<u64> {
        self.by_key.values().map(|buffered| buffered.version).min()
    }
}

fn stored_name(number: u64) -> String {
    format!("{MARK}{number:020}")
}
