use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use mainstay_core::{Epoch, Error, ErrorKind, NodeId, PartitionId, Result, SequenceNumber, SetId};
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
use crate::role_state::{Role, RoleState};

/// There is one primary for as long as the node lives, and so one epoch.
const EPOCH: Epoch = Epoch(1);

/// The set of a node's partitions of level none: no log and no peers, a commit is an apply.
#[derive(Debug)]
pub(crate) struct LocalSet {
    id: SetId,
    store: MemoryStore,
    commit_bytes_max: usize,
    claims: Arc<Claims>,
    /// Kept from when the first follower came. Locked while the store is, if at all.
    history: Mutex<Option<History>>,
    /// There is a history. Changed while nothing is applied.
    followed: AtomicBool,
    /// Wakes those who follow.
    wake: Arc<Notify>,
    stopped: AtomicBool,
    lease: Arc<Lease>,
    participants: Arc<Participants>,
    role_state: watch::Sender<RoleState>,
}

/// Commits with their numbers, each as its encoded batches.
pub(crate) type LocalCommits = Vec<(SequenceNumber, Vec<Bytes>)>;

impl LocalSet {
    pub(crate) fn new(id: SetId, node: NodeId, commit_bytes_max: usize) -> Self {
        let role_state = RoleState { role: Role::Primary, epoch: EPOCH, primary: Some(node) };
        Self {
            id,
            store: MemoryStore::new(),
            commit_bytes_max,
            claims: Arc::default(),
            history: Mutex::new(None),
            followed: AtomicBool::new(false),
            wake: Arc::default(),
            stopped: AtomicBool::new(false),
            lease: Arc::new(Lease::unlimited(id, EPOCH)),
            participants: Arc::default(),
            role_state: watch::Sender::new(role_state),
        }
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

    pub(crate) fn claims(&self) -> &Arc<Claims> {
        &self.claims
    }

    /// The epoch, which ends with the set.
    ///
    /// # Errors
    /// `NotPrimary` after the set has stopped.
    #[inline]
    pub(crate) fn check(&self) -> Result<Epoch> {
        self.lease.check().ok_or_else(|| self.lease.refusal())
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
        self.admit(epoch.unwrap_or(EPOCH), bytes + objects.iter().map(object_put_bytes).sum::<usize>())?;
        let mut kept = None;
        let first = |number, objects: &[ObjectPut]| {
            kept = self.keep(number, bare, batches, objects)?;
            Ok(())
        };
        let number = if batches.is_empty() {
            self.store.append_objects(objects, first)?
        } else {
            self.store.append(|number| batches.iter().flat_map(move |batch| batch.stamped(number)), objects, first)?
        };
        self.tell(kept);
        Ok(SequenceNumber(number))
    }

    /// [`commit`](LocalSet::commit) of one object without notes.
    pub(crate) fn put(&self, partition: PartitionId, epoch: Epoch, put: ObjectPut) -> Result<SequenceNumber> {
        self.admit(epoch, object_put_bytes(&put))?;
        let mut kept = None;
        let first = |number, put: &ObjectPut| {
            kept = self.keep(number, &[partition], &[], std::slice::from_ref(put))?;
            Ok(())
        };
        let number = self.store.append_object(put, first)?;
        self.tell(kept);
        Ok(SequenceNumber(number))
    }

    /// Refuses a commit after the set has stopped, one of another epoch, or one that is too large.
    #[inline]
    fn admit(&self, epoch: Epoch, bytes: usize) -> Result<()> {
        self.check_running()?;
        if epoch != EPOCH {
            return Err(not_primary(self.id, self.role_state().primary));
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
        self.lease.end();
        self.role_state.send_replace(RoleState { role: Role::Secondary, primary: None, ..self.role_state() });
        self.wake.notify_waiters();
    }

    #[inline]
    fn check_running(&self) -> Result<()> {
        if self.stopped.load(Ordering::Acquire) { Err(stopped(self.id, "it was shut down")) } else { Ok(()) }
    }
}
