use std::borrow::Borrow;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use mainstay_core::time::{self, Duration, WallTime};
use mainstay_core::{Error, ErrorKind, Result, contract, key};
use mainstay_replica::Key;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::collection::{Collection, Handle};
use crate::entry::{Entry, Value};
use crate::layout;
use crate::lock::LockMode;
use crate::manager::StateManager;
use crate::registry::{self, CollectionKind};
use crate::transaction::Transaction;

mod length;
mod range;
mod watch;

pub(crate) use range::Merged;
pub use range::{Entries, Keys, Range};
pub use watch::{Change, Changed, Watch};

/// A map from keys to values, ordered by key. Cheap to clone.
///
/// Keys are any type that [`mainstay_core::key`] can encode, values any serde type. A key's lock is taken by the first
/// operation that needs it, and held until the transaction has ended: shared for reads, exclusively for changes. Read
/// with [`get_for_update`](Dictionary::get_for_update) what you are going to change, so that two who do the same wait
/// for each other instead of running into a deadlock.
///
/// Values come as `Arc<V>`: to change one, put a changed copy back. A type whose values change behind a shared reference, by
/// a lock or an atomic in them, is not for here: on level none readers share the very value that is kept.
///
/// A value must come back as it was when it is encoded and decoded. Whether a read gets the value itself or what was decoded
/// from its bytes depends on what is in memory: what `#[serde(skip)]` leaves out, or the `Some(None)` of an
/// `Option<Option<T>>`, which is encoded as `None` is, is there at one time and gone at another.
///
/// ```
/// # use mainstay_state::{Dictionary, StateManager};
/// # async fn run(state: StateManager) -> mainstay_core::Result<()> {
/// let ages: Dictionary<String, u32> = state.collection("ages").await?;
/// let mut tx = state.begin();
/// ages.add(&mut tx, "anna".into(), 41).await?;
/// ages.update(&mut tx, "anna", |age| *age += 1).await?;
/// assert_eq!(ages.get(&mut tx, "anna").await?.as_deref(), Some(&42));
/// tx.commit().await?;
/// # Ok(())
/// # }
/// ```
pub struct Dictionary<K, V> {
    pub(crate) handle: Handle,
    types: PhantomData<fn(K) -> V>,
}

impl<K, V> Clone for Dictionary<K, V> {
    fn clone(&self) -> Self {
        Self { handle: self.handle.clone(), types: PhantomData }
    }
}

impl<K, V> fmt::Debug for Dictionary<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.handle.fmt(f)
    }
}

impl<K, V> Collection for Dictionary<K, V>
where
    K: Serialize + DeserializeOwned + Send + 'static,
    V: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    async fn open(state: &StateManager, tx: &mut Transaction, name: &str) -> Result<Self> {
        tx.belongs_to(&state.shared)?;
        let (key, value) = (contract::describe::<K>()?.to_string(), contract::describe::<V>()?.to_string());
        let known = registry::open(tx, name, CollectionKind::Dictionary, Some(key), value).await?;
        Ok(Self { handle: Handle { shared: state.shared.clone(), known }, types: PhantomData })
    }
}

impl<K, V> Dictionary<K, V>
where
    K: Serialize + DeserializeOwned + Send + 'static,
    V: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    /// The value of a key.
    ///
    /// # Errors
    /// `Timeout` and `Retry` for its lock, `NotPrimary`; what cannot be read as `V` is named.
    pub async fn get<Q>(&self, tx: &mut Transaction, key: &Q) -> Result<Option<Arc<V>>>
    where
        K: Borrow<Q>,
        Q: ?Sized + Serialize,
    {
        self.read(tx, self.key(key)?, LockMode::Shared).await
    }

    /// The value of a key that is going to be changed: nobody else reads it with the same intent, or changes it, until
    /// this transaction has ended.
    ///
    /// # Errors
    /// As [`get`](Dictionary::get).
    pub async fn get_for_update<Q>(&self, tx: &mut Transaction, key: &Q) -> Result<Option<Arc<V>>>
    where
        K: Borrow<Q>,
        Q: ?Sized + Serialize,
    {
        self.read(tx, self.key(key)?, LockMode::Update).await
    }

    /// The values of several keys, in their order.
    ///
    /// # Errors
    /// As [`get`](Dictionary::get).
    pub async fn multi_get<'a, Q>(
        &self,
        tx: &mut Transaction,
        keys: impl IntoIterator<Item = &'a Q>,
    ) -> Result<Vec<Option<Arc<V>>>>
    where
        K: Borrow<Q>,
        Q: ?Sized + Serialize + 'a,
    {
        let keys = keys.into_iter().map(|key| self.key(key)).collect::<Result<Vec<Key>>>()?;
        self.handle.enter(tx, LockMode::Shared).await?;
        // In one order, so that two who ask for the same keys never wait for each other in a circle.
        let mut in_order: Vec<&Key> = keys.iter().collect();
        in_order.sort_unstable();
        in_order.dedup();
        for key in in_order {
            tx.lock(key, LockMode::Shared, || self.handle.name_of(key)).await?;
        }
        keys.iter().map(|key| self.value(self.live(tx, key)?.as_ref(), key)).collect()
    }

    /// Whether there is a value for a key.
    ///
    /// # Errors
    /// As [`get`](Dictionary::get).
    pub async fn contains<Q>(&self, tx: &mut Transaction, key: &Q) -> Result<bool>
    where
        K: Borrow<Q>,
        Q: ?Sized + Serialize,
    {
        let key = self.key(key)?;
        self.lock(tx, &key, LockMode::Shared).await?;
        Ok(self.live(tx, &key)?.is_some())
    }

    /// Adds a key that is not there.
    ///
    /// # Errors
    /// `Conflict` if it is there; `TooLarge` for a key or value above its limit; as [`get`](Dictionary::get).
    pub async fn add(&self, tx: &mut Transaction, key: K, value: V) -> Result<()> {
        let key = self.key(&key)?;
        if self.insert(tx, &key, || value).await?.is_some() {
            return Err(Error::new(
                ErrorKind::Conflict,
                format!("{} exists: use `set` to replace it", self.handle.name_of(&key)),
            ));
        }
        Ok(())
    }

    /// Adds a key that is not there, and says whether it did.
    ///
    /// # Errors
    /// As [`set`](Dictionary::set).
    pub async fn try_add(&self, tx: &mut Transaction, key: K, value: V) -> Result<bool> {
        let key = self.key(&key)?;
        Ok(self.insert(tx, &key, || value).await?.is_none())
    }

    /// The value of a key, which is added if it is not there.
    ///
    /// # Errors
    /// As [`set`](Dictionary::set).
    pub async fn get_or_add(&self, tx: &mut Transaction, key: K, value: impl FnOnce() -> V) -> Result<Arc<V>> {
        let key = self.key(&key)?;
        let found = self.insert(tx, &key, value).await?;
        let entry = match found {
            Some(entry) => Some(entry),
            None => tx.entry::<V>(&key)?,
        };
        let value = self.value(entry.as_ref(), &key)?;
        value.ok_or_else(|| Error::fatal(format!("{} was added and is not there", self.handle.name_of(&key))))
    }

    /// Sets the value of a key, whether it is there or not. It does not expire, even if the value before did.
    ///
    /// # Errors
    /// `TooLarge` for a key or value above its limit (the message names it); as [`get`](Dictionary::get).
    pub async fn set(&self, tx: &mut Transaction, key: K, value: V) -> Result<()> {
        let key = self.key(&key)?;
        self.lock(tx, &key, LockMode::Exclusive).await?;
        let before = self.stored(tx, &key)?;
        self.put(tx, key, before, Arc::new(value), None)
    }

    /// Sets the value of a key for a length of time. After that it is as if it were not there, and it is removed in the
    /// background. What has expired for a transaction is decided by the moment of its first look at an entry with a time to
    /// live, or of its snapshot: what it has seen stays as it was.
    ///
    /// # Errors
    /// `Invalid` for a time beyond all calendars; as [`set`](Dictionary::set).
    pub async fn set_with_ttl(&self, tx: &mut Transaction, key: K, value: V, ttl: Duration) -> Result<()> {
        let key = self.key(&key)?;
        let Some(expires) = time::wall().checked_add(ttl) else {
            return Err(Error::invalid(format!("a time to live of {ttl:?} has no end: use `set`")));
        };
        self.lock(tx, &key, LockMode::Exclusive).await?;
        let before = self.stored(tx, &key)?;
        self.put(tx, key, before, Arc::new(value), Some(expires))?;
        tx.expires();
        Ok(())
    }

    /// Changes a copy of a key's value and puts it back; returns what it is then, or `None` if the key is not there. When
    /// it expires does not change.
    ///
    /// # Errors
    /// As [`set`](Dictionary::set).
    pub async fn update<Q>(&self, tx: &mut Transaction, key: &Q, change: impl FnOnce(&mut V)) -> Result<Option<Arc<V>>>
    where
        K: Borrow<Q>,
        Q: ?Sized + Serialize,
        V: Clone,
    {
        let key = self.key(key)?;
        self.lock(tx, &key, LockMode::Exclusive).await?;
        let Some(entry) = self.live(tx, &key)? else { return Ok(None) };
        self.change(tx, key, entry, change).map(Some)
    }

    /// Adds a key that is not there, or changes a copy of its value and puts it back; returns what it is then.
    ///
    /// # Errors
    /// As [`set`](Dictionary::set).
    pub async fn add_or_update(
        &self,
        tx: &mut Transaction,
        key: K,
        value: V,
        change: impl FnOnce(&mut V),
    ) -> Result<Arc<V>>
    where
        V: Clone,
    {
        let key = self.key(&key)?;
        self.lock(tx, &key, LockMode::Exclusive).await?;
        let before = self.stored(tx, &key)?;
        match before {
            Stored(Some(entry)) if tx.is_live(&entry) => self.change(tx, key, entry, change),
            before => {
                let value = Arc::new(value);
                self.put(tx, key, before, value.clone(), None)?;
                Ok(value)
            }
        }
    }

    /// Sets the value of a key if it is what the caller expects, and says whether it was.
    ///
    /// # Errors
    /// As [`set`](Dictionary::set).
    pub async fn compare_and_set(&self, tx: &mut Transaction, key: K, expected: &V, value: V) -> Result<bool>
    where
        V: PartialEq,
    {
        let key = self.key(&key)?;
        self.lock(tx, &key, LockMode::Update).await?;
        let before = self.stored(tx, &key)?;
        let now = self.value(before.live(tx), &key)?;
        if now.as_deref() != Some(expected) {
            return Ok(false);
        }
        self.strengthen(tx, &key).await?;
        self.put(tx, key, before, Arc::new(value), None)?;
        Ok(true)
    }

    /// Removes a key.
    ///
    /// # Errors
    /// `NotFound` if it is not there; as [`get`](Dictionary::get).
    pub async fn remove<Q>(&self, tx: &mut Transaction, key: &Q) -> Result<()>
    where
        K: Borrow<Q>,
        Q: ?Sized + Serialize,
    {
        let key = self.key(key)?;
        if self.take(tx, &key, |_| Ok(())).await?.is_none() {
            return Err(Error::new(ErrorKind::NotFound, format!("{} does not exist", self.handle.name_of(&key))));
        }
        Ok(())
    }

    /// Removes a key, and returns its value if it was there.
    ///
    /// # Errors
    /// As [`get`](Dictionary::get).
    pub async fn try_remove<Q>(&self, tx: &mut Transaction, key: &Q) -> Result<Option<Arc<V>>>
    where
        K: Borrow<Q>,
        Q: ?Sized + Serialize,
    {
        let key = self.key(key)?;
        // What cannot be read stays: the caller is not given what would be lost.
        self.take(tx, &key, Entry::value::<V>).await
    }

    /// Removes all keys, as part of the transaction. Waits until nobody else uses the dictionary.
    ///
    /// # Errors
    /// As [`get`](Dictionary::get).
    pub async fn clear(&self, tx: &mut Transaction) -> Result<()> {
        self.handle.enter(tx, LockMode::Exclusive).await?;
        tx.writes.clear(self.handle.known.id)
    }

    /// A key as it is stored.
    pub(crate) fn key<Q: ?Sized + Serialize>(&self, key: &Q) -> Result<Key> {
        KEY.with_borrow_mut(|bytes| {
            bytes.clear();
            bytes.extend_from_slice(&layout::entry_prefix(self.handle.known.id));
            key::encode_into(bytes, key).map_err(|error| error.about(&self.handle.known))?;
            Ok(Key::from(&bytes[..]))
        })
    }

    async fn lock(&self, tx: &mut Transaction, key: &Key, mode: LockMode) -> Result<()> {
        self.handle.enter_and_lock(tx, key, mode).await
    }

    /// Takes a key that is locked for an update for oneself, as part of the same operation and within its time limit.
    async fn strengthen(&self, tx: &mut Transaction, key: &Key) -> Result<()> {
        tx.lock(key, LockMode::Exclusive, || self.handle.name_of(key)).await
    }

    async fn read(&self, tx: &mut Transaction, key: Key, mode: LockMode) -> Result<Option<Arc<V>>> {
        self.lock(tx, &key, mode).await?;
        let entry = self.live(tx, &key)?;
        self.value(entry.as_ref(), &key)
    }

    /// What is stored for a key, expired or not.
    fn stored(&self, tx: &Transaction, key: &Key) -> Result<Stored> {
        let entry = tx.entry::<V>(key).map_err(|error| self.explain(key, error))?;
        Ok(Stored(entry))
    }

    fn live(&self, tx: &Transaction, key: &Key) -> Result<Option<Entry>> {
        Ok(self.stored(tx, key)?.into_live(tx))
    }

    fn value(&self, entry: Option<&Entry>, key: &Key) -> Result<Option<Arc<V>>> {
        entry.map(Entry::value).transpose().map_err(|error| self.explain(key, error))
    }

    /// Adds a value unless there is one, which is returned.
    async fn insert(&self, tx: &mut Transaction, key: &Key, value: impl FnOnce() -> V) -> Result<Option<Entry>> {
        self.lock(tx, key, LockMode::Update).await?;
        let before = self.stored(tx, key)?;
        if before.live(tx).is_some() {
            return Ok(before.0);
        }
        self.strengthen(tx, key).await?;
        self.put(tx, key.clone(), before, Arc::new(value()), None)?;
        Ok(None)
    }

    /// Removes a key, and returns what is wanted of it if it was there.
    async fn take<T>(
        &self,
        tx: &mut Transaction,
        key: &Key,
        wanted: impl FnOnce(&Entry) -> Result<T>,
    ) -> Result<Option<T>> {
        self.lock(tx, key, LockMode::Exclusive).await?;
        // Not decoded: what cannot be read can still be removed.
        let before = Stored(tx.opaque_entry(key).map_err(|error| self.explain(key, error))?);
        let taken = before.live(tx).map(wanted).transpose().map_err(|error| self.explain(key, error))?;
        if before.0.is_some() {
            tx.writes.put(key.clone(), before.0, None)?;
        }
        Ok(taken)
    }

    fn change(&self, tx: &mut Transaction, key: Key, entry: Entry, change: impl FnOnce(&mut V)) -> Result<Arc<V>>
    where
        V: Clone,
    {
        let mut value: V = entry.copy().map_err(|error| self.explain(&key, error))?;
        change(&mut value);
        let value = Arc::new(value);
        let expires = entry.expires();
        self.put(tx, key, Stored(Some(entry)), value.clone(), expires)?;
        Ok(value)
    }

    fn put(
        &self,
        tx: &mut Transaction,
        key: Key,
        before: Stored,
        value: Arc<V>,
        expires: Option<WallTime>,
    ) -> Result<()> {
        let entry = before
            .unknown::<V>(tx)
            .and_then(|unknown| Entry::encode(value, expires, unknown.as_deref(), |bytes| tx.keeps_object(bytes)))
            .map_err(|error| self.explain(&key, error))?;
        tx.writes.put(key, before.0, Some(entry))
    }

    fn explain(&self, key: &Key, error: Error) -> Error {
        self.handle.explain(key, error)
    }
}

/// What is stored for a key, expired or not.
struct Stored(Option<Entry>);

impl Stored {
    fn live(&self, tx: &Transaction) -> Option<&Entry> {
        self.0.as_ref().filter(|entry| tx.is_live(entry))
    }

    fn into_live(self, tx: &Transaction) -> Option<Entry> {
        self.0.filter(|entry| tx.is_live(entry))
    }

    /// What the next value must keep of this one; of an expired one nothing.
    fn unknown<V: Value>(&self, tx: &Transaction) -> Result<Option<Arc<contract::Unknown>>> {
        self.live(tx).map_or(Ok(None), Entry::unknown::<V>)
    }
}

thread_local! {
    static KEY: std::cell::RefCell<Vec<u8>> = const { std::cell::RefCell::new(Vec::new()) };
}
