use std::any::Any;
use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use mainstay_core::Result;
use mainstay_core::time::{self, Duration, Instant};
use mainstay_replica::Key;
use smallvec::SmallVec;

use super::entry::{Entry, Wakers};
use super::held::{Held, HeldLock};
use super::holders::Holder;
use super::queue::Place;
use super::request::Request;
use super::sharers::StripeNumber;
use super::table::{LockTable, wake};
use super::timeout::LockTimeout;
use super::{LockMode, TransactionId};
use crate::layout::{self, CollectionId};

/// The longest that a request waits, whatever its limit: nobody needs a lock after an hour, and a wait without an end
/// hides the mistake that causes it.
const WAIT_MAX: Duration = Duration::from_secs(3600);

/// The locks of one transaction, in the table of what it shares with others. They are released when it is dropped.
pub(crate) struct LockOwner<T: AsRef<LockTable>> {
    shared: Arc<T>,
    id: TransactionId,
    held: Held,
    /// The collections that it shares without a lock of the table, as far as it knows: somebody may have barred that since.
    shares: SmallVec<[Share; 1]>,
    /// The time, if it was asked for since the operation began: one look at the clock is enough for all that is granted
    /// without waiting.
    now: Option<Instant>,
    /// It has barred those who share, and so must end that.
    bars: bool,
    /// The request that waits, while a future of [`acquire`](Self::acquire) lives. It is here and not in the future,
    /// so that one of a future that is forgotten instead of dropped is found by whatever the owner does next.
    pending: Option<Box<Pending>>,
}

/// A collection that is shared, and where its sharer is listed.
struct Share {
    collection: CollectionId,
    stripe: StripeNumber,
}

struct Pending {
    request: Request,
    place: Place,
}

impl<T: AsRef<LockTable>> LockOwner<T> {
    /// No two that live at the same time may have the same id.
    #[inline]
    pub(crate) fn new(shared: Arc<T>, id: TransactionId) -> Self {
        Self { shared, id, held: Held::default(), shares: SmallVec::new(), now: None, bars: false, pending: None }
    }

    /// What the table is part of.
    #[inline]
    pub(crate) fn shared(&self) -> &Arc<T> {
        &self.shared
    }

    #[inline]
    fn table(&self) -> &LockTable {
        (*self.shared).as_ref()
    }

    /// The transaction that holds these locks.
    pub(crate) fn id(&self) -> TransactionId {
        self.id
    }

    /// The mode in which a key is held.
    #[cfg(test)]
    pub(crate) fn holds(&self, key: &Key) -> Option<LockMode> {
        if self.shares.iter().any(|share| layout::length(share.collection) == *key) {
            return Some(LockMode::Shared);
        }
        self.held.get(self.table().hash(key), key).map(|lock| lock.mode)
    }

    /// Grants a lock at once or not at all. `key` is the exact key, with the collection in it.
    #[inline]
    pub(crate) fn try_acquire(&mut self, key: &Key, mode: LockMode) -> bool {
        if self.pending.is_some() {
            // Of a future that was forgotten.
            self.withdraw();
        }
        let hash = self.table().hash(key);
        let former = self.held.get(hash, key).map(|lock| lock.mode);
        if former.is_some_and(|former| former.covers(mode)) {
            return true;
        }
        let made = *self.now.get_or_insert_with(time::now);
        let request = Request { hash, key: key.clone(), id: self.id, mode, made, former };
        let granted = self.table().grant_or(&request, |_| ());
        if granted {
            self.note(request);
        }
        granted
    }

    /// Like [`try_acquire`](LockOwner::try_acquire) of a collection's key in shared mode: nearly everybody shares it, and whoever
    /// wants it in another mode calls [`bar`](LockOwner::bar) before.
    #[inline]
    pub(crate) fn try_share(&mut self, collection: CollectionId) -> bool {
        if self.pending.is_some() {
            self.withdraw();
        }
        if self.shares.iter().any(|share| share.collection == collection) {
            return true;
        }
        // Most transactions begin with it, and hold nothing.
        if self.held.len() == 0 || self.held_key(collection).is_none() {
            let since = *self.now.get_or_insert_with(time::now);
            if let Some(stripe) = self.table().share(collection, Holder { id: self.id, since }) {
                self.shares.push(Share { collection, stripe });
                return true;
            }
        }
        self.try_acquire(&layout::length(collection), LockMode::Shared)
    }

    /// The lock of a collection's key, if it is held in the table.
    fn held_key(&self, collection: CollectionId) -> Option<&HeldLock> {
        let key = layout::length(collection);
        self.held.get(self.table().hash(&key), &key)
    }

    /// To be called before a collection's key is wanted that others may [share](LockOwner::try_share). Holds until all locks
    /// are released.
    pub(crate) fn bar(&mut self) {
        if !self.bars {
            self.bars = true;
            self.table().bar();
            self.enter_table();
        }
    }

    /// Grants a lock, and waits for it if it must. `what` names the key for people, with its collection.
    ///
    /// Dropping the future at any moment leaves things as they were before the call.
    ///
    /// # Errors
    /// - `Retry`, with a [`Deadlock`](super::Deadlock) as its source: the wait would never end, because those that it is
    ///   for wait for this transaction. Nothing was changed. To let them go on, this owner must release its locks.
    /// - `Timeout`, with a [`LockTimeout`] as its source: `limit` passed. With a limit of zero nothing waits at all.
    pub(crate) async fn acquire(
        &mut self,
        key: &Key,
        mode: LockMode,
        limit: Duration,
        what: impl Fn() -> String + Send,
    ) -> Result<()> {
        if self.try_acquire(key, mode) {
            return Ok(());
        }
        self.wait(key, mode, limit.min(WAIT_MAX), what()).await
    }

    /// Begins an operation: what it locks is locked now, and not when the one before it was.
    #[inline]
    pub(crate) fn start_operation(&mut self) {
        self.now = None;
    }

    /// Releases everything.
    #[inline]
    pub(crate) fn release_all(&mut self) {
        if self.pending.is_some() {
            self.withdraw();
        }
        for share in &self.shares {
            self.table().unshare(share.stripe, share.collection, self.id);
        }
        self.shares.clear();
        for lock in self.held.iter() {
            self.table().release(lock.hash, &lock.key, self.id);
        }
        self.held.clear();
        if self.bars {
            self.bars = false;
            self.table().unbar();
        }
    }

    async fn wait(&mut self, key: &Key, mode: LockMode, limit: Duration, resource: String) -> Result<()> {
        self.enter_table();
        let hash = self.table().hash(key);
        let former = self.held.get(hash, key).map(|lock| lock.mode);
        let request = Request { hash, key: key.clone(), id: self.id, mode, made: time::now(), former };
        // What is granted after this one is granted at another time.
        self.now = None;
        if limit.is_zero() {
            return self.refuse(request, resource);
        }
        let told = self.table().calls().map(|_| resource.clone());
        if self.begin(request, resource)? {
            return Ok(());
        }
        let _wait = match told.map_or(Ok(None), |resource| self.tell_wait(&resource)) {
            Ok(wait) => wait,
            Err(error) => {
                self.withdraw();
                return Err(error);
            }
        };
        let shared = self.shared.clone();
        let mut waiting = Waiting { owner: self };
        // If the limit passes while the lock is granted, `end` finds the lock.
        let _ = (*shared).as_ref().home().timeout(limit, poll_fn(|context| waiting.poll(context))).await;
        waiting.end(limit)
    }

    /// Tells of the request that waits, and is refused if that is for itself, by what the table does not know.
    fn tell_wait(&self, resource: &str) -> Result<Option<Box<dyn Any + Send>>> {
        let (Some(calls), Some(pending)) = (self.table().calls(), &self.pending) else { return Ok(None) };
        let Request { hash, key, mode, .. } = &pending.request;
        let blockers = |entry: &mut Entry| entry.blockers(pending.place, self.id, *mode);
        let blockers = self.table().with_entry(*hash, key, blockers).unwrap_or_default();
        calls.waits(&blockers, resource)
    }

    /// Whoever waits can be waited for: all that it holds is in the table.
    fn enter_table(&mut self) {
        let table: &LockTable = (*self.shared).as_ref();
        for Share { collection, stripe } in self.shares.drain(..) {
            table.enter(stripe, collection, self.id);
            let key = layout::length(collection);
            self.held.push(HeldLock { hash: table.hash(&key), key, mode: LockMode::Shared });
        }
    }

    /// Grants a lock, or says what is in the way.
    fn refuse(&mut self, request: Request, resource: String) -> Result<()> {
        let mut refusal = None;
        let granted = self.table().grant_or(&request, |entry| {
            refusal = Some(LockTimeout::new(entry, &request, None, Duration::ZERO, time::now()));
        });
        match refusal.filter(|_| !granted) {
            Some(refusal) => Err(refusal.into_error(resource)),
            None => {
                self.note(request);
                Ok(())
            }
        }
    }

    /// Grants a lock, and is true, or begins to wait for it. Refuses if the wait closes a circle.
    ///
    /// All of it happens under the lock of the waits, so that of two requests that close a circle together one is the
    /// later one, and sees the other.
    fn begin(&mut self, request: Request, resource: String) -> Result<bool> {
        let mut waits = self.table().waits();
        let place = waits.add(&request, resource);
        if self.table().grant_or(&request, |entry| entry.enqueue(place, request.id, request.mode)) {
            waits.remove(self.id);
            drop(waits);
            self.note(request);
            return Ok(true);
        }
        let deadlock = waits.find_deadlock(self.table(), self.id, &self.held);
        drop(waits);
        self.pending = Some(Box::new(Pending { request, place }));
        match deadlock {
            None => Ok(false),
            Some(deadlock) => {
                self.withdraw();
                Err(deadlock.into_error())
            }
        }
    }

    /// Takes back the request that waits, if there is one, or what it was granted and nobody has heard of.
    #[cold]
    fn withdraw(&mut self) {
        let Some(pending) = self.pending.take() else { return };
        let Pending { request, place } = *pending;
        let mut waits = self.table().waits();
        let wakers =
            self.table().change(request.hash, &request.key, |entry| entry.withdraw(place, self.id, request.former));
        waits.remove(self.id);
        drop(waits);
        wake(wakers);
    }

    /// Notes what was granted.
    #[inline]
    fn note(&mut self, request: Request) {
        let Request { hash, key, mode, former, .. } = request;
        if former.is_none() {
            self.held.push(HeldLock { hash, key, mode });
        } else if let Some(lock) = self.held.get_mut(hash, &key) {
            lock.mode = mode;
        }
    }
}

impl<T: AsRef<LockTable>> Drop for LockOwner<T> {
    fn drop(&mut self) {
        self.release_all();
    }
}

impl<T: AsRef<LockTable>> fmt::Debug for LockOwner<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockOwner").field("id", &self.id).field("held", &self.held.len()).finish_non_exhaustive()
    }
}

/// A request in the queue. Whoever drops it leaves the queue.
struct Waiting<'a, T: AsRef<LockTable>> {
    owner: &'a mut LockOwner<T>,
}

impl<T: AsRef<LockTable>> Waiting<'_, T> {
    fn poll(&mut self, context: &Context<'_>) -> Poll<()> {
        let Some(pending) = &self.owner.pending else { return Poll::Ready(()) };
        let Request { hash, key, .. } = &pending.request;
        let looked = self.owner.table().with_entry(*hash, key, |entry| entry.poll(pending.place, context));
        // The old waker is dropped here, where no lock is held.
        looked.map_or(Poll::Ready(()), |(poll, _waker)| poll)
    }

    /// Takes what was granted, or gives up.
    fn end(self, limit: Duration) -> Result<()> {
        let owner = &mut *self.owner;
        let Some(pending) = owner.pending.take() else { return Ok(()) };
        let Pending { request, place } = *pending;
        let mut refusal = None;
        let mut waits = owner.table().waits();
        let wakers = owner.table().change(request.hash, &request.key, |entry| {
            if !entry.is_waiting(place) {
                return Wakers::new();
            }
            refusal = Some(LockTimeout::new(entry, &request, Some(place), limit, time::now()));
            entry.withdraw(place, owner.id, request.former)
        });
        let resource = waits.remove(owner.id);
        drop(waits);
        wake(wakers);
        match refusal {
            Some(refusal) => Err(refusal.into_error(resource)),
            None => {
                owner.note(request);
                Ok(())
            }
        }
    }
}

impl<T: AsRef<LockTable>> Drop for Waiting<'_, T> {
    fn drop(&mut self) {
        // Nothing is left to be taken back after `end`.
        self.owner.withdraw();
    }
}
