use std::io;
use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use futures_util::{Stream, StreamExt};
use mainstay_core::{Error, ErrorKind, Result, task};
use mainstay_store::state::{self, Import, Mark, StateSnapshot, StateStore, Write};
use openraft::storage::{EntryResponder, RaftStateMachine, Snapshot};
use openraft::{EntryPayload, OptionalSend, RaftSnapshotBuilder};

use crate::checkpoint_scheduler::CheckpointScheduler;
use crate::command::ParsedCommand;
use crate::formats::STATE_MARK;
use crate::log_storage::into_io;
use crate::progress::Progress;
use crate::raft::{self, Applied, Command, Entry, LogId, Refusals, SnapshotMeta, StoredMembership, Types};
use crate::wire::{self, Reader};

/// How many entries are applied before other tasks get a chance to run.
const APPLY_RUN_MAX: usize = 128;

/// A state store, as openraft wants to see a state machine.
///
/// The store's mark holds the index of the last entry applied (plus one, so that zero means none) and, as its note,
/// that entry's term and the membership in force.
#[derive(Debug)]
pub(crate) struct StateMachine {
    store: Arc<dyn StateStore>,
    scheduler: Arc<CheckpointScheduler>,
    progress: Arc<Progress>,
    position: Position,
    note: Bytes,
}

/// Where a state is in the log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Position {
    pub applied: Option<LogId>,
    pub membership: StoredMembership,
}

impl Position {
    pub(crate) fn from_mark(mark: &Mark) -> Result<Self> {
        if mark.index == 0 {
            return Ok(Self::default());
        }
        let mut reader = Reader::new(&STATE_MARK, mark.note.clone())?;
        let term = reader.u64()?;
        let membership = reader.stored_membership()?;
        Ok(Self { applied: Some(raft::log_id(term, mark.index - 1)), membership })
    }

    pub(crate) fn note(&self, term: u64) -> Bytes {
        let mut note = BytesMut::new();
        note.put_u8(STATE_MARK.written());
        note.put_u64_le(term);
        wire::put_stored_membership(&mut note, &self.membership);
        note.freeze()
    }

    pub(crate) fn meta(&self) -> SnapshotMeta {
        SnapshotMeta { last_log_id: self.applied, last_membership: self.membership.clone() }
    }
}

/// A whole state on its way between replicas.
pub(crate) enum SnapshotData {
    /// A state of this replica, to be exported.
    Local(Arc<dyn StateSnapshot>),
    /// The state of another replica, received completely and not yet in force.
    Received(Box<dyn Import>),
}

impl StateMachine {
    pub(crate) fn new(
        store: Arc<dyn StateStore>,
        scheduler: Arc<CheckpointScheduler>,
        progress: Arc<Progress>,
    ) -> Result<Self> {
        let mark = store.mark();
        let position = Position::from_mark(&mark)?;
        Ok(Self { store, scheduler, progress, position, note: mark.note })
    }

    fn apply_entry(&mut self, entry: &Entry) -> Result<Applied> {
        let id = entry.log_id;
        let (term, index) = (id.leader_id.term, id.index);
        if let EntryPayload::Membership(membership) = &entry.payload {
            self.position.membership = StoredMembership::new(Some(id), membership.clone());
            self.note = self.position.note(term);
        } else if self.position.applied.is_none_or(|applied| applied.leader_id.term != term) {
            self.note = self.position.note(term);
        }
        let mark = Mark { index: index + 1, note: self.note.clone() };
        let applied = match &entry.payload {
            EntryPayload::Normal(command) => self.apply_command(mark, id, command)?,
            EntryPayload::Blank | EntryPayload::Membership(_) => {
                self.store.apply(mark, &mut std::iter::empty())?;
                Applied { index, accepted: true, refused: Refusals::new() }
            }
        };
        self.position.applied = Some(id);
        Ok(applied)
    }

    fn apply_command(&self, mark: Mark, id: LogId, command: &Command) -> Result<Applied> {
        let parsed = ParsedCommand::parse(&command.0)?;
        self.scheduler.logged(mark.index, command.0.len() as u64);
        let accepted = parsed.epoch.term() == id.leader_id.term;
        let writes: &mut dyn Iterator<Item = Write<'_>> =
            if accepted { &mut parsed.writes(id.index) } else { &mut std::iter::empty() };
        let refused = match self.store.apply(mark.clone(), writes) {
            Ok(()) => Refusals::new(),
            Err(error) if error.kind() == ErrorKind::Invalid => self.apply_the_rest(mark, id.index, &parsed, error)?,
            Err(error) => return Err(error),
        };
        Ok(Applied { index: id.index, accepted, refused })
    }

    /// Applies an entry without the commits that the store refuses. Which those are follows from the state and the entry
    /// alone: every replica leaves out the same, and stopping would help none of them.
    fn apply_the_rest(&self, mark: Mark, index: u64, parsed: &ParsedCommand<'_>, error: Error) -> Result<Refusals> {
        let refused = state::refused(&*self.store, parsed.stamped(index))?;
        if refused.is_empty() {
            // It is something else that is wrong.
            return Err(error);
        }
        let rest = parsed.stamped(index).filter(|(number, _)| !refused.contains_key(number));
        self.store.apply(mark, &mut rest.flat_map(|(_, writes)| writes))?;
        self.progress.refused(refused.keys().copied());
        Ok(refused.into_iter().map(|(number, error)| (number, error.to_string())).collect())
    }

    fn tell_progress(&self) {
        self.progress.applied(self.position.applied.map_or(0, |id| id.index + 1));
    }

    fn snapshot(&self) -> Result<SnapshotOf> {
        let snapshot = self.store.snapshot()?;
        let meta = Position::from_mark(&snapshot.mark())?.meta();
        Ok(Snapshot { meta, snapshot: SnapshotData::Local(snapshot) })
    }
}

impl RaftStateMachine<Types> for StateMachine {
    type SnapshotData = SnapshotData;
    type SnapshotBuilder = Checkpoint;

    async fn applied_state(&mut self) -> Result<(Option<LogId>, StoredMembership), io::Error> {
        Ok((self.position.applied, self.position.membership.clone()))
    }

    async fn apply<S>(&mut self, mut entries: S) -> Result<(), io::Error>
    where
        S: Stream<Item = Result<EntryResponder<Types>, io::Error>> + Unpin + OptionalSend,
    {
        let mut run = 0;
        while let Some(item) = entries.next().await {
            let (entry, responder) = item?;
            let applied = self.apply_entry(&entry).map_err(into_io)?;
            if let Some(responder) = responder {
                responder.send(applied);
            }
            run += 1;
            if run % APPLY_RUN_MAX == 0 {
                self.tell_progress();
                self.scheduler.applied(self.store.unsaved_bytes());
                tokio::task::yield_now().await;
            }
        }
        self.tell_progress();
        self.scheduler.applied(self.store.unsaved_bytes());
        Ok(())
    }

    async fn get_snapshot_builder(&mut self) -> Checkpoint {
        Checkpoint { store: self.store.clone(), made: self.scheduler.take_checkpoint() }
    }

    async fn install_snapshot(&mut self, meta: &SnapshotMeta, snapshot: SnapshotData) -> Result<(), io::Error> {
        let import = match snapshot {
            SnapshotData::Received(import) => import,
            SnapshotData::Local(state) => {
                let store = self.store.clone();
                task::blocking(move || copy(&*state, &*store)).await.map_err(into_io)?
            }
        };
        self.progress.skips_to(meta.last_log_id.map_or(0, |id| id.index + 1));
        let mark = task::blocking(move || import.finish()).await.map_err(into_io)?;
        self.position = Position::from_mark(&mark).map_err(into_io)?;
        self.note = mark.note;
        if self.position.meta() != *meta {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("snapshot is at {:?} but was announced for {:?}", self.position.applied, meta.last_log_id),
            ));
        }
        self.tell_progress();
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<SnapshotOf>, io::Error> {
        if self.position.applied.is_none() {
            return Ok(None);
        }
        self.snapshot().map(Some).map_err(into_io)
    }
}

fn copy(from: &dyn StateSnapshot, to: &dyn StateStore) -> Result<Box<dyn Import>> {
    let mut import = to.import()?;
    for chunk in from.export()? {
        import.push(&chunk?)?;
    }
    Ok(import)
}

/// Tells openraft how far the state is durable, so that the log up to there may go. The checkpoint itself is made by
/// who watches over its size and time, because a failed one must not stop the replica.
#[derive(Debug)]
pub(crate) struct Checkpoint {
    store: Arc<dyn StateStore>,
    made: Option<Mark>,
}

impl RaftSnapshotBuilder<Types> for Checkpoint {
    type SnapshotData = SnapshotData;

    async fn build_snapshot(&mut self) -> Result<SnapshotOf, io::Error> {
        let (store, made) = (self.store.clone(), self.made.take());
        let build = move || {
            // A checkpoint that fails here must not stop the replica either: then there is just nothing new to tell.
            let mark = made.or_else(|| store.checkpoint().ok()).unwrap_or_else(|| store.checkpointed());
            let meta = Position::from_mark(&mark)?.meta();
            Ok(Snapshot { meta, snapshot: SnapshotData::Local(store.snapshot()?) })
        };
        task::blocking(build).await.map_err(into_io)
    }
}

/// A snapshot in openraft's words.
pub(crate) type SnapshotOf = openraft::type_config::alias::SnapshotOf<Types, SnapshotData>;
