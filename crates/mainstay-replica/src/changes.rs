use std::collections::VecDeque;
use std::fmt;
use std::future::{Future as _, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use mainstay_core::task::{self, Blocking, Gone};
use mainstay_core::{Error, ErrorKind, PartitionId, Result, SequenceNumber, SetId};
use mainstay_store::state::WriteBatchRef;
use openraft::EntryPayload;
use tokio::task::coop;

use crate::command::{ParsedCommand, entry_after, last_sequence_number};
use crate::committed::Committed;
use crate::committer::stopped;
use crate::local::LocalSet;
use crate::log_storage::LogStorage;
use crate::notify_wait::NotifyWait;
use crate::progress::Progress;
use crate::raft::Entry;

/// How many bytes of the log one read brings, unless a single entry is longer: what a follower holds in memory.
const READ_BYTES_MAX: usize = 1 << 20;

/// How many entries are read without leaving the thread that polls. One who has waited for them finds them in the memory of the log,
/// because they were written a moment ago; only one who was not polled since may have to read them from the disk.
const ENTRIES_IN_PLACE_MAX: u64 = 64;

/// The commits of a partition in their order, each exactly once, as they are applied on this replica.
///
/// It reads the replicated log: the primary's commits reach a follower on any replica, and one that has lost its place to
/// a restart goes on at the [number](Changes::position) that it remembers. Commits that did nothing to the partition are
/// left out.
pub struct Changes {
    partition: PartitionId,
    set: SetId,
    source: Source,
    /// For what is not there yet.
    wait: NotifyWait,
    /// A read of the log that is under way, of what follows what was read.
    reading: Option<Blocking<Result<Vec<Entry>>>>,
    /// What was read and not delivered.
    ready: VecDeque<Committed>,
    /// All commits up to here were delivered, or did nothing to the partition.
    position: SequenceNumber,
    /// All commits up to here were read.
    read: SequenceNumber,
}

enum Source {
    Log { log: LogStorage, progress: Arc<Progress> },
    Local(Arc<LocalSet>),
}

impl fmt::Debug for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Changes({} in {} after {})", self.partition, self.set, self.position.0)
    }
}

impl Changes {
    pub(crate) fn of_log(
        partition: PartitionId,
        set: SetId,
        log: LogStorage,
        progress: Arc<Progress>,
        after: SequenceNumber,
    ) -> Result<Self> {
        progress.enter();
        let wait = progress.wait();
        let changes = Self::new(partition, set, Source::Log { log, progress }, wait, after);
        if let Source::Log { log, progress } = &changes.source {
            if let Some(why) = progress.stopped() {
                return Err(stopped(set, why));
            }
            if entry_after(after) < log.first().max(progress.floor()) {
                return Err(changes.too_old());
            }
        }
        Ok(changes)
    }

    pub(crate) fn of_local(partition: PartitionId, local: Arc<LocalSet>, after: SequenceNumber) -> Result<Self> {
        local.follow(after)?;
        let (set, wait) = (local.id(), local.wait());
        Ok(Self::new(partition, set, Source::Local(local), wait, after))
    }

    fn new(partition: PartitionId, set: SetId, source: Source, wait: NotifyWait, after: SequenceNumber) -> Self {
        Self { partition, set, source, wait, reading: None, ready: VecDeque::new(), position: after, read: after }
    }

    /// Waits for the next commit. Dropping the future loses nothing.
    ///
    /// # Errors
    /// `TooOld` if what follows is not kept any more: this follower, or its replica, was too far behind. `Fatal` when the
    /// replica has stopped; `Corrupt` if the log is damaged. Asking again gives the same answer.
    pub async fn next(&mut self) -> Result<Committed> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// [`next`](Changes::next), as a poll. All that it waits for stays in place until the next poll, which may be by
    /// another task.
    ///
    /// # Errors
    /// As [`next`](Changes::next).
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Committed>> {
        loop {
            // A follower that finds one commit after another never waits, and others of the runtime must have a chance all
            // the same; so for one that finds nothing but commits of other partitions.
            let budget = ready!(coop::poll_proceed(cx));
            if let Some(next) = self.ready.pop_front() {
                budget.made_progress();
                self.position = next.sequence_number;
                return Poll::Ready(Ok(next));
            }
            let read = ready!(self.poll_read(cx));
            budget.made_progress();
            read?;
        }
    }

    /// Where to go on after the commits that were delivered: what to give to
    /// [`Partition::changes`](crate::Partition::changes) another time. It moves on with the commits of other partitions, so
    /// that a partition in which nothing happens does not become too old.
    pub fn position(&self) -> SequenceNumber {
        if self.ready.is_empty() { self.read } else { self.position }
    }

    /// How many commits were read and not delivered.
    #[cfg(test)]
    pub(crate) fn held(&self) -> usize {
        self.ready.len()
    }

    /// Reads what comes next, when there is something.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let mut waited = false;
        while self.reading.is_none() && !self.find(waited)? {
            // Before it looks a second time, so that no commit can come in between.
            if !self.wait.arm() {
                ready!(self.wait.poll(cx));
                waited = true;
            }
        }
        let Some(reading) = &mut self.reading else { return Poll::Ready(Ok(())) };
        let read = ready!(Pin::new(reading).poll(cx));
        self.reading = None;
        Poll::Ready(match read {
            Ok(read) => self.take_read(read),
            // The runtime that was to read has ended, and with it the tasks that a wait for the disk could hold up.
            Err(Gone) => self.find(true).map(drop),
        })
    }

    /// Takes what comes next, or begins to read it. False if there is nothing.
    fn find(&mut self, in_place: bool) -> Result<bool> {
        match &self.source {
            Source::Local(local) => {
                let commits = local.commits_after(self.read, READ_BYTES_MAX)?;
                for (number, batches) in &commits {
                    self.take(*number, parsed(batches)?.into_iter());
                    self.read = *number;
                }
                Ok(!commits.is_empty())
            }
            Source::Log { log, progress } => {
                if let Some(why) = progress.stopped() {
                    return Err(stopped(self.set, why));
                }
                let (start, end) = (entry_after(self.read), progress.next());
                if start < progress.floor() {
                    return Err(self.too_old());
                }
                if start >= end {
                    return Ok(false);
                }
                if in_place {
                    let end = end.min(start.saturating_add(ENTRIES_IN_PLACE_MAX));
                    self.take_read(log.read(start, end, READ_BYTES_MAX))?;
                } else {
                    let log = log.clone();
                    self.reading = Some(task::start_blocking(move || log.read(start, end, READ_BYTES_MAX)));
                }
                Ok(true)
            }
        }
    }

    fn take_read(&mut self, read: Result<Vec<Entry>>) -> Result<()> {
        match read {
            Ok(entries) if entries.is_empty() => {
                let start = entry_after(self.read);
                Err(Error::corrupt(format!("entry {start} of set {} was applied and is not in the log", self.set)))
            }
            Ok(entries) => self.take_entries(&entries),
            Err(error) if error.kind() == ErrorKind::NotFound => Err(self.too_old()),
            Err(error) => Err(error),
        }
    }

    fn take_entries(&mut self, entries: &[Entry]) -> Result<()> {
        for entry in entries {
            let id = entry.log_id;
            if let EntryPayload::Normal(command) = &entry.payload {
                let parsed = ParsedCommand::parse(&command.0)?;
                // One of another epoch was not applied.
                if parsed.epoch.term() == id.leader_id.term {
                    for commit in parsed.commits(id.index) {
                        let batches = commit.1.iter().map(|(_, batch)| (command.0.slice_ref(batch.as_bytes()), *batch));
                        self.take(commit.0, batches);
                    }
                }
            }
            self.read = last_sequence_number(id.index + 1);
        }
        Ok(())
    }

    fn take<'a>(&mut self, number: SequenceNumber, batches: impl Iterator<Item = (Bytes, WriteBatchRef<'a>)>) {
        let is_refused = matches!(&self.source, Source::Log { progress, .. } if progress.is_refused(number));
        if number > self.read && !is_refused {
            self.ready.extend(Committed::new(self.partition, number, batches));
        }
    }

    fn too_old(&self) -> Error {
        too_old(self.set, self.read)
    }
}

impl Drop for Changes {
    fn drop(&mut self) {
        if let Source::Log { progress, .. } = &self.source {
            progress.leave();
        }
    }
}

fn parsed(batches: &[Bytes]) -> Result<Vec<(Bytes, WriteBatchRef<'_>)>> {
    batches.iter().map(|batch| Ok((batch.clone(), WriteBatchRef::parse(batch)?))).collect()
}

/// The error of a follower whose next commit is not kept any more.
pub(crate) fn too_old(set: SetId, after: SequenceNumber) -> Error {
    Error::new(
        ErrorKind::TooOld,
        format!(
            "the commits of set {set} after {} are too old: take a snapshot and follow from its sequence number",
            after.0
        ),
    )
}
