use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use mainstay_core::task::Home;
use mainstay_core::{Epoch, Error, ErrorKind, Level, Result};
use mainstay_replica::{Partition, Snapshot};

use crate::actor::refuse_actors;
use crate::attempt::Attempt;
use crate::cache::ValueCache;
use crate::call_graph::CallGraph;
use crate::collection::Collection;
use crate::commit_faults::CommitFaults;
use crate::expiry::{self, Expiry};
use crate::gates::{GateSet, Gates};
use crate::lock::{LockTable, TransactionId};
use crate::options::StateOptions;
use crate::partition_session::PartitionSession;
use crate::registry::{self, CollectionInfo, Registry};
use crate::retry;
use crate::transaction::Transaction;

/// The state of a partition: its collections, and the transactions that change them. Cheap to clone.
///
/// ```
/// use mainstay_state::{Dictionary, StateManager};
///
/// # async fn run(state: StateManager) -> mainstay_core::Result<()> {
/// let stock: Dictionary<String, u32> = state.collection("stock").await?;
///
/// // Tried again by itself after a deadlock or a time-out.
/// let left = state
///     .transact(async |mut tx| {
///         let left = stock.get_for_update(&mut tx, "apple").await?.map_or(0, |left| *left);
///         stock.set(&mut tx, "apple".into(), left + 1).await?;
///         Ok(left + 1)
///     })
///     .await?;
///
/// // The explicit form: dropping a transaction without commit undoes it.
/// let mut tx = state.begin();
/// assert_eq!(stock.get(&mut tx, "apple").await?.as_deref(), Some(&left));
/// tx.commit().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct StateManager {
    pub(crate) shared: Arc<Shared>,
}

/// What all handles of a partition's state share.
pub(crate) struct Shared {
    pub(crate) partition: Partition,
    /// The one in which this was opened: commits and reads of another are not ours.
    pub(crate) epoch: Epoch,
    /// The partition is of level none: all of its state is in this process.
    pub(crate) is_local: bool,
    pub(crate) locks: LockTable,
    pub(crate) cache: ValueCache,
    pub(crate) registry: Registry,
    pub(crate) gates: GateSet,
    pub(crate) options: StateOptions,
    /// What lets commits fail, in a test.
    pub(crate) faults: OnceLock<Arc<CommitFaults>>,
    /// Commits carry along what they replace. On level none, which keeps no log, they do so from when somebody has watched; as
    /// the partition says if it was asked for [notes](Partition::want_notes), and this is what is known of that here.
    pub(crate) history: AtomicBool,
    /// Where that goes on which is left by those who called: it must not end with them.
    pub(crate) home: Home,
    pub(crate) expiry: Arc<Expiry>,
    pub(crate) session: Arc<PartitionSession>,
    next_transaction: NextTransaction,
}

/// On cache lines of its own: every transaction changes it, and reads what would stand beside it.
#[repr(align(128))]
struct NextTransaction(AtomicU64);

impl fmt::Debug for StateManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StateManager({:?}, {})", self.shared.partition, self.shared.epoch)
    }
}

impl StateManager {
    /// Opens the state of a partition that is primary here, with the default options.
    ///
    /// # Errors
    /// As [`open_with`](StateManager::open_with).
    pub async fn open(partition: Partition) -> Result<Self> {
        Self::open_with(partition, StateOptions::default()).await
    }

    /// Opens the state of a partition that is primary here, for as long as it is, or until it is [closed](StateManager::closed).
    ///
    /// # Errors
    /// `NotPrimary`; `Conflict` if it is open already: clone that one, or close it; `Invalid` if it holds actors; `Corrupt`
    /// if its records cannot be read.
    pub async fn open_with(partition: Partition, options: StateOptions) -> Result<Self> {
        Self::open_within(partition, options, None).await
    }

    /// Lets a test decide which commits fail from now on. What was said first stays.
    pub fn use_faults(&self, faults: Arc<CommitFaults>) {
        // A second test would have a state of its own.
        drop(self.shared.faults.set(faults));
    }

    /// Opens the state of a partition whose transactions are used in calls that may wait for each other.
    ///
    /// # Errors
    /// As [`open_with`](StateManager::open_with).
    pub async fn open_within(
        partition: Partition,
        options: StateOptions,
        calls: Option<Arc<dyn CallGraph>>,
    ) -> Result<Self> {
        let epoch = partition.check()?;
        let claim = partition.claim()?;
        let snapshot = partition.read()?;
        refuse_actors(&snapshot)?;
        let shared = Shared {
            epoch,
            locks: LockTable::within(calls),
            cache: ValueCache::new(options.cache_bytes),
            registry: Registry::default(),
            gates: GateSet::load(&snapshot)?,
            is_local: partition.level() == Level::None,
            history: AtomicBool::new(partition.level() != Level::None),
            home: Home::current(),
            expiry: Arc::default(),
            options,
            faults: OnceLock::new(),
            session: PartitionSession::new(claim, partition.level()),
            next_transaction: NextTransaction(AtomicU64::new(1)),
            partition,
        };
        let state = Self { shared: Arc::new(shared) };
        expiry::resume(&state, &snapshot)?;
        Ok(state)
    }

    /// Begins a transaction. Dropping it undoes it.
    #[inline]
    pub fn begin(&self) -> Transaction {
        let id = TransactionId(self.shared.next_transaction.0.fetch_add(1, Ordering::Relaxed));
        if let Some(calls) = self.shared.locks.calls() {
            calls.begun(id);
        }
        Transaction::new(self.shared.clone(), id)
    }

    /// Runs a transaction and commits it. Timeouts, deadlocks and passing conditions are tried again, with pauses that
    /// grow, within the limits of [`RetryOptions`](crate::RetryOptions): the body may run several times.
    ///
    /// # Errors
    /// That of the body if it is not worth a retry, or the last one with the number of tries. `OutcomeUnknown` is never
    /// tried again, nor is a dequeue to which [no item](crate::NoItem) came.
    pub async fn transact<T, Body>(&self, body: impl FnMut(Attempt) -> Body) -> Result<T>
    where
        Body: Future<Output = Result<T>>,
    {
        retry::transact(self, &self.shared.options.retry, body).await
    }

    /// Opens a collection by its name, and creates it if need be.
    ///
    /// # Errors
    /// `Conflict` if the name is that of a collection of another type, `Invalid` for a name that cannot be one.
    pub async fn collection<C: Collection>(&self, name: &str) -> Result<C> {
        self.transact(async |mut tx| C::open(self, &mut tx, name).await).await
    }

    /// Named switches for upgrades in two phases.
    pub fn gates(&self) -> Gates {
        Gates::new(self.clone())
    }

    /// Drops a collection with all that it holds, as part of a transaction. When that is committed, its space is free and
    /// its handles refuse to work.
    ///
    /// # Errors
    /// `NotFound` if there is none of that name; as any operation for its locks.
    pub async fn drop_collection(&self, tx: &mut Transaction, name: &str) -> Result<()> {
        tx.belongs_to(&self.shared)?;
        registry::drop_collection(tx, name).await
    }

    /// Closes the state: from now on all handles, collections and transactions of it are refused with `NotPrimary`, and it can be
    /// opened again, whoever still has some. Waits for the commits that are on their way. On level none it can be opened
    /// again when the last handle is gone.
    pub async fn close(&self) {
        self.closing().close().await;
    }

    /// Waits until the state is closed. It closes itself when the outcome of a commit is unknown: what is in memory may be wrong
    /// then, although the partition may go on as the primary. Open it again.
    pub async fn closed(&self) {
        self.closing().closed().await;
    }

    /// What can close it and waits for that, and does not keep it in memory.
    pub fn closing(&self) -> Closing {
        Closing { session: self.shared.session.clone() }
    }

    /// The names and types of the collections, as of now.
    ///
    /// # Errors
    /// `NotPrimary`; `Corrupt` if a record cannot be read.
    pub fn collections(&self) -> Result<Vec<CollectionInfo>> {
        registry::list(&self.shared.read()?)
    }
}

impl AsRef<LockTable> for Shared {
    #[inline]
    fn as_ref(&self) -> &LockTable {
        &self.locks
    }
}

/// The end of a [`StateManager`], without a hold on it.
#[derive(Debug, Clone)]
pub struct Closing {
    session: Arc<PartitionSession>,
}

impl Closing {
    /// As [`StateManager::close`].
    pub async fn close(&self) {
        self.session.end();
        self.session.vacated().await;
    }

    /// As [`StateManager::closed`].
    pub async fn closed(&self) {
        self.session.ended().await;
    }
}

impl Shared {
    /// From now on the values that a commit replaces go along.
    pub(crate) fn keep_history(&self) {
        self.history.store(true, Ordering::SeqCst);
    }

    /// Whether the values that a commit replaces go along for those who watch.
    pub(crate) fn keeps_history(&self) -> bool {
        self.history.load(Ordering::Relaxed)
    }

    /// Whether the store may keep values of so many bytes as they are, in the place of the cache.
    pub(crate) fn has_room_for(&self, bytes: usize) -> bool {
        self.partition.object_bytes().saturating_add(bytes as u64) <= self.options.cache_bytes
    }

    /// The state as of now.
    pub(crate) fn read(&self) -> Result<Snapshot> {
        let snapshot = self.partition.read()?;
        self.check()?;
        Ok(snapshot)
    }

    /// What is committed under a key.
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        let value = self.partition.get(key)?;
        self.check()?;
        Ok(value)
    }

    /// Whether this will never be used again.
    pub(crate) fn is_over(&self) -> bool {
        self.session.is_over() || self.partition.role_state().epoch != self.epoch
    }

    /// Whether this is still the primary in the same epoch, and what is known here may be used.
    pub(crate) fn check(&self) -> Result<()> {
        if self.partition.check()? == self.epoch {
            return if self.session.is_over() { Err(PartitionSession::refusal(&self.partition)) } else { Ok(()) };
        }
        Err(Error::new(
            ErrorKind::NotPrimary { hint: self.partition.role_state().primary },
            format!(
                "partition {} has had another primary since its state was opened: open it again",
                self.partition.id()
            ),
        ))
    }
}
