use std::fmt::Debug;
use std::io;
use std::ops::{Bound, Range, RangeBounds};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use mainstay_core::{Error, ErrorKind, time};
use mainstay_store::log::{Done, GroupId, LogBatch, NodeLog};
use openraft::storage::{IOFlushed, LogState, RaftLogStorage};
use openraft::{OptionalSend, RaftLogReader};
use parking_lot::Mutex;

use crate::raft::{Entry, LogId, Types, Vote};
use crate::wire::{self, Reader};

/// How many bytes of entries one read brings: bounds the memory of replication and of catching up.
const READ_BYTES_MAX: usize = 4 << 20;

/// The most that goes into one batch of the log, unless a single entry is larger. Far below what the log takes.
const APPEND_BYTES_MAX: usize = 16 << 20;

/// How long to wait when the log's queue is full: about as long as a sync takes.
const QUEUE_PAUSE: time::Duration = time::Duration::from_millis(1);

/// A replica set's part of the node log, as openraft wants to see it.
///
/// Truncating and compacting do not wait for the disk: the node log makes batches durable in order, so whatever is
/// appended or voted afterwards is durable only together with them.
#[derive(Debug, Clone)]
pub(crate) struct LogStorage {
    log: Arc<dyn NodeLog>,
    group: GroupId,
}

impl LogStorage {
    pub(crate) fn new(log: Arc<dyn NodeLog>, group: GroupId) -> Self {
        Self { log, group }
    }

    /// True if this group was ever written.
    pub(crate) fn is_pristine(&self) -> bool {
        let view = self.log.group(self.group);
        view.hard_state.is_none() && view.mark.is_none() && view.next == view.first
    }

    fn entries(&self, start: u64, end: u64) -> io::Result<Vec<Entry>> {
        let records = self.log.read(self.group, start..end, READ_BYTES_MAX).map_err(into_io)?;
        decode(start, records)
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

    /// Hands a batch to the log. While the log's queue is full it waits its turn: to openraft an error of the log is the end,
    /// and a disk that is slow is none.
    async fn submit(&self, batch: LogBatch, done: Done) -> io::Result<()> {
        let done = Arc::new(Mutex::new(Some(done)));
        loop {
            let called = done.clone();
            let done = move |result| {
                if let Some(done) = called.lock().take() {
                    done(result);
                }
            };
            match self.log.submit(batch.clone(), Box::new(done)) {
                Err(error) if error.kind() == ErrorKind::Overloaded => time::sleep(QUEUE_PAUSE).await,
                result => return result.map_err(into_io),
            }
        }
    }

    fn vote(&self) -> io::Result<Option<Vote>> {
        let Some(state) = self.log.group(self.group).hard_state else { return Ok(None) };
        let mut reader = Reader::versioned("hard state", state).map_err(into_io)?;
        let vote = reader.vote().map_err(into_io)?;
        reader.end().map_err(into_io)?;
        Ok(Some(vote))
    }
}

fn decode(first: u64, records: Vec<Bytes>) -> io::Result<Vec<Entry>> {
    (first..).zip(records).map(|(index, record)| wire::decode_entry(index, record).map_err(into_io)).collect()
}

fn decode_mark(mark: Bytes) -> io::Result<LogId> {
    let mut reader = Reader::versioned("compaction mark", mark).map_err(into_io)?;
    let id = reader.log_id().map_err(into_io)?;
    reader.end().map_err(into_io)?;
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
        let purged = view.mark.map(decode_mark).transpose()?;
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
        let mut state = BytesMut::with_capacity(18);
        bytes::BufMut::put_u8(&mut state, wire::VERSION);
        wire::put_vote(&mut state, vote);
        let (done, durable) = tokio::sync::oneshot::channel();
        let mut batch = LogBatch::new();
        batch.hard_state(self.group, state.freeze());
        self.submit(batch, Box::new(move |result| drop(done.send(result)))).await?;
        match durable.await {
            Ok(result) => result.map_err(into_io),
            Err(_) => Err(io::Error::other("the node log was closed before the vote was durable")),
        }
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<Types>) -> Result<(), io::Error>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let mut first = None;
        let records: Vec<Bytes> = entries
            .into_iter()
            .map(|entry| {
                first.get_or_insert(entry.log_id.index);
                wire::encode_entry(&entry)
            })
            .collect();
        let Some(first) = first else {
            callback.io_completed(Ok(()));
            return Ok(());
        };
        // Openraft puts what waits into one append, which can be more than the log takes at once. The log makes batches
        // durable in order and fails for good, so the last one speaks for all.
        let mut next = first;
        let mut piece = Vec::new();
        let mut piece_bytes = 0;
        for record in records {
            if !piece.is_empty() && piece_bytes + record.len() > APPEND_BYTES_MAX {
                let mut batch = LogBatch::new();
                let count = piece.len() as u64;
                batch.append(self.group, next, std::mem::take(&mut piece));
                self.submit(batch, Box::new(drop)).await?;
                next += count;
                piece_bytes = 0;
            }
            piece_bytes += record.len();
            piece.push(record);
        }
        let mut batch = LogBatch::new();
        batch.append(self.group, next, piece);
        self.submit(batch, Box::new(move |result| callback.io_completed(result.map_err(into_io)))).await
    }

    async fn truncate_after(&mut self, last: Option<LogId>) -> Result<(), io::Error> {
        let from = last.map_or(0, |id| id.index + 1);
        let mut batch = LogBatch::new();
        batch.truncate(self.group, from);
        self.submit(batch, Box::new(drop)).await
    }

    async fn purge(&mut self, id: LogId) -> Result<(), io::Error> {
        let mut mark = BytesMut::with_capacity(17);
        bytes::BufMut::put_u8(&mut mark, wire::VERSION);
        wire::put_log_id(&mut mark, &id);
        let mut batch = LogBatch::new();
        batch.compact(self.group, id.index, mark.freeze());
        self.submit(batch, Box::new(drop)).await
    }
}
