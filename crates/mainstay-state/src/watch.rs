//! Following what is committed to a collection.

use std::task::{Context, Poll, ready};

use bytes::Bytes;
use mainstay_core::{Error, ErrorKind, Result, SequenceNumber};
use mainstay_replica::{Changes, Committed, Key, Operation};
use tokio::task::coop;

use crate::collection::Handle;
use crate::layout;
use crate::lock::LockMode;
use crate::manager::StateManager;
use crate::registry;

/// The commits that changed a collection, in order, each exactly once.
#[derive(Debug)]
pub(crate) struct CollectionChanges {
    handle: Handle,
    changes: Changes,
    prefix: Bytes,
    record: Key,
    /// What was read and not delivered.
    picked: Option<Picked>,
    dropped: bool,
}

/// What a commit did to a collection.
#[derive(Debug)]
struct Picked {
    number: SequenceNumber,
    changes: Vec<RawChange>,
    /// Where to go on before it.
    before: SequenceNumber,
}

/// One change of a collection, as it is stored.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RawChange {
    Entry { key: Bytes, old: Option<Bytes>, new: Option<Bytes> },
    Cleared,
}

impl CollectionChanges {
    /// Follows what is committed after a number; from now on if there is none.
    pub(crate) async fn new(handle: &Handle, after: Option<SequenceNumber>) -> Result<Self> {
        let Handle { shared, .. } = handle;
        // That the collection is there, and stays so until it is followed.
        let mut tx = StateManager { shared: shared.clone() }.begin();
        handle.enter(&mut tx, LockMode::Shared).await?;
        if shared.is_local {
            // Others of the set may be followed for longer, and then what came before is known, but not what it replaced.
            let since = shared.partition.want_notes().map_err(|error| explain(handle, error))?;
            shared.keep_history();
            if after.is_some_and(|after| after < since) {
                return Err(too_old(handle, after.unwrap_or(since)));
            }
        }
        let after = match after {
            Some(after) => after,
            None => shared.read()?.sequence_number(),
        };
        let changes = shared.partition.changes(after).map_err(|error| explain(handle, error))?;
        drop(tx);
        let prefix = Bytes::copy_from_slice(&layout::entry_prefix(handle.known.id));
        let record = layout::registry(&handle.known.name);
        Ok(Self { handle: handle.clone(), changes, prefix, record, picked: None, dropped: false })
    }

    pub(crate) fn position(&self) -> SequenceNumber {
        self.picked.as_ref().map_or_else(|| self.changes.position(), |picked| picked.before)
    }

    /// Waits for the next commit that changed the collection, and delivers it as `read` makes it of its number and changes. What
    /// cannot be read is not delivered, and is the next one again.
    pub(crate) fn poll_next<T>(
        &mut self,
        cx: &mut Context<'_>,
        read: impl FnOnce(&Handle, SequenceNumber, &[RawChange]) -> Result<T>,
    ) -> Poll<Result<T>> {
        if self.picked.is_some() || self.dropped {
            // One that asks for the same error for ever must let others run, too.
            ready!(coop::poll_proceed(cx)).made_progress();
        }
        let picked = match &self.picked {
            Some(picked) => picked,
            None => {
                let picked = ready!(self.poll_picked(cx))?;
                self.picked.insert(picked)
            }
        };
        let outcome = read(&self.handle, picked.number, &picked.changes);
        if outcome.is_ok() {
            self.picked = None;
        }
        Poll::Ready(outcome)
    }

    /// Waits for the next commit that changed the collection.
    fn poll_picked(&mut self, cx: &mut Context<'_>) -> Poll<Result<Picked>> {
        while !self.dropped {
            let before = self.changes.position();
            // This takes its part of the budget for each commit, whatever it changed.
            let committed = ready!(self.changes.poll_next(cx)).map_err(|error| explain(&self.handle, error))?;
            let changes = self.pick(&committed);
            if !changes.is_empty() {
                return Poll::Ready(Ok(Picked { number: committed.sequence_number, changes, before }));
            }
        }
        let text = format!("{} was dropped: there is nothing more to watch", self.handle.known);
        Poll::Ready(Err(Error::new(ErrorKind::NotFound, text)))
    }

    /// What a commit did to the collection.
    fn pick(&mut self, committed: &Committed) -> Vec<RawChange> {
        let mut picked = Vec::new();
        let mut note = None;
        let mut is_cleared = false;
        // Which collection has the name since, if the commit has changed that.
        let mut named = None;
        for operation in committed.operations() {
            match operation {
                Operation::Note { note: old } => note = Some(Bytes::copy_from_slice(old)),
                Operation::Put { key, value } if key.starts_with(&self.prefix) => {
                    let (key, new) = (Bytes::copy_from_slice(&key), Some(Bytes::copy_from_slice(value)));
                    picked.push(RawChange::Entry { key, old: note.take(), new });
                }
                Operation::Delete { key } if key.starts_with(&self.prefix) => {
                    let key = Bytes::copy_from_slice(key);
                    picked.push(RawChange::Entry { key, old: note.take(), new: None });
                }
                Operation::DeleteRange { start, .. } if start == self.prefix => {
                    is_cleared = true;
                    picked.push(RawChange::Cleared);
                }
                Operation::Put { key, value } if *key == *self.record => named = Some(registry::id_of(value)),
                Operation::Delete { key } if *key == *self.record => named = Some(None),
                // A note stands before the entry that it is of.
                Operation::Put { key, .. } if layout::collection_of(&key).is_some() => note = None,
                Operation::Delete { key } if layout::collection_of(key).is_some() => note = None,
                _ => {}
            }
        }
        // A drop clears as well. The name alone says nothing: others may have had it before.
        self.dropped |= is_cleared && named.is_some_and(|id| id != Some(self.handle.known.id));
        picked
    }
}

fn too_old(handle: &Handle, after: SequenceNumber) -> Error {
    Error::new(
        ErrorKind::TooOld,
        format!(
            "watching {}: the commits after {} are too old: take a snapshot and watch from its sequence number",
            handle.known, after.0
        ),
    )
}

fn explain(handle: &Handle, error: Error) -> Error {
    error.about(format_args!("watching {}", handle.known))
}
