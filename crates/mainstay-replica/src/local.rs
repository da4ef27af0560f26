use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use mainstay_core::{Epoch, Error, ErrorKind, PartitionId, Result, SequenceNumber, SetId, task};
use mainstay_store::state::{Counts, MemoryStore, StateStore as _, WriteBatch};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use crate::changes::too_old;
use crate::claim::Claims;
use crate::committer::{not_primary, stopped, too_large};
use crate::history::{History, Kept};
use crate::lease::Lease;
use crate::notify_wait::NotifyWait;
use crate::object_put::{ObjectPut, ObjectPuts, object_put_bytes};
use crate::quiescence::Participants;
use crate::replica::Replica;
use crate::role_state::{Role, RoleState};

/// In the place of an epoch: none. No set comes that far.
const NONE: u64 = u64::MAX;

/// The set of a node's partitions of level none: no log and no peers, a commit is an apply.
///
/// It follows the role of the persisted set of its number: one node has it, in the epoch of that set. Its memory belongs to the
/// epoch, and is dropped when the role goes: another node begins with nothing, and so does this one when the role comes back.
#[derive(Debug)]
pub(crate) struct LocalSet {
    id: SetId,
    store: MemoryStore,
    commit_bytes_max: usize,
    /// Those of the epoch: what is left of an earlier one is in nobody's way.
    claims: Mutex<Arc<Claims>>,
    /// The epoch that the memory belongs to, or `NONE`. Changed while nothing is applied.
    epoch: AtomicU64,
    /// Kept from when the first follower came. Locked while the store is, if at all.
    history: Mutex<Option<History>>,
    /// There is a history. Changed while nothing is applied.
    followed: AtomicBool,
    /// Wakes those who follow.
    wake: Arc<Notify>,
    stopped: AtomicBool,
    /// Those of the replica that it follows.
    lease: Arc<Lease>,
    participants: Arc<Participants>,
    role_state: watch::Sender<RoleState>,
}

/// Commits with their numbers, each as its encoded batches.
pub(crate) type LocalCommits = Vec<(SequenceNumber, Vec<Bytes>)>;

impl LocalSet {
    /// The set that follows a replica, from now on and for as long as both are there.
    pub(crate) fn following(id: SetId, replica: &Replica, commit_bytes_max: usize) -> Arc<Self> {
        let local = Arc::new(Self {
            id,
            store: MemoryStore::new(),
            commit_bytes_max,
            claims: Mutex::default(),
            epoch: AtomicU64::new(NONE),
            history: Mutex::new(None),
            followed: AtomicBool::new(false),
            wake: Arc::default(),
            stopped: AtomicBool::new(false),
            lease: replica.inner.role_tracker.lease().clone(),
            participants: replica.inner.participants.clone(),
            role_state: watch::Sender::new(RoleState::unknown()),
        });
        local.turn_to(replica.role_state());
        let (follower, mut role_state) = (Arc::downgrade(&local), replica.watch());
        task::spawn(async move {
            loop {
                let now = *role_state.borrow_and_update();
                let Some(local) = follower.upgrade() else { return };
                local.turn_to(now);
                drop(local);
                if role_state.changed().await.is_err() {
                    return;
                }
            }
        });
        local
    }

    /// Takes the role of the replica on. With another epoch there is another memory, which is empty.
    fn turn_to(&self, next: RoleState) {
        if self.stopped.load(Ordering::Acquire) {
            return;
        }
        let epoch = if next.role == Role::Primary { next.epoch.0 } else { NONE };
        if self.epoch.load(Ordering::Acquire) != epoch {
            // Whoever watches the role hears of its end before its memory is gone.
            if epoch == NONE {
                self.role_state.send_if_modified(|role_state| std::mem::replace(role_state, next) != next);
            }
            self.forget(epoch);
        }
        self.role_state.send_if_modified(|role_state| std::mem::replace(role_state, next) != next);
    }

    /// Drops the memory of the epoch before, and begins the next.
    fn forget(&self, epoch: u64) {
        let begin = || {
            self.epoch.store(epoch, Ordering::Release);
            *self.history.lock() = None;
            self.followed.store(false, Ordering::Relaxed);
        };
        if self.commits() == 0 {
            // Nothing is applied meanwhile.
            self.store.at_mark(|_| begin());
        } else {
            let mut everything = WriteBatch::new();
            everything.delete_range(b"", None);
            let emptied = self.store.append(
                |number| everything.stamped(number),
                ObjectPuts::new(),
                |_, _| {
                    begin();
                    Ok(())
                },
            );
            if let Err(error) = emptied {
                // There is no number left for a commit, after more of them than a machine makes in its life: the role is refused.
                self.epoch.store(NONE, Ordering::Release);
                tracing::error!(set = %self.id, %error, "the memory of an epoch could not be dropped; its partitions are not served");
            }
        }
        *self.claims.lock() = Arc::default();
        self.wake.notify_waiters();
    }

    pub(crate) fn id(&self) -> SetId {
        self.id
    }

    pub(crate) fn commit_bytes_max(&self) -> usize {
        self.commit_bytes_max
    }

    pub(crate) fn store(&self) -> &MemoryStore {
        &self.store
    }

    pub(crate) fn claims(&self) -> Arc<Claims> {
        self.claims.lock().clone()
    }

    /// The epoch, if this node has the role at this moment.
    ///
    /// # Errors
    /// `NotPrimary` without role or lease.
    #[inline]
    pub(crate) fn check(&self) -> Result<Epoch> {
        let epoch = Epoch(self.epoch.load(Ordering::Acquire));
        if self.is_held_in(epoch) { Ok(epoch) } else { Err(self.not_primary()) }
    }

    /// True if this node has the role in the epoch at this moment.
    #[inline]
    fn is_held_in(&self, epoch: Epoch) -> bool {
        epoch.0 != NONE && self.lease.is_held_in(epoch)
    }

    #[cold]
    fn not_primary(&self) -> Error {
        let RoleState { role, primary, .. } = self.role_state();
        not_primary(self.id, primary.filter(|_| role != Role::Primary))
    }

    pub(crate) fn participants(&self) -> &Arc<Participants> {
        &self.participants
    }

    pub(crate) fn lease(&self) -> &Arc<Lease> {
        &self.lease
    }

    /// How many commits there were.
    pub(crate) fn commits(&self) -> u64 {
        self.store.at_mark(|mark| mark.index)
    }

    /// How much it holds.
    pub(crate) fn counts(&self) -> Counts {
        self.store.checkpointed_counts()
    }

    pub(crate) fn role_state(&self) -> RoleState {
        *self.role_state.borrow()
    }

    pub(crate) fn watch(&self) -> watch::Receiver<RoleState> {
        self.role_state.subscribe()
    }

    /// Applies batches as one, and what keeps objects behind them. `bare` are the partitions of which it comes without
    /// notes, and must not if they are [wanted](LocalSet::want_notes).
    pub(crate) fn commit(
        &self,
        batches: &[WriteBatch],
        objects: ObjectPuts,
        epoch: Option<Epoch>,
        bare: &[PartitionId],
    ) -> Result<SequenceNumber> {
        let bytes = batches.iter().map(WriteBatch::bytes).sum::<usize>();
        let epoch = epoch.unwrap_or_else(|| Epoch(self.epoch.load(Ordering::Acquire)));
        self.admit(epoch, bytes + objects.iter().map(object_put_bytes).sum::<usize>())?;
        let mut kept = None;
        let first = |number, objects: &[ObjectPut]| {
            self.check_memory(epoch)?;
            kept = self.keep(number, bare, batches, objects)?;
            Ok(())
        };
        let number = if batches.is_empty() {
            self.store.append_objects(objects, first)?
        } else {
            self.store.append(|number| batches.iter().flat_map(move |batch| batch.stamped(number)), objects, first)?
        };
        self.tell(kept);
        self.acknowledge(epoch, number)
    }

    /// [`commit`](LocalSet::commit) of one object without notes.
    pub(crate) fn put(&self, partition: PartitionId, epoch: Epoch, put: ObjectPut) -> Result<SequenceNumber> {
        self.admit(epoch, object_put_bytes(&put))?;
        let mut kept = None;
        let first = |number, put: &ObjectPut| {
            self.check_memory(epoch)?;
            kept = self.keep(number, &[partition], &[], std::slice::from_ref(put))?;
            Ok(())
        };
        let number = self.store.append_object(put, first)?;
        self.tell(kept);
        self.acknowledge(epoch, number)
    }

    /// Refuses a commit into the memory of another epoch. To be called while nothing else is applied.
    #[inline]
    fn check_memory(&self, epoch: Epoch) -> Result<()> {
        if self.epoch.load(Ordering::Relaxed) == epoch.0 { Ok(()) } else { Err(self.not_primary()) }
    }

    /// Says that a commit has happened, unless another node may have the role by now.
    #[inline]
    fn acknowledge(&self, epoch: Epoch, number: u64) -> Result<SequenceNumber> {
        if self.lease.is_held_in(epoch) { Ok(SequenceNumber(number)) } else { Err(self.outcome_unknown()) }
    }

    #[cold]
    fn outcome_unknown(&self) -> Error {
        Error::new(
            ErrorKind::OutcomeUnknown,
            format!(
                "this node stopped being primary of set {} while it committed: the change is gone with the role, or stays if the \
                 role does; read before you write it again",
                self.id
            ),
        )
    }

    /// Refuses a commit after the set has stopped, one without the role in its epoch, or one that is too large.
    #[inline]
    fn admit(&self, epoch: Epoch, bytes: usize) -> Result<()> {
        if !self.is_held_in(epoch) {
            self.check_running()?;
            return Err(self.not_primary());
        }
        if bytes > self.commit_bytes_max {
            return Err(too_large(bytes, self.commit_bytes_max));
        }
        Ok(())
    }

    /// Keeps a commit if somebody follows, before anybody else applies something, and returns what is forgotten for it.
    /// Refuses one that is `bare` where notes are wanted.
    #[inline]
    fn keep(
        &self,
        number: u64,
        bare: &[PartitionId],
        batches: &[WriteBatch],
        objects: &[ObjectPut],
    ) -> Result<Option<Vec<Kept>>> {
        if !self.followed.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let mut history = self.history.lock();
        let Some(history) = history.as_mut() else { return Ok(None) };
        if let Some(partition) = bare.iter().find(|partition| history.wants_notes(**partition)) {
            return Err(Error::new(
                ErrorKind::Retry,
                format!("somebody who follows partition {partition} wants notes: commit it again with them"),
            ));
        }
        Ok(Some(history.push(SequenceNumber(number), batches, objects)))
    }

    /// Tells those who follow of a commit that was kept. What was forgotten for it is dropped here, where nothing is locked.
    #[inline]
    fn tell(&self, kept: Option<Vec<Kept>>) {
        if kept.is_some() {
            self.wake.notify_waiters();
        }
    }

    /// Sees to it that what comes after a commit can be followed, from now on and as far as is known.
    ///
    /// # Errors
    /// `TooOld` if some of it is gone, `Invalid` for a number that no commit has yet, `Fatal` after the set has stopped.
    pub(crate) fn follow(&self, after: SequenceNumber) -> Result<()> {
        self.check_running()?;
        self.store.at_mark(|mark| {
            let last = SequenceNumber(mark.index);
            if after > last {
                return Err(Error::invalid(format!(
                    "cannot follow set {} after {}: its last commit is {}; numbers of an earlier run of the node mean \
                     nothing now",
                    self.id, after.0, last.0
                )));
            }
            self.with_history(
                last,
                |history| {
                    if after < history.before() { Err(too_old(self.id, after)) } else { Ok(()) }
                },
            )
        })
    }

    /// Sees to it that no commit of a partition comes without notes any more, and returns the number after which that is so.
    ///
    /// # Errors
    /// `Fatal` after the set has stopped.
    pub(crate) fn want_notes(&self, partition: PartitionId) -> Result<SequenceNumber> {
        self.check_running()?;
        // Nothing is applied meanwhile, so that every commit was applied before or is looked at when it is.
        Ok(self.store.at_mark(|mark| {
            let last = SequenceNumber(mark.index);
            self.with_history(last, |history| history.want_notes(partition, last))
        }))
    }

    /// The history, which begins after the last commit if there is none. Nothing may be applied meanwhile.
    fn with_history<T>(&self, last: SequenceNumber, use_it: impl FnOnce(&mut History) -> T) -> T {
        self.followed.store(true, Ordering::Relaxed);
        use_it(self.history.lock().get_or_insert_with(|| History::after(last)))
    }

    /// A wait for commits that can be followed, and for the end of the set.
    pub(crate) fn wait(&self) -> NotifyWait {
        NotifyWait::new(self.wake.clone())
    }

    /// The commits after a number, as many as `bytes_max` allows but at least one if there is one.
    ///
    /// # Errors
    /// `TooOld` if some of them are gone, `Fatal` after the set has stopped.
    pub(crate) fn commits_after(&self, after: SequenceNumber, bytes_max: usize) -> Result<LocalCommits> {
        self.check_running()?;
        let guard = self.history.lock();
        let Some(history) = guard.as_ref().filter(|history| history.before() <= after) else {
            return Err(too_old(self.id, after));
        };
        let kept: Vec<Kept> = history.since(after, bytes_max).cloned().collect();
        drop(guard);
        kept.into_iter().map(|kept| Ok((kept.number, kept.into_batches()?))).collect()
    }

    /// Ends the role, commits and those who follow: the node stops.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        self.store.at_mark(|_| self.epoch.store(NONE, Ordering::Release));
        self.role_state.send_replace(RoleState { role: Role::Secondary, primary: None, ..self.role_state() });
        self.wake.notify_waiters();
    }

    #[inline]
    fn check_running(&self) -> Result<()> {
        if self.stopped.load(Ordering::Acquire) { Err(stopped(self.id, "it was shut down")) } else { Ok(()) }
    }
}
