//! The deletion of an actor: one commit decides it, and bounded ones behind it remove what readers pass over already.

use std::ops::Bound;

use bytes::Bytes;
use mainstay_core::time::WallTime;
use mainstay_core::{Error, ErrorKind, Result, SequenceNumber};
use mainstay_replica::{Batch, KeyRange, Order, Snapshot, prefix_successor};

use super::layout::{self, EncodedId};
use super::name::Kind;
use super::record::{self, Owner};
use super::{ActorStore, ActorWrites};

/// How many bytes of places one commit removes at most: small enough to stand in nobody's way for long.
const STEP_BYTES_MAX: usize = 1 << 20;

/// How many places are looked at before others get their time.
const LOOKED_AT_MAX: usize = 4096;

/// The kinds of entries that have a place in an index by time.
const TIMELY: [Kind; 3] = [Kind::Reminder, Kind::Answer, Kind::Lane];

/// How far the places of an actor are removed: behind an entry, of this kind of [`TIMELY`].
#[derive(Default)]
struct Progress {
    kind: usize,
    after: Option<Bytes>,
}

impl ActorStore {
    /// Commits writes with which an actor is deleted.
    ///
    /// If the places of its reminders and answers fit into the same commit, that is all. If not, the commit leaves them, which
    /// makes them places without an entry, and says so by a mark; then they are removed by commits of a bounded size, the last
    /// of which removes the mark. Where that is cut short, the next opening does it. The actor is deleted all the same.
    pub(super) async fn commit_deletion(&self, writes: &ActorWrites) -> Result<SequenceNumber> {
        // As of before the deletion: the places are found by their entries.
        let before = self.read()?;
        let encoded = EncodedId::new(writes.id());
        let room = step_bytes(self.partition().commit_bytes_max().saturating_sub(writes.bytes_at_most()));
        let mut places = self.batch_of_epoch();
        let mut progress = Progress::default();
        let is_all = self.remove_places(&mut places, &before, writes, &mut progress, room)?;
        if is_all {
            let mut batch = places;
            self.remove_entries(&mut batch, &encoded);
            self.add_entries(&mut batch, writes)?;
            return self.send(batch).await;
        }
        // Nothing is deleted if there is an entry that cannot be read, however far behind it is.
        self.check_entries(&before, writes)?;
        let mut batch = self.batch_of_epoch();
        self.remove_entries(&mut batch, &encoded);
        record::put_known(&mut batch, &encoded.unfinished());
        self.add_entries(&mut batch, writes)?;
        let deleted = self.send(batch).await?;
        if let Err(error) = self.finish_deletion(&before, writes, &encoded).await {
            tracing::warn!(
                actor = %writes.id(),
                partition = %self.partition().id(),
                ?error,
                "an actor is deleted, and some of the places of its reminders and answers are left until its partition is \
                 opened again"
            );
        }
        Ok(deleted)
    }

    /// Removes the places that a deletion has left, and then its mark.
    async fn finish_deletion(&self, before: &Snapshot, writes: &ActorWrites, encoded: &EncodedId) -> Result<()> {
        let room = step_bytes(self.partition().commit_bytes_max());
        let mut progress = Progress::default();
        loop {
            let mut batch = self.batch_of_epoch();
            let is_all = self.remove_places(&mut batch, before, writes, &mut progress, room)?;
            if is_all {
                batch.delete(&encoded.unfinished());
            }
            self.send(batch).await?;
            if is_all {
                return Ok(());
            }
        }
    }

    /// Adds the removal of places to a batch, until that has so many bytes; at least one. True if these were the last.
    fn remove_places(
        &self,
        batch: &mut Batch,
        before: &Snapshot,
        writes: &ActorWrites,
        progress: &mut Progress,
        bytes_max: usize,
    ) -> Result<bool> {
        let (id, encoded) = (writes.id(), EncodedId::new(writes.id()));
        let mut is_first = true;
        while let Some(&kind) = TIMELY.get(progress.kind) {
            let prefix = encoded.entries(kind);
            for entry in before.scan(layout::range(&prefix, progress.after.as_deref()), Order::Ascending)? {
                if batch.bytes() >= bytes_max && !is_first {
                    return Ok(false);
                }
                is_first = false;
                let (key, record) = entry?;
                let name = layout::parse_name(kind, id, &prefix, &key)?;
                let at = Owner { kind, id, name }.time(&record)?;
                // One that is set with the deletion keeps its place.
                if at != writes.time_of(kind, name)
                    && let Some(place) = at.and_then(|at| encoded.place(kind, at, name.as_bytes()))
                {
                    batch.delete(&place);
                }
                progress.after = Some(key);
            }
            *progress = Progress { kind: progress.kind + 1, after: None };
        }
        Ok(true)
    }

    /// Refuses entries that cannot be read.
    fn check_entries(&self, before: &Snapshot, writes: &ActorWrites) -> Result<()> {
        let (id, encoded) = (writes.id(), EncodedId::new(writes.id()));
        for kind in TIMELY {
            let prefix = encoded.entries(kind);
            for entry in before.scan(layout::range(&prefix, None), Order::Ascending)? {
                let (key, record) = entry?;
                Owner { kind, id, name: layout::parse_name(kind, id, &prefix, &key)? }.time(&record)?;
            }
        }
        Ok(())
    }

    /// Removes that the actor is known, and all its entries.
    fn remove_entries(&self, batch: &mut Batch, encoded: &EncodedId) {
        batch.delete(&encoded.known());
        for kind in Kind::ALL {
            let entries = encoded.entries(kind);
            batch.delete_range(&entries, prefix_successor(&entries).as_deref());
        }
    }

    /// Finishes the deletions that were cut short. To be called before anybody else commits.
    ///
    /// Their entries are gone, and with them the times by which their places would be found. So the places of all actors are
    /// looked through, which happens only after a crash in the middle of the deletion of an actor with many entries.
    pub(super) async fn finish_deletions(&self) -> Result<()> {
        let snapshot = self.read()?;
        let marks = || snapshot.scan(KeyRange::prefix(layout::UNFINISHED_KEYS), Order::Ascending);
        if marks()?.next().transpose()?.is_none() {
            return Ok(());
        }
        let room = step_bytes(self.partition().commit_bytes_max());
        for kind in TIMELY {
            let mut after: Option<Bytes> = None;
            loop {
                let mut batch = self.batch_of_epoch();
                let strays = self.remove_strays(&mut batch, &snapshot, kind, &mut after, room)?;
                if strays.count > 0 {
                    self.send(batch).await?;
                }
                if strays.are_last {
                    break;
                }
                tokio::task::consume_budget().await;
            }
        }
        let mut after: Option<Bytes> = None;
        loop {
            let mut batch = self.batch_of_epoch();
            let start =
                after.take().map_or(Bound::Included(Bytes::from_static(layout::UNFINISHED_KEYS)), Bound::Excluded);
            let range = KeyRange { start, end: KeyRange::prefix(layout::UNFINISHED_KEYS).end };
            for mark in snapshot.scan(range, Order::Ascending)? {
                let (key, _) = mark?;
                batch.delete(&key);
                if batch.bytes() >= room {
                    after = Some(key);
                    break;
                }
            }
            self.send(batch).await?;
            if after.is_none() {
                return Ok(());
            }
        }
    }

    /// Adds the removal of places without an entry to a batch, until that has so many bytes.
    fn remove_strays(
        &self,
        batch: &mut Batch,
        snapshot: &Snapshot,
        kind: Kind,
        after: &mut Option<Bytes>,
        bytes_max: usize,
    ) -> Result<Strays> {
        let mut strays = Strays { count: 0, are_last: false };
        let Some(range) = layout::places(kind, WallTime::MAX, after.as_deref()) else {
            return Ok(Strays { are_last: true, ..strays });
        };
        for (looked_at, place) in snapshot.scan(range, Order::Ascending)?.enumerate() {
            if (batch.bytes() >= bytes_max && strays.count > 0) || looked_at >= LOOKED_AT_MAX {
                return Ok(strays);
            }
            let (key, _) = place?;
            // What cannot be read is left for those who ask for it, and are told.
            if let Ok(place) = layout::parse_place(kind, &key) {
                let owner = Owner { kind, id: &place.id, name: place.name };
                let is_stray = match snapshot.get(&place.entry)? {
                    None => true,
                    Some(record) => owner.time(&record).is_ok_and(|at| at != Some(place.at)),
                };
                if is_stray {
                    batch.delete(&key);
                    strays.count += 1;
                }
            }
            *after = Some(key);
        }
        strays.are_last = true;
        Ok(strays)
    }
}

/// Places without an entry whose removal is in a batch.
struct Strays {
    count: usize,
    are_last: bool,
}

/// How many bytes a batch may have before its last key, where there is room for so many.
fn step_bytes(room: usize) -> usize {
    (room / 2).min(STEP_BYTES_MAX)
}

/// True if an opening can do without what has failed: nothing was changed, and the places that are left are passed over.
pub(super) fn can_wait(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Overloaded | ErrorKind::StorageFull)
}
