use std::fmt::Debug;
use std::io;
use std::ops::{Bound, Range, RangeBounds};
use std::sync::Arc;

use bytes::{BufMut as _, Bytes, BytesMut};
use mainstay_core::{Error, ErrorKind, RESTORE, Result, SetId, time};
use mainstay_store::log::{Done, GroupId, LogBatch, NodeLog, Refused};
use openraft::storage::{IOFlushed, LogState, RaftLogStorage};
use openraft::{OptionalSend, RaftLogReader};

use crate::formats::{COMPACTION_MARK, HARD_STATE};
use crate::raft::{Entry, LogId, Types, Vote};
use crate::wire::{self, Reader};

/// How many bytes of entries one read brings: bounds the memory of replication and of catching up.
const READ_BYTES_MAX: usize = 4 << 20;

/// How many bytes of entries go to the log as one batch, unless a single entry is longer.
const BATCH_BYTES_MAX: usize = 8 << 20;

/// What an entry has beside the bytes of its commits, at most: heads, and the lengths of up to 65,536 commits, or of as many
/// batches of one.
const ENTRY_OVERHEAD_BYTES_MAX: usize = 1 << 20;

/// The largest batch that goes to the node log, if the commits of an entry have so many bytes at most.
pub(crate) fn log_batch_bytes(entry_bytes_max: usize) -> usize {
    entry_bytes_max.max(BATCH_BYTES_MAX).saturating_add(ENTRY_OVERHEAD_BYTES_MAX)
}

/// Version, term, replica, flag.
const HARD_STATE_BYTES: usize = 1 + 8 + 8 + 1;

/// Version, term, index.
const MARK_BYTES: usize = 1 + 8 + 8;

/// How long to wait while too much waits for the disk.
const OVERLOAD_PAUSE: time::Duration = time::Duration::from_millis(1);

/// A replica's part of the node log, as openraft wants to see it.
///
/// Compacting does not wait for the disk: the node log makes batches durable in order, so whatever is appended or voted
/// afterwards is durable only together with it, and entries that come back after a crash are compacted again.
#[derive(Debug, Clone)]
pub(crate) struct LogStorage {
    log: Arc<dyn NodeLog>,
    group: GroupId,
}

impl LogStorage {
    pub(crate) fn new(log: Arc<dyn NodeLog>, group: GroupId) -> Self {
        Self { log, group }
    }

    /// The part of the only replica that a log has of a set.
    pub(crate) fn of_set(log: Arc<dyn NodeLog>, set: SetId) -> Self {
        Self::new(log, GroupId(u64::from(set.number)))
    }

    /// Which part of the log it is.
    pub(crate) fn group(&self) -> GroupId {
        self.group
    }

    /// True if nothing of this group was ever written: it has promised nothing to anybody.
    pub(crate) fn is_pristine(&self) -> bool {
        let view = self.log.group(self.group);
        view.hard_state.is_none() && view.mark.is_none() && view.next == view.first
    }

    fn entries(&self, start: u64, end: u64) -> io::Result<Vec<Entry>> {
        self.read(start, end, READ_BYTES_MAX).map_err(into_io)
    }

    /// Entries from `start` on and before `end`: as many as `bytes_max` allows, but at least one if there is one.
    ///
    /// # Errors
    /// `NotFound` if the first was compacted away, `Corrupt` or `UnknownVersion` if they cannot be used.
    pub(crate) fn read(&self, start: u64, end: u64, bytes_max: usize) -> Result<Vec<Entry>> {
        decode(start, self.log.read(self.group, start..end, bytes_max)?)
    }

    /// # Errors
    /// `Overloaded` while the disk of the log has little room left.
    pub(crate) fn check_space(&self) -> Result<()> {
        self.log.check_space()
    }

    /// The first index that was not compacted away.
    pub(crate) fn first(&self) -> u64 {
        self.log.group(self.group).first
    }

    /// The index after the last.
    pub(crate) fn next(&self) -> u64 {
        self.log.group(self.group).next
    }

    /// The entries before an index that the log has, each as its index and how many bytes it takes.
    ///
    /// # Errors
    /// `NotFound` if the log is being cut at the same time.
    pub(crate) fn lengths_before(&self, end: u64) -> Result<impl Iterator<Item = (u64, u64)> + use<>> {
        let first = self.first();
        Ok((first..).zip(self.log.lengths(self.group, first..end)?))
    }

    /// The part of a range that the log has.
    fn existing(&self, range: &impl RangeBounds<u64>) -> Range<u64> {
        let view = self.log.group(self.group);
        let start = match range.start_bound() {
            Bound::Included(start) => *start,
            Bound::Excluded(start) => start + 1,
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(end) => end + 1,
            Bound::Excluded(end) => *end,
            Bound::Unbounded => u64::MAX,
        };
        start.max(view.first)..end.min(view.next)
    }

    /// Queues a batch. While too much waits for the disk it waits, too: a replica must not stop because it is fast.
    async fn submit(&self, mut batch: LogBatch, mut done: Done) -> io::Result<()> {
        loop {
            match self.log.submit(batch, done) {
                Ok(()) => return Ok(()),
                Err(refused) if refused.kind() == ErrorKind::Overloaded => Refused { batch, done, .. } = *refused,
                Err(refused) => return Err(into_io(refused.error)),
            }
            time::sleep(OVERLOAD_PAUSE).await;
        }
    }

    pub(crate) async fn submit_durably(&self, batch: LogBatch) -> io::Result<()> {
        let (done, durable) = tokio::sync::oneshot::channel();
        self.submit(batch, Box::new(move |result| drop(done.send(result)))).await?;
        match durable.await {
            Ok(result) => result.map_err(into_io),
            Err(_) => Err(io::Error::other("the node log was closed before it was durable")),
        }
    }

    /// Reads what a start depends on, so that damage is told as what it is.
    pub(crate) fn check(&self) -> Result<()> {
        let view = self.log.group(self.group);
        view.hard_state.map(decode_vote).transpose()?;
        view.mark.map(decode_mark).transpose()?;
        if view.next > view.first {
            let last = self.log.read(self.group, view.next - 1..view.next, READ_BYTES_MAX)?;
            decode(view.next - 1, last)?;
        }
        Ok(())
    }

    /// Refuses a state (named by `state`) with a gap between it and the log: openraft would apply what is left of the log to
    /// it and make of it a state that no replica ever had. `state_next` is the index after the last entry in the state.
    ///
    /// The log is cut only behind a durable state, and a state that comes from another replica is durable before the log is
    /// cut for it; so a gap means that the state was lost or replaced by an older copy.
    ///
    /// # Errors
    /// `Corrupt`.
    pub(crate) fn check_joins(&self, state_next: u64, state: &str) -> Result<()> {
        let first = self.first();
        if state_next >= first {
            return Ok(());
        }
        let has = match state_next {
            0 => "is missing or empty".to_owned(),
            _ => format!("ends with log entry {}", state_next - 1),
        };
        Err(Error::corrupt(format!(
            "{state} {has}, but its log starts with entry {first}, and what is in between is gone: the state was lost, or \
             replaced by a copy that is too old; {RESTORE}"
        )))
    }

    /// Cuts a log that ends before its state durably at the state. To be called before openraft sees it.
    ///
    /// A state that came from another replica is durable before the log is cut for it, and a crash in between leaves a log
    /// with the entries of before. Openraft finds that by comparing the last entry with the state, first by their terms:
    /// entries of a later term than the state's, which were never committed, it would take for newer than the state and go
    /// on behind it, where the log has nothing.
    ///
    /// # Errors
    /// What the node log refuses it for.
    pub(crate) async fn cut_to(&self, state: LogId) -> Result<()> {
        if self.next() > state.index {
            return Ok(());
        }
        self.submit_durably(self.compaction(state)).await.map_err(|error| {
            Error::new(error_kind(&error), format!("the log could not be cut at the state, entry {}", state.index))
                .with_source(error)
        })
    }

    /// The first entry of a later term than that, if there is one. Terms do not fall along a log.
    ///
    /// # Errors
    /// `Corrupt` or `UnknownVersion` if an entry cannot be used.
    pub(crate) fn first_after_term(&self, term: u64) -> Result<Option<u64>> {
        let is_later = |index: u64| -> Result<bool> {
            let entries = self.read(index, index + 1, 0)?;
            Ok(entries.first().is_some_and(|entry| entry.log_id.leader_id.term > term))
        };
        let (mut start, end) = (self.first(), self.next());
        let mut later = end;
        while start < later {
            let middle = start + (later - start) / 2;
            if is_later(middle)? {
                later = middle;
            } else {
                start = middle + 1;
            }
        }
        Ok((later < end).then_some(later))
    }

    fn compaction(&self, last: LogId) -> LogBatch {
        let mut batch = LogBatch::new();
        batch.compact(self.group, last.index, encode_mark(&last));
        batch
    }

    fn vote(&self) -> io::Result<Option<Vote>> {
        self.log.group(self.group).hard_state.map(decode_vote).transpose().map_err(into_io)
    }
}

fn decode(first: u64, records: Vec<Bytes>) -> Result<Vec<Entry>> {
    (first..).zip(records).map(|(index, record)| wire::decode_entry(index, record)).collect()
}

pub(crate) fn encode_vote(vote: &Vote) -> Bytes {
    let mut state = BytesMut::with_capacity(HARD_STATE_BYTES);
    state.put_u8(HARD_STATE.written());
    wire::put_vote(&mut state, vote);
    state.freeze()
}

pub(crate) fn encode_mark(last: &LogId) -> Bytes {
    let mut mark = BytesMut::with_capacity(MARK_BYTES);
    mark.put_u8(COMPACTION_MARK.written());
    wire::put_log_id(&mut mark, last);
    mark.freeze()
}

pub(crate) fn decode_vote(state: Bytes) -> Result<Vote> {
    let mut reader = Reader::new(&HARD_STATE, state)?;
    let vote = reader.vote()?;
    reader.end()?;
    Ok(vote)
}

pub(crate) fn decode_mark(mark: Bytes) -> Result<LogId> {
    let mut reader = Reader::new(&COMPACTION_MARK, mark)?;
    let id = reader.log_id()?;
    reader.end()?;
    Ok(id)
}

/// Openraft speaks `io::Error`; ours travels inside it.
pub(crate) fn into_io(error: Error) -> io::Error {
    let kind = match error.kind() {
        ErrorKind::Corrupt | ErrorKind::UnknownVersion => io::ErrorKind::InvalidData,
        ErrorKind::StorageFull => io::ErrorKind::StorageFull,
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, error)
}

/// The kind of the error of ours inside of an `io::Error`.
pub(crate) fn error_kind(error: &io::Error) -> ErrorKind {
    error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()).map_or(ErrorKind::Fatal, Error::kind)
}

impl RaftLogReader<Types> for LogStorage {
    async fn try_get_log_entries<R: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: R,
    ) -> Result<Vec<Entry>, io::Error> {
        let Range { mut start, end } = self.existing(&range);
        let mut entries = Vec::new();
        while start < end {
            let more = self.entries(start, end)?;
            if more.is_empty() {
                break;
            }
            start += more.len() as u64;
            entries.extend(more);
        }
        Ok(entries)
    }

    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> Result<Vec<Entry>, io::Error> {
        self.entries(start, end)
    }

    async fn entries_stream<R>(
        &mut self,
        range: R,
    ) -> impl futures_util::Stream<Item = Result<Entry, io::Error>> + OptionalSend
    where
        R: RangeBounds<u64> + Clone + Debug + OptionalSend,
    {
        let Range { start, end } = self.existing(&range);
        EntryStream { storage: self.clone(), piece: Vec::new().into_iter(), next: start, end }
    }

    async fn read_vote(&mut self) -> Result<Option<Vote>, io::Error> {
        self.vote()
    }
}

/// Entries of a range, read piece by piece.
struct EntryStream {
    storage: LogStorage,
    piece: std::vec::IntoIter<Entry>,
    next: u64,
    end: u64,
}

impl futures_util::Stream for EntryStream {
    type Item = Result<Entry, io::Error>;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        if let Some(entry) = self.piece.next() {
            return std::task::Poll::Ready(Some(Ok(entry)));
        }
        if self.next >= self.end {
            return std::task::Poll::Ready(None);
        }
        let item = match self.storage.entries(self.next, self.end) {
            Ok(entries) if entries.is_empty() => {
                let missing = format!("log entry {} of group {} is not there", self.next, self.storage.group.0);
                self.next = self.end;
                Some(Err(io::Error::other(missing)))
            }
            Ok(entries) => {
                self.next += entries.len() as u64;
                self.piece = entries.into_iter();
                self.piece.next().map(Ok)
            }
            Err(error) => {
                self.next = self.end;
                Some(Err(error))
            }
        };
        std::task::Poll::Ready(item)
    }
}

impl RaftLogStorage<Types> for LogStorage {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> Result<LogState<Types>, io::Error> {
        let view = self.log.group(self.group);
        let purged = view.mark.map(decode_mark).transpose().map_err(into_io)?;
        let last = if view.next > view.first {
            self.entries(view.next - 1, view.next)?.first().map(|entry| entry.log_id)
        } else {
            purged
        };
        Ok(LogState { last_purged_log_id: purged, last_log_id: last })
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> Result<(), io::Error> {
        let mut batch = LogBatch::new();
        batch.hard_state(self.group, encode_vote(vote));
        self.submit_durably(batch).await
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<Types>) -> Result<(), io::Error>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let mut batch = LogBatch::new();
        let mut piece: Vec<Bytes> = Vec::new();
        let (mut first, mut bytes) = (0, 0);
        for entry in entries {
            let record = wire::encode_entry(&entry);
            if !piece.is_empty() && bytes + record.len() > BATCH_BYTES_MAX {
                // What openraft appends at once may be more than a batch of the log takes. Batches become durable in order:
                // the callback of the last speaks for all.
                batch.append(self.group, first, std::mem::take(&mut piece));
                self.submit(std::mem::take(&mut batch), Box::new(drop)).await?;
                bytes = 0;
            }
            if piece.is_empty() {
                first = entry.log_id.index;
            }
            bytes += record.len();
            piece.push(record);
        }
        if piece.is_empty() {
            callback.io_completed(Ok(()));
            return Ok(());
        }
        batch.append(self.group, first, piece);
        self.submit(batch, Box::new(move |result| callback.io_completed(result.map_err(into_io)))).await
    }

    async fn truncate_after(&mut self, last: Option<LogId>) -> Result<(), io::Error> {
        let mut batch = LogBatch::new();
        batch.truncate(self.group, last.map_or(0, |id| id.index + 1));
        // A snapshot that takes the place of what is cut off is durable without the log: what was cut must not come back
        // behind it.
        self.submit_durably(batch).await
    }

    async fn purge(&mut self, id: LogId) -> Result<(), io::Error> {
        self.submit(self.compaction(id), Box::new(drop)).await
    }
}
