use std::collections::VecDeque;
use std::fmt;
use std::pin::pin;
use std::sync::Arc;

use bytes::Bytes;
use mainstay_core::{Epoch, Error, ErrorKind, PartitionId, Result, SequenceNumber, SetId, task};
use mainstay_store::state::WriteBatchRef;
use openraft::EntryPayload;

use crate::command::{ParsedCommand, entry_after, last_sequence_number};
use crate::committed::Committed;
use crate::committer::stopped;
use crate::local::LocalSet;
use crate::log_storage::LogStorage;
use crate::progress::Progress;
use crate::raft::Entry;

/// How many bytes of the log one read brings, unless a single entry is longer: what a follower holds in memory.
const READ_BYTES_MAX: usize = 1 << 20;

/// The commits of a partition in their order, each exactly once, as they are applied on this replica.
///
/// It reads the replicated log: the primary's commits reach a follower on any replica, and one that has lost its place to
/// a restart goes on at the [number](Changes::position) that it remembers. Commits that did nothing to the partition are
/// left out.
pub struct Changes {
    partition: PartitionId,
    set: SetId,
    source: Source,
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
        let changes = Self::new(partition, set, Source::Log { log, progress }, after);
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
        Ok(Self::new(partition, local.id(), Source::Local(local), after))
    }

    fn new(partition: PartitionId, set: SetId, source: Source, after: SequenceNumber) -> Self {
        Self { partition, set, source, ready: VecDeque::new(), position: after, read: after }
    }

    /// Waits for the next commit. Dropping the future loses nothing.
    ///
    /// # Errors
    /// `TooOld` if what follows is not kept any more: this follower, or its replica, was too far behind. `Fatal` when the
    /// replica has stopped; `Corrupt` if the log is damaged. Asking again gives the same answer.
    pub async fn next(&mut self) -> Result<Committed> {
        loop {
            if let Some(next) = self.ready.pop_front() {
                self.position = next.sequence_number;
                return Ok(next);
            }
            match &self.source {
                Source::Log { log, progress } => {
                    let entries = self.next_entries(log, progress).await?;
                    self.take_entries(&entries)?;
                }
                Source::Local(local) => {
                    let commits = local.commits_after(self.read, READ_BYTES_MAX).await?;
                    for (number, batches) in &commits {
                        self.take(*number, parsed(batches)?.into_iter());
                        self.read = *number;
                    }
                }
            }
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

    /// The next piece of the log that is applied, when there is one.
    async fn next_entries(&self, log: &LogStorage, progress: &Progress) -> Result<Vec<Entry>> {
        let start = entry_after(self.read);
        let mut waited = false;
        let end = loop {
            let mut woken = pin!(progress.woken());
            woken.as_mut().enable();
            if let Some(why) = progress.stopped() {
                return Err(stopped(self.set, why));
            }
            let end = progress.next();
            if start < progress.floor() {
                return Err(self.too_old());
            }
            if start < end {
                break end;
            }
            woken.await;
            waited = true;
        };
        let read = if waited {
            // It was written a moment ago, so the log has it in memory.
            log.read(start, end, READ_BYTES_MAX)
        } else {
            let log = log.clone();
            task::blocking(move || log.read(start, end, READ_BYTES_MAX)).await
        };
        match read {
            Ok(entries) if entries.is_empty() => {
                Err(Error::corrupt(format!("entry {start} of set {} was applied and is not in the log", self.set)))
            }
            Ok(entries) => Ok(entries),
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
                if parsed.epoch == Epoch(id.leader_id.term) {
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
