use bytes::Bytes;

use super::GroupId;

/// Changes to several groups that become durable together, in the order in which they were added.
#[derive(Debug, Clone, Default)]
pub struct LogBatch {
    pub(super) writes: Vec<LogWrite>,
}

/// One change within a [`LogBatch`].
#[derive(Debug, Clone)]
pub(super) enum LogWrite {
    Append { group: GroupId, first: u64, entries: Vec<Bytes> },
    HardState { group: GroupId, state: Bytes },
    Truncate { group: GroupId, from: u64 },
    Compact { group: GroupId, through: u64, mark: Bytes },
    Remove { group: GroupId },
}

impl LogBatch {
    /// An empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds entries from an index, which must be the group's next (any, for a group without entries or compaction).
    pub fn append(&mut self, group: GroupId, first: u64, entries: Vec<Bytes>) -> &mut Self {
        self.push(LogWrite::Append { group, first, entries })
    }

    /// Replaces the hard state.
    pub fn hard_state(&mut self, group: GroupId, state: Bytes) -> &mut Self {
        self.push(LogWrite::HardState { group, state })
    }

    /// Drops the entries from an index on.
    pub fn truncate(&mut self, group: GroupId, from: u64) -> &mut Self {
        self.push(LogWrite::Truncate { group, from })
    }

    /// Drops the entries up to and with an index, which may lie beyond the last (the group then goes on after it),
    /// and remembers the mark.
    pub fn compact(&mut self, group: GroupId, through: u64, mark: Bytes) -> &mut Self {
        self.push(LogWrite::Compact { group, through, mark })
    }

    /// Forgets a group.
    pub fn remove(&mut self, group: GroupId) -> &mut Self {
        self.push(LogWrite::Remove { group })
    }

    /// True if there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// True if it adds entries.
    pub(super) fn has_entries(&self) -> bool {
        self.writes.iter().any(|write| matches!(write, LogWrite::Append { .. }))
    }

    /// True if it drops things and does nothing else, and so is worth its few bytes on a full disk.
    pub(super) fn only_drops(&self) -> bool {
        let drops = |write: &LogWrite| {
            matches!(write, LogWrite::Truncate { .. } | LogWrite::Compact { .. } | LogWrite::Remove { .. })
        };
        !self.writes.is_empty() && self.writes.iter().all(drops)
    }

    fn push(&mut self, write: LogWrite) -> &mut Self {
        self.writes.push(write);
        self
    }
}

impl LogWrite {
    /// The group that it changes.
    pub(super) fn group(&self) -> GroupId {
        match self {
            LogWrite::Append { group, .. }
            | LogWrite::HardState { group, .. }
            | LogWrite::Truncate { group, .. }
            | LogWrite::Compact { group, .. }
            | LogWrite::Remove { group } => *group,
        }
    }
}
