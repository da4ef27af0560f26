//! Following what is committed to a collection.

use std::collections::VecDeque;

use bytes::Bytes;
use mainstay_core::{Error, ErrorKind, Result, SequenceNumber};
use mainstay_replica::{Changes, Committed, Key, Operation};

use crate::collection::Handle;
use crate::layout;
use crate::lock::LockMode;
use crate::manager::StateManager;

/// The commits that changed a collection, in order, each exactly once.
#[derive(Debug)]
pub(crate) struct CollectionChanges {
    handle: Handle,
    changes: Changes,
    prefix: Bytes,
    record: Key,
    dropped: bool,
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
        let state = StateManager { shared: handle.shared.clone() };
        // That the collection is there, and on level none that nobody is about to commit who carries no old values along: whoever
        // opens the first watch waits for them, and so does whoever opens another one meanwhile.
        handle.shared.keep_history();
        let watched = &handle.known.watched;
        let newly = handle.shared.is_local && watched.get().is_none();
        let mode = if newly { LockMode::Exclusive } else { LockMode::Shared };
        let mut tx = state.begin();
        handle.enter(&mut tx, mode).await?;
        let now = handle.shared.read()?.sequence_number();
        let after = after.unwrap_or(now);
        // Others of the set may be followed for longer, and then what came before is known, but not what it replaced.
        if handle.shared.is_local && after < *watched.get_or_init(|| now) {
            return Err(too_old(handle, after));
        }
        drop(tx);
        let changes = handle.shared.partition.changes(after).map_err(|error| explain(handle, error))?;
        let prefix = Bytes::copy_from_slice(&layout::entry_prefix(handle.known.id));
        let record = layout::registry(&handle.known.name);
        Ok(Self { handle: handle.clone(), changes, prefix, record, dropped: false })
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    pub(crate) fn position(&self) -> SequenceNumber {
        self.changes.position()
    }

    pub(crate) async fn next(&mut self) -> Result<(SequenceNumber, VecDeque<RawChange>)> {
        loop {
            if self.dropped {
                let text = format!("{} was dropped: there is nothing more to watch", self.handle.known);
                return Err(Error::new(ErrorKind::NotFound, text));
            }
            let committed = self.changes.next().await.map_err(|error| explain(&self.handle, error))?;
            let changes = self.pick(&committed);
            if !changes.is_empty() {
                return Ok((committed.sequence_number, changes));
            }
        }
    }

    /// What a commit did to the collection.
    fn pick(&mut self, committed: &Committed) -> VecDeque<RawChange> {
        let mut picked = VecDeque::new();
        let mut note = None;
        for operation in committed.operations() {
            match operation {
                Operation::Note { note: old } => note = Some(Bytes::copy_from_slice(old)),
                Operation::Put { key, value } if key.starts_with(&self.prefix) => {
                    let (key, new) = (Bytes::copy_from_slice(&key), Some(Bytes::copy_from_slice(value)));
                    picked.push_back(RawChange::Entry { key, old: note.take(), new });
                }
                Operation::Delete { key } if key.starts_with(&self.prefix) => {
                    let key = Bytes::copy_from_slice(key);
                    picked.push_back(RawChange::Entry { key, old: note.take(), new: None });
                }
                Operation::DeleteRange { start, .. } if start == self.prefix => picked.push_back(RawChange::Cleared),
                Operation::Delete { key } if *key == *self.record => self.dropped = true,
                // A note stands before the entry that it is of.
                Operation::Put { key, .. } if layout::collection_of(&key).is_some() => note = None,
                Operation::Delete { key } if layout::collection_of(key).is_some() => note = None,
                _ => {}
            }
        }
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
    let text = format!("watching {}: {error}", handle.known);
    Error::new(error.kind(), text).with_source(error)
}
