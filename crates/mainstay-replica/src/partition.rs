use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

use bytes::{Buf as _, Bytes};
use mainstay_core::{Epoch, Error, ErrorKind, Level, PartitionId, Result, SequenceNumber, SetId};
use mainstay_store::state::{Held, Key, KeyRange, Mark, Object, Order, Scan, StateSnapshot, StateStore, WriteBatch};
use smallvec::smallvec;
use tokio::sync::watch;

use crate::changes::Changes;
use crate::claim::Claim;
use crate::command::{BATCHES_PER_COMMIT_MAX, last_sequence_number};
use crate::committer::Commit;
use crate::lease::EpochLease;
use crate::local::LocalSet;
use crate::object_put::{ObjectPuts, object_put_bytes};
use crate::quiescence::Quiescence;
use crate::replica::Replica;
use crate::role_state::RoleState;

/// A partition, as the rooms above see it: commit, read, follow the role. Cheap to clone.
///
/// Keys are the partition's own: partitions that share a replica set do not see each other. All that is common to the set
/// is the order of commits, and that commits of several partitions can be [one](Partition::commit_together).
#[derive(Clone)]
pub struct Partition {
    id: PartitionId,
    backing: Backing,
}

#[derive(Clone)]
enum Backing {
    Replicated(Replica),
    Local(Arc<LocalSet>),
}

impl fmt::Debug for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Partition({} in {})", self.id, self.set())
    }
}

/// Changes to one partition that are committed together.
#[derive(Clone)]
pub struct Batch {
    set: SetId,
    partition: PartitionId,
    /// Made for the first of them.
    writes: Option<WriteBatch>,
    /// Of a partition of level none alone.
    objects: ObjectPuts,
    epoch: Option<Epoch>,
    is_bare: bool,
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Batch({} in {}, {} objects, {:?})", self.partition, self.set, self.objects.len(), self.writes)
    }
}

impl Batch {
    fn writes(&mut self) -> &mut WriteBatch {
        let prefix = prefix(self.partition);
        self.writes.get_or_insert_with(|| WriteBatch::with_prefix(&prefix))
    }

    fn into_writes(mut self) -> WriteBatch {
        self.writes();
        self.writes.unwrap_or_default()
    }

    /// Sets a key.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> &mut Self {
        self.writes().put(key, value);
        self
    }

    /// Sets a key; key and value are given in parts that are put together here, so that nobody has to do so before.
    pub fn put_parts(&mut self, key: &[&[u8]], value: &[&[u8]]) -> &mut Self {
        self.writes().put_parts(key, value);
        self
    }

    /// Sets a key to an object. On level none the object itself is kept, and [`Partition::held`] returns it; then it comes after
    /// all other changes of the batch.
    ///
    /// # Errors
    /// On other levels, what encoding it fails with.
    pub fn put_object(&mut self, key: &[u8], object: Object) -> Result<&mut Self> {
        if self.set.level != Level::None {
            return Ok(self.put(key, &object.to_bytes()?));
        }
        self.objects.push((Key::concat(&[&prefix(self.partition), key]), object));
        Ok(self)
    }

    /// Removes a key; one that is not there is fine.
    pub fn delete(&mut self, key: &[u8]) -> &mut Self {
        self.writes().delete(key);
        self
    }

    /// Removes all keys from `start` and before `end`; to the end of the partition if that is `None`.
    pub fn delete_range(&mut self, start: &[u8], end: Option<&[u8]>) -> &mut Self {
        self.writes().delete_range(start, end);
        self
    }

    /// Adds to a counter: a value of 8 bytes, `i64` little-endian. One that is not there is 0, one that becomes 0 is removed,
    /// and a sum stops at the ends of `i64`. Commits that are under way at the same time all count.
    ///
    /// A counter's key is for counters alone. Where it has a value of another length the commit is refused as `Invalid`, and
    /// nothing of it happens.
    pub fn add(&mut self, key: &[u8], delta: i64) -> &mut Self {
        self.writes().add(key, delta);
        self
    }

    /// Sets the key that is `start`, the sequence number of this commit as 8 bytes big-endian, and `end`. So keys are in
    /// the order of commits, whoever made them; the number is the one that [`Partition::commit`] returns.
    ///
    /// Two in one commit with the same start and end are the same key.
    pub fn put_stamped(&mut self, start: &[u8], end: &[u8], value: &[u8]) -> &mut Self {
        self.writes().put_stamped(start, end, value);
        self
    }

    /// Leaves a message for those who follow the commits; it changes nothing.
    pub fn note(&mut self, note: &[u8]) -> &mut Self {
        self.writes().note(note);
        self
    }

    /// Leaves out the notes that it would have, on level none: the commit is refused with `Retry` if they are
    /// [wanted](Partition::want_notes) by then.
    pub fn without_notes(&mut self) -> &mut Self {
        self.is_bare = true;
        self
    }

    /// Commits only in this epoch: whoever read under one primary does not write under another.
    pub fn in_epoch(&mut self, epoch: Epoch) -> &mut Self {
        self.epoch = Some(epoch);
        self
    }

    /// The bytes that this adds to the log.
    pub fn bytes(&self) -> usize {
        let writes = self.writes.as_ref().map_or(0, WriteBatch::bytes);
        writes + self.objects.iter().map(object_put_bytes).sum::<usize>()
    }
}

impl Partition {
    pub(crate) fn replicated(id: PartitionId, replica: Replica) -> Self {
        Self { id, backing: Backing::Replicated(replica) }
    }

    pub(crate) fn local(id: PartitionId, set: Arc<LocalSet>) -> Self {
        Self { id, backing: Backing::Local(set) }
    }

    /// Which partition this is.
    pub fn id(&self) -> PartitionId {
        self.id
    }

    /// The replica set that it lives in.
    pub fn set(&self) -> SetId {
        match &self.backing {
            Backing::Replicated(replica) => replica.inner.identity.set,
            Backing::Local(local) => local.id(),
        }
    }

    /// How its state is kept.
    pub fn level(&self) -> Level {
        self.set().level
    }

    /// How many bytes a commit may add to the log; a larger one is `TooLarge`.
    pub fn commit_bytes_max(&self) -> usize {
        match &self.backing {
            Backing::Replicated(replica) => replica.inner.committer.commit_bytes_max(),
            Backing::Local(local) => local.commit_bytes_max(),
        }
    }

    /// Takes the right to be the only one in this process who keeps locks and values of the partition in memory.
    ///
    /// # Errors
    /// `Conflict` if somebody has it.
    pub fn claim(&self) -> Result<Claim> {
        match &self.backing {
            Backing::Replicated(replica) => replica.inner.claims.claim(self.id),
            Backing::Local(local) => local.claims().claim(self.id),
        }
    }

    /// An empty batch for this partition.
    pub fn batch(&self) -> Batch {
        Batch {
            set: self.set(),
            partition: self.id,
            writes: None,
            objects: ObjectPuts::new(),
            epoch: None,
            is_bare: false,
        }
    }

    /// Commits a batch. When this returns, the commit is durable by the partition's level (on disk, or in memory, of a
    /// quorum of replicas), applied here, and at its place in the order of the set.
    ///
    /// Dropping the future may or may not take the commit back: one that still waits to be proposed is left out, one that is
    /// under way goes on.
    ///
    /// # Errors
    /// `NotPrimary`, `Overloaded`, `TooLarge`, `Invalid`: nothing was changed. `Invalid` for a batch of another partition, and
    /// for one that [adds](Batch::add) to a value that is no counter. `OutcomeUnknown`: it may or may not have happened.
    pub async fn commit(&self, batch: Batch) -> Result<SequenceNumber> {
        match &self.backing {
            Backing::Local(_) => self.commit_at_once(batch),
            Backing::Replicated(replica) => {
                self.owns(&batch)?;
                let epoch = batch.epoch;
                replica.commit(Commit { batches: smallvec![batch.into_writes()], epoch }).await
            }
        }
    }

    /// [`commit`](Partition::commit) of a partition of level none, which waits for nobody.
    ///
    /// # Errors
    /// As [`commit`](Partition::commit); `Invalid` on any other level.
    pub fn commit_at_once(&self, batch: Batch) -> Result<SequenceNumber> {
        self.owns(&batch)?;
        match &self.backing {
            Backing::Local(local) => {
                let bare = batch.is_bare.then_some(self.id);
                local.commit(batch.writes.as_slice(), batch.objects, batch.epoch, bare.as_slice())
            }
            Backing::Replicated(_) => Err(self.takes_time()),
        }
    }

    /// [`commit_at_once`](Partition::commit_at_once) of a batch that sets one key to an object in an epoch, and does nothing else:
    /// what most transactions in memory do.
    ///
    /// # Errors
    /// As [`commit_at_once`](Partition::commit_at_once) of a batch [without notes](Batch::without_notes).
    pub fn put_at_once(&self, epoch: Epoch, key: &[u8], object: Object) -> Result<SequenceNumber> {
        match &self.backing {
            Backing::Local(local) => local.put(self.id, epoch, (Key::concat(&[&prefix(self.id), key]), object)),
            Backing::Replicated(_) => Err(self.takes_time()),
        }
    }

    #[cold]
    fn takes_time(&self) -> Error {
        let (id, level) = (self.id, self.level());
        Error::invalid(format!(
            "partition {id} is of level {level}, where a commit takes time: wait for it with `commit`"
        ))
    }

    /// Commits batches of several partitions of this partition's set as one: all of it or none.
    ///
    /// # Errors
    /// As [`commit`](Partition::commit); `Invalid` if a batch is of another set or there is none.
    pub async fn commit_together(&self, batches: Vec<Batch>) -> Result<SequenceNumber> {
        if let Some(other) = batches.iter().find(|batch| batch.set != self.set()) {
            return Err(Error::invalid(format!(
                "partition {} is in set {}, not in {}: only partitions of one set can be committed together",
                other.partition,
                other.set,
                self.set()
            )));
        }
        if batches.is_empty() {
            return Err(Error::invalid("there is nothing to commit: give at least one batch"));
        }
        if batches.len() > BATCHES_PER_COMMIT_MAX {
            let text = format!("{} batches exceed the {BATCHES_PER_COMMIT_MAX} of a commit: split it", batches.len());
            return Err(Error::new(ErrorKind::TooLarge, text));
        }
        let epochs = batches.iter().filter_map(|batch| batch.epoch);
        let epoch = epochs.clone().max();
        if epochs.min() != epoch {
            return Err(Error::invalid("the batches were made in different epochs: read again and retry"));
        }
        match &self.backing {
            Backing::Local(local) => {
                let (mut writes, mut objects) = (Vec::with_capacity(batches.len()), ObjectPuts::new());
                let bare: Vec<PartitionId> = batches.iter().filter(|b| b.is_bare).map(|b| b.partition).collect();
                for batch in batches {
                    objects.extend(batch.objects);
                    writes.extend(batch.writes);
                }
                local.commit(&writes, objects, epoch, &bare)
            }
            Backing::Replicated(replica) => {
                let batches = batches.into_iter().map(Batch::into_writes).collect();
                replica.commit(Commit { batches, epoch }).await
            }
        }
    }

    fn owns(&self, batch: &Batch) -> Result<()> {
        if batch.partition == self.id && batch.set == self.set() {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "the batch is for partition {} of set {}, this is {} of {}: commit it there",
            batch.partition,
            batch.set,
            self.id,
            self.set()
        )))
    }

    /// The state as of now, with everything that was acknowledged by anybody before this call. Served by the primary
    /// under its lease, without asking the others.
    ///
    /// # Errors
    /// `NotPrimary` without role or lease.
    pub fn read(&self) -> Result<Snapshot> {
        // The lease is looked at afterwards: before, it could end while the state is looked at.
        let state = self.store().snapshot()?;
        let epoch = self.check()?;
        Ok(self.snapshot_of(state, epoch))
    }

    /// The value of a key as of now; like [`read`](Partition::read) for a single key.
    ///
    /// # Errors
    /// `NotPrimary` without role or lease.
    pub fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        let value = with_full_key(self.id, key, |full| self.store().get(full))?;
        self.check()?;
        Ok(value)
    }

    /// Like [`get`](Partition::get), with the [object](Batch::put_object) if the value was written as one and is kept so.
    ///
    /// # Errors
    /// `NotPrimary` without role or lease.
    pub fn held(&self, key: &[u8]) -> Result<Option<Held>> {
        match &self.backing {
            Backing::Local(local) => {
                let held = with_full_key(self.id, key, |full| local.store().held(full));
                local.check()?;
                Ok(held)
            }
            Backing::Replicated(_) => Ok(self.get(key)?.map(Held::Bytes)),
        }
    }

    /// What the objects of all partitions of this one's set count for in memory: twice the bytes that they are encoded to, and
    /// a fixed amount for each.
    pub fn object_bytes(&self) -> u64 {
        match &self.backing {
            Backing::Local(local) => local.store().object_bytes(),
            Backing::Replicated(_) => 0,
        }
    }

    /// The state that this replica has applied, on any replica. On a secondary it may lag behind.
    ///
    /// # Errors
    /// `Corrupt` or `Fatal` if the store cannot be read.
    pub fn snapshot(&self) -> Result<Snapshot> {
        Ok(self.snapshot_of(self.store().snapshot()?, self.role_state().epoch))
    }

    /// Follows the commits after a number, on any replica, as they are applied there. With the number of a
    /// [snapshot](Snapshot::sequence_number), what follows is all that is not in it.
    ///
    /// A number that is not reached yet is waited for, because this replica may lag behind. Level none keeps the last 4 MiB
    /// of commits from when it was first followed; so its first follower may be told `TooOld`, and works with the next
    /// snapshot.
    ///
    /// # Errors
    /// `TooOld` if the log no longer has what follows: take a snapshot and follow from its number. `Invalid` for a number that
    /// no commit has yet on level none, where nothing lags behind. `Fatal` if the replica has stopped.
    pub fn changes(&self, after: SequenceNumber) -> Result<Changes> {
        match &self.backing {
            Backing::Replicated(replica) => {
                let inner = &replica.inner;
                Changes::of_log(self.id, inner.identity.set, inner.log.clone(), inner.progress.clone(), after)
            }
            Backing::Local(local) => Changes::of_local(self.id, local.clone(), after),
        }
    }

    /// From now on no commit comes [without notes](Batch::without_notes) to this partition of level none, which keeps no log
    /// that could be read later. Returns the number after which that is so, now or since it was first asked for. Those after
    /// it can be [followed](Partition::changes), as far as they are kept.
    ///
    /// # Errors
    /// `Invalid` on any other level; `Fatal` if the node has stopped.
    pub fn want_notes(&self) -> Result<SequenceNumber> {
        match &self.backing {
            Backing::Local(local) => local.want_notes(self.id),
            Backing::Replicated(_) => Err(Error::invalid(format!(
                "partition {} is of level {}, where a log has all notes: leave them in",
                self.id,
                self.level()
            ))),
        }
    }

    /// The epoch, if this replica is primary and its lease holds at this moment.
    ///
    /// # Errors
    /// `NotPrimary` without role or lease.
    pub fn check(&self) -> Result<Epoch> {
        match &self.backing {
            Backing::Replicated(replica) => replica.inner.role_tracker.check(),
            Backing::Local(local) => local.check(),
        }
    }

    /// The right to answer in an epoch, for those who answer from memory: what an answer is made from is read first, and the
    /// lease is checked afterwards.
    pub fn lease(&self, epoch: Epoch) -> EpochLease {
        let lease = match &self.backing {
            Backing::Replicated(replica) => replica.inner.role_tracker.lease(),
            Backing::Local(local) => local.lease(),
        };
        EpochLease::new(lease.clone(), epoch)
    }

    /// Takes part in the hand-overs of its role: whoever has work on the partition lets it end before the role moves.
    pub fn quiescence(&self) -> Quiescence {
        match &self.backing {
            Backing::Replicated(replica) => replica.inner.participants.join(),
            Backing::Local(local) => local.participants().join(),
        }
    }

    /// The role and epoch at this moment.
    pub fn role_state(&self) -> RoleState {
        match &self.backing {
            Backing::Replicated(replica) => replica.role_state(),
            Backing::Local(local) => local.role_state(),
        }
    }

    /// Follows the role and epoch.
    pub fn watch(&self) -> watch::Receiver<RoleState> {
        match &self.backing {
            Backing::Replicated(replica) => replica.watch(),
            Backing::Local(local) => local.watch(),
        }
    }

    fn store(&self) -> &dyn StateStore {
        match &self.backing {
            Backing::Replicated(replica) => &*replica.inner.store,
            Backing::Local(local) => local.store(),
        }
    }

    fn snapshot_of(&self, state: Arc<dyn StateSnapshot>, epoch: Epoch) -> Snapshot {
        let numbering = match &self.backing {
            Backing::Replicated(_) => last_sequence_number,
            Backing::Local(_) => SequenceNumber,
        };
        Snapshot { partition: self.id, epoch, numbering, state }
    }
}

/// A partition's state that does not change any more.
#[derive(Debug, Clone)]
pub struct Snapshot {
    partition: PartitionId,
    epoch: Epoch,
    /// The last sequence number of a state by the index of its mark.
    numbering: fn(u64) -> SequenceNumber,
    state: Arc<dyn StateSnapshot>,
}

impl Snapshot {
    /// The epoch in which it was taken.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Where the state is in the order of commits: it includes every commit up to this number and none after it. The number
    /// need not be one of a commit.
    pub fn sequence_number(&self) -> SequenceNumber {
        (self.numbering)(self.state.mark().index)
    }

    /// The mark of the set's state that this is part of.
    pub fn mark(&self) -> Mark {
        self.state.mark()
    }

    /// The value of a key.
    ///
    /// # Errors
    /// `Corrupt` if the stored bytes are damaged.
    pub fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        with_full_key(self.partition, key, |full| self.state.get(full))
    }

    /// The values of several keys.
    ///
    /// # Errors
    /// `Corrupt` if the stored bytes are damaged.
    pub fn multi_get(&self, keys: &[&[u8]]) -> Result<Vec<Option<Bytes>>> {
        let keys: Vec<Vec<u8>> = keys.iter().map(|key| full_key(self.partition, key)).collect();
        self.state.multi_get(&keys.iter().map(Vec::as_slice).collect::<Vec<_>>())
    }

    /// The entries of a range of keys, in the order of their bytes or against it.
    ///
    /// # Errors
    /// `Corrupt` if the stored bytes are damaged.
    pub fn scan(&self, range: KeyRange, order: Order) -> Result<Scan> {
        let full = |key: Bytes| Bytes::from(full_key(self.partition, &key));
        let start = match range.start {
            Bound::Included(key) => Bound::Included(full(key)),
            Bound::Excluded(key) => Bound::Excluded(full(key)),
            Bound::Unbounded => Bound::Included(full(Bytes::new())),
        };
        let end = match range.end {
            Bound::Included(key) => Bound::Included(full(key)),
            Bound::Excluded(key) => Bound::Excluded(full(key)),
            Bound::Unbounded => match self.partition.0.checked_add(1) {
                Some(next) => Bound::Excluded(Bytes::copy_from_slice(&next.to_be_bytes())),
                None => Bound::Unbounded,
            },
        };
        let entries = self.state.scan(KeyRange { start, end }, order)?;
        Ok(Box::new(entries.map(|entry| {
            entry.map(|(mut key, value)| {
                // Unlike a slice, this shares nothing: an enumeration does it for every key.
                key.advance(PREFIX_BYTES);
                (key, value)
            })
        })))
    }
}

pub(crate) const PREFIX_BYTES: usize = 8;

/// Big-endian, so that the keys of a partition stand together and in the order of partitions.
pub(crate) fn prefix(partition: PartitionId) -> [u8; PREFIX_BYTES] {
    partition.0.to_be_bytes()
}

/// How long a key may be, with its prefix, to be looked up without an allocation.
const FULL_KEY_BYTES_IN_PLACE: usize = 64;

/// Looks a key up with its prefix.
#[inline]
fn with_full_key<T>(partition: PartitionId, key: &[u8], look: impl FnOnce(&[u8]) -> T) -> T {
    let mut place = [0; FULL_KEY_BYTES_IN_PLACE];
    let Some(full) = place.get_mut(..PREFIX_BYTES + key.len()) else { return look(&full_key(partition, key)) };
    full[..PREFIX_BYTES].copy_from_slice(&prefix(partition));
    full[PREFIX_BYTES..].copy_from_slice(key);
    look(full)
}

fn full_key(partition: PartitionId, key: &[u8]) -> Vec<u8> {
    [&prefix(partition)[..], key].concat()
}
