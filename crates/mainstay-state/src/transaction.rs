use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use mainstay_core::time::{self, Duration, Instant, WallTime};
use mainstay_core::{Error, ErrorKind, Result, SequenceNumber, task};
use mainstay_replica::{Batch, Held, Key, Snapshot};

use crate::commit::Committing;
use crate::commit_faults::CommitFaults;
use crate::entry::{Entry, Value};
use crate::expiry::Expires;
use crate::layout::{self, CollectionId};
use crate::lock::{LockMode, LockOwner, TransactionId};
use crate::manager::Shared;
use crate::moment::Moment;
use crate::partition_session::PartitionSession;
use crate::writes::Writes;

/// Changes of any number of collections of one partition that are committed together or not at all.
///
/// Every operation borrows the transaction mutably, so there is one at a time. Locks are held until the transaction has
/// ended; dropping it undoes it.
pub struct Transaction {
    locks: LockOwner<Shared>,
    pub(crate) writes: Writes,
    /// What enumerations and counts see, taken by the first of them.
    snapshot: Option<Box<Snapshot>>,
    /// By which entries have expired or not.
    moment: Moment,
    /// What others are told when this has ended.
    pub(crate) endings: Vec<Box<dyn Ending>>,
    /// How long the next operation waits for its locks, if not as long as usual.
    next_limit: Option<Duration>,
    limit: Duration,
    /// When the current operation began to wait.
    waiting_since: Option<Instant>,
    /// Why nothing more can be done in it.
    refusal: Option<Refusal>,
}

/// Why a transaction cannot be used any more.
#[derive(Debug, Clone, Copy)]
enum Refusal {
    Ended,
    /// It was the victim of a deadlock, and was undone: another one may succeed.
    Deadlock,
}

/// What is known of an entry without decoding it.
enum AtHand {
    /// All of it, or that there is none.
    Decoded(Option<Entry>),
    /// Nothing: it is to be looked for in the store.
    Stored,
}

/// Something that depends on how a transaction ends.
pub(crate) trait Ending: Send + Sync {
    /// It was committed. The locks are still held.
    fn committed(self: Box<Self>);
    /// It was undone, or nobody knows. The locks are still held.
    fn undone(self: Box<Self>);
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Transaction({} of {:?})", self.id(), self.shared().partition)
    }
}

impl Transaction {
    #[inline]
    pub(crate) fn new(shared: Arc<Shared>, id: TransactionId) -> Self {
        let limit = shared.options.lock_timeout;
        Self {
            locks: LockOwner::new(shared, id),
            writes: Writes::default(),
            snapshot: None,
            moment: Moment::default(),
            endings: Vec::new(),
            next_limit: None,
            limit,
            waiting_since: None,
            refusal: None,
        }
    }

    #[inline]
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        self.locks.shared()
    }

    /// Which transaction this is, as it is named in errors.
    pub fn id(&self) -> TransactionId {
        self.locks.id()
    }

    /// Sets how long the next operation, and only that, waits for its locks: `stock.get(tx.within(limit), "apple")`.
    pub fn within(&mut self, limit: Duration) -> &mut Self {
        self.next_limit = Some(limit);
        self
    }

    /// Makes the changes durable by the partition's level, and returns their place in the order of commits. The locks
    /// are held until then. A transaction that has changed nothing returns the place that it has read.
    ///
    /// Dropping the future does not take the commit back: the locks are held until it has happened or failed.
    ///
    /// # Errors
    /// `NotPrimary`, `Overloaded`, `TooLarge`, and `Retry` after a deadlock: nothing was changed. `OutcomeUnknown`: the
    /// partition stopped being primary while the commit was on its way, and it may or may not have happened.
    pub async fn commit(mut self) -> Result<SequenceNumber> {
        // What takes no time never waits, and others of the runtime must have a chance all the same.
        if !task::take_budget() {
            task::yield_for_budget().await;
        }
        let faults = self.shared().faults.get().cloned();
        match self.commit_at_once(faults.as_deref()) {
            Some(outcome) => outcome,
            None => self.commit_in_time(faults).await,
        }
    }

    /// As [`commit`](Transaction::commit), for what the system commits by itself: no test lets it fail.
    pub(crate) async fn commit_own(mut self) -> Result<SequenceNumber> {
        if !task::take_budget() {
            task::yield_for_budget().await;
        }
        match self.commit_at_once(None) {
            Some(outcome) => outcome,
            None => self.commit_in_time(None).await,
        }
    }

    /// Commits what takes no time: nothing, and what is in the memory of this process alone. Else `None`.
    pub(crate) fn commit_at_once(&mut self, faults: Option<&CommitFaults>) -> Option<Result<SequenceNumber>> {
        if let Err(refusal) = self.check_usable() {
            return Some(Err(refusal));
        }
        let outcome = if self.writes.is_empty() {
            self.shared().read().map(|snapshot| snapshot.sequence_number())
        } else if self.shared().is_local {
            match faults {
                None => self.commit_locally(),
                Some(faults) => faults.commit_at_once(|| self.commit_locally()),
            }
        } else {
            return None;
        };
        self.land(&outcome);
        Some(outcome)
    }

    /// Commits what takes time, after [`commit_at_once`](Transaction::commit_at_once) has said so.
    pub(crate) fn commit_in_time(mut self, faults: Option<Arc<CommitFaults>>) -> Committing {
        let partition = self.shared().partition.clone();
        let mut batch = partition.batch();
        let underway = self.shared().session.begin_commit().ok_or_else(|| PartitionSession::refusal(&partition));
        let filled = underway.and_then(|underway| self.fill(&mut batch, true).map(|()| underway));
        #[cfg(feature = "planted-bugs")]
        if crate::planted::is_planted(crate::planted::PlantedBug::ReleaseBeforeCommit) {
            self.locks.release_all();
        }
        let outcome = Box::pin(async move {
            let _underway = filled?;
            match faults {
                None => partition.commit(batch).await,
                Some(faults) => faults.commit(partition.commit(batch)).await,
            }
        });
        Committing::new(self, outcome)
    }

    fn commit_locally(&mut self) -> Result<SequenceNumber> {
        self.shared().check()?;
        let shared = self.locks.shared();
        if !shared.keeps_history() {
            let outcome = match self.writes.only_object() {
                Some((key, object)) => shared.partition.put_at_once(shared.epoch, key, object),
                None => self.commit_batch(false),
            };
            if !outcome.as_ref().is_err_and(|error| error.kind() == ErrorKind::Retry) {
                return outcome;
            }
            // Somebody watches, since a moment ago or since before the state was opened.
            self.shared().keep_history();
        }
        self.commit_batch(true)
    }

    fn commit_batch(&mut self, history: bool) -> Result<SequenceNumber> {
        let mut batch = self.shared().partition.batch();
        self.fill(&mut batch, history)?;
        self.shared().partition.commit_at_once(batch)
    }

    /// Fills a batch with all that was written, and with what it replaces for the `history`.
    fn fill(&mut self, batch: &mut Batch, history: bool) -> Result<()> {
        batch.in_epoch(self.shared().epoch);
        if !history {
            batch.without_notes();
        }
        self.writes.fill(batch, history, &self.moment)
    }

    /// Whether the store is to keep a value of so many bytes that is written now as it is, and not as bytes.
    pub(crate) fn keeps_object(&self, bytes: usize) -> bool {
        let shared = &**self.shared();
        // Those who watch want bytes.
        shared.is_local && !shared.keeps_history() && shared.has_room_for(self.writes.bytes() + bytes)
    }

    /// The place in the order of commits of the snapshot that enumerations and counts of this transaction see: a
    /// [`Watch`](crate::Watch) from there on sees all that the snapshot does not.
    ///
    /// # Errors
    /// `NotPrimary`; `Conflict` for a transaction that has ended.
    pub fn snapshot_number(&mut self) -> Result<SequenceNumber> {
        Ok(self.snapshot()?.0.sequence_number())
    }

    /// Undoes the changes and releases the locks, as dropping the transaction does.
    pub fn abort(self) {
        drop(self);
    }

    /// Ends the transaction with the outcome of its commit.
    pub(crate) fn land(&mut self, outcome: &Result<SequenceNumber>) {
        if outcome.as_ref().is_err_and(|error| error.kind() == ErrorKind::OutcomeUnknown) {
            // Before others get the locks: what they would find in memory may not be what is committed.
            self.shared().session.end();
        }
        if !self.writes.is_empty() && may_have_committed(outcome) {
            self.tell_calls();
        }
        self.conclude(outcome.is_ok());
    }

    /// Tells the call that this is part of that it has changed something, or may have.
    pub(crate) fn tell_calls(&self) {
        if let Some(calls) = self.shared().locks.calls() {
            calls.committed();
        }
    }

    /// Ends the transaction with what became of its changes.
    pub(crate) fn conclude(&mut self, committed: bool) {
        let cache = &self.locks.shared().cache;
        if committed {
            self.writes.settle(cache);
        } else {
            self.writes.forget(cache);
        }
        for ending in std::mem::take(&mut self.endings) {
            if committed { ending.committed() } else { ending.undone() }
        }
        self.locks.release_all();
        self.refusal = Some(Refusal::Ended);
    }

    /// Locks a key.
    pub(crate) async fn lock(&mut self, key: &Key, mode: LockMode, what: impl Fn() -> String + Send) -> Result<()> {
        if self.try_lock(key, mode)? {
            return Ok(());
        }
        // Most never wait: their futures, which are moved about, have no room for it.
        Box::pin(self.wait(key, mode, what)).await
    }

    /// Waits for a lock that cannot be had at once.
    async fn wait(&mut self, key: &Key, mode: LockMode, what: impl Fn() -> String + Send) -> Result<()> {
        let limit = self.time_left();
        let outcome = self.locks.acquire(key, mode, limit, what).await;
        if outcome.as_ref().is_err_and(|error| error.kind() == ErrorKind::Retry) {
            // Whoever it stood in the way of goes on at once.
            self.conclude(false);
            self.refusal = Some(Refusal::Deadlock);
        }
        outcome
    }

    /// Locks a collection, by the key that stands for it.
    pub(crate) async fn lock_collection(
        &mut self,
        id: CollectionId,
        mode: LockMode,
        what: impl Fn() -> String + Send,
    ) -> Result<()> {
        self.check_usable()?;
        if mode != LockMode::Shared {
            self.locks.bar();
        } else if self.locks.try_share(id) {
            return Ok(());
        }
        self.lock(&layout::length(id), mode, what).await
    }

    /// Locks a key only if that needs no waiting.
    pub(crate) fn try_lock(&mut self, key: &Key, mode: LockMode) -> Result<bool> {
        self.check_usable()?;
        #[cfg(feature = "planted-bugs")]
        if mode == LockMode::Shared && crate::planted::is_planted(crate::planted::PlantedBug::ForgetSharedLocks) {
            return Ok(true);
        }
        Ok(self.locks.try_acquire(key, mode))
    }

    /// Shares a collection only if that needs no waiting.
    pub(crate) fn try_share(&mut self, id: CollectionId) -> bool {
        self.locks.try_share(id)
    }

    /// What [`within`](Transaction::within) said is for the operation that starts here.
    pub(crate) fn start_operation(&mut self) {
        self.locks.start_operation();
        self.limit = self.next_limit.take().unwrap_or(self.shared().options.lock_timeout);
        self.waiting_since = None;
    }

    /// How long the current operation may wait in all.
    pub(crate) fn time_limit(&self) -> Duration {
        self.limit
    }

    /// How long the current operation may still wait: its time runs from the first time that it has to.
    pub(crate) fn time_left(&mut self) -> Duration {
        let now = time::now();
        let waited = now - *self.waiting_since.get_or_insert(now);
        self.limit.saturating_sub(waited)
    }

    #[inline]
    pub(crate) fn check_usable(&self) -> Result<()> {
        match self.refusal {
            None => Ok(()),
            Some(why) => Err(self.refused(why)),
        }
    }

    #[cold]
    fn refused(&self, why: Refusal) -> Error {
        let (kind, why) = match why {
            Refusal::Ended => (ErrorKind::Conflict, "it has ended"),
            Refusal::Deadlock => (ErrorKind::Retry, "it was the victim of a deadlock"),
        };
        Error::new(kind, format!("{} cannot be used: {why}; begin a new one", self.id()))
    }

    /// Refuses a transaction of another partition, or of another time.
    #[inline]
    pub(crate) fn belongs_to(&self, shared: &Arc<Shared>) -> Result<()> {
        if Arc::ptr_eq(self.shared(), shared) { Ok(()) } else { Err(self.strange(shared)) }
    }

    #[cold]
    fn strange(&self, shared: &Shared) -> Error {
        let (own, other) = (self.shared().partition.id(), shared.partition.id());
        Error::invalid(if own == other {
            format!("{} was begun before the state of partition {own} was opened again: begin a new one", self.id())
        } else {
            format!(
                "{} is of partition {own}, the collection is of partition {other}: a transaction is of one partition, \
                 so begin one there",
                self.id()
            )
        })
    }

    /// What an entry is for this transaction: what it wrote, or what is committed. Its lock is held. Expired entries are
    /// returned too, for those who replace them.
    #[inline]
    pub(crate) fn entry<V: Value>(&self, key: &Key) -> Result<Option<Entry>> {
        match self.at_hand(key)? {
            AtHand::Decoded(entry) => Ok(entry),
            AtHand::Stored => self.decode::<V>(key),
        }
    }

    /// What an entry is for this transaction, if nothing must be decoded for it.
    fn at_hand(&self, key: &Key) -> Result<AtHand> {
        if let Some(written) = self.writes.entry(key) {
            return Ok(AtHand::Decoded(written.cloned()));
        }
        let shared = &**self.shared();
        let found = Self::find(shared, key)?;
        // After the look: what is in memory is the newest if this is the primary afterwards.
        shared.check()?;
        Ok(found)
    }

    fn find(shared: &Shared, key: &Key) -> Result<AtHand> {
        if shared.is_local {
            // Where the state is in memory anyway, looking there first is one look instead of two.
            match shared.partition.held(key)? {
                None => return Ok(AtHand::Decoded(None)),
                Some(Held::Bytes(_)) => {}
                Some(Held::Object(object)) => return Ok(AtHand::Decoded(Some(Entry::of_object(object)?))),
            }
        }
        Ok(shared.cache.get(key).map_or(AtHand::Stored, |entry| AtHand::Decoded(Some(entry))))
    }

    /// What is committed of an entry that is not at hand.
    #[inline(never)]
    fn decode<V: Value>(&self, key: &Key) -> Result<Option<Entry>> {
        let shared = self.shared();
        let Some(raw) = shared.partition.get(key)? else { return Ok(None) };
        // Of what has expired nobody wants the value.
        let entry = Entry::decode::<V>(raw.clone()).or_else(|error| match Entry::opaque(raw) {
            Ok(entry) if !self.moment.is_live(&entry) => Ok(entry),
            _ => Err(error),
        })?;
        shared.cache.put(key.clone(), entry.clone());
        Ok(Some(entry))
    }

    /// Like [`entry`](Transaction::entry), without decoding it.
    pub(crate) fn opaque_entry(&self, key: &Key) -> Result<Option<Entry>> {
        if let Some(written) = self.writes.entry(key) {
            return Ok(written.cloned());
        }
        let shared = &**self.shared();
        let held = shared.partition.held(key)?;
        shared.check()?;
        match held {
            None => Ok(None),
            Some(Held::Bytes(raw)) => Entry::opaque(raw).map(Some),
            Some(Held::Object(object)) => Entry::of_object(object).map(Some),
        }
    }

    /// An entry that expires was written: when that is committed, it must be removed in time.
    pub(crate) fn expires(&mut self) {
        self.endings.push(Box::new(Expires { shared: self.shared().clone() }));
    }

    /// A record of the registry or of a gate. Its lock is held.
    pub(crate) fn record(&self, key: &Key) -> Result<Option<Bytes>> {
        match self.writes.record(key) {
            Some(written) => Ok(written.cloned()),
            None => self.shared().get(key),
        }
    }

    pub(crate) fn put_record(&mut self, key: Key, record: Option<Bytes>) -> Result<()> {
        self.writes.put_record(key, record)
    }

    /// The state that enumerations and counts of this transaction see, and the moment by which entries have expired or not.
    pub(crate) fn snapshot(&mut self) -> Result<(Snapshot, WallTime)> {
        self.check_usable()?;
        let snapshot = match &self.snapshot {
            Some(taken) => Snapshot::clone(taken),
            None => {
                let taken = self.shared().read()?;
                self.snapshot = Some(Box::new(taken.clone()));
                taken
            }
        };
        Ok((snapshot, self.moment.get()))
    }

    /// Whether an entry is there for this transaction.
    #[inline]
    pub(crate) fn is_live(&self, entry: &Entry) -> bool {
        self.moment.is_live(entry)
    }
}

/// False if it is known that nothing was changed.
fn may_have_committed(outcome: &Result<SequenceNumber>) -> bool {
    outcome.as_ref().map_or_else(|error| matches!(error.kind(), ErrorKind::OutcomeUnknown | ErrorKind::Fatal), |_| true)
}

impl Drop for Transaction {
    fn drop(&mut self) {
        if self.refusal.is_none() {
            self.conclude(false);
        }
    }
}
