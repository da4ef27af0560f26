//! Known bugs that a run can be given, to show that the checkers find them.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use mainstay_core::Result;
use mainstay_store::log::{Done, GroupId, GroupView, LogBatch, NodeLog, Refused};

/// A bug that is known to be fatal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlantedBug {
    /// The node log acknowledges before it has synced.
    AcknowledgeBeforeSync,
    /// A replica that restarts has forgotten whom it voted for, and in which epoch.
    ForgetHardState,
    /// The node log says that all is well when its disk has failed.
    IgnoreDiskErrors,
    /// Something of a node that has stopped still has its folder open.
    KeepFolderLocked,
    /// Reads of shared registers are served by whatever replica is asked, of what it has applied.
    ReadAnywhere,
    /// Commits whose outcome is unknown are committed once more.
    RepeatUnknown,
    /// A primary serves reads for as long as it has not heard of another.
    #[cfg(feature = "planted-bugs")]
    ReadWithoutLease,
    /// A primary that lost its lease and has it back serves at once, with proposals of before still under way.
    #[cfg(feature = "planted-bugs")]
    ServeUnsettled,
}

impl PlantedBug {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Self> {
        [
            Self::AcknowledgeBeforeSync,
            Self::ForgetHardState,
            Self::IgnoreDiskErrors,
            Self::KeepFolderLocked,
            Self::ReadAnywhere,
            Self::RepeatUnknown,
            #[cfg(feature = "planted-bugs")]
            Self::ReadWithoutLease,
            #[cfg(feature = "planted-bugs")]
            Self::ServeUnsettled,
        ]
        .into_iter()
    }

    /// What it is called on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::AcknowledgeBeforeSync => "acknowledge-before-sync",
            Self::ForgetHardState => "forget-hard-state",
            Self::IgnoreDiskErrors => "ignore-disk-errors",
            Self::KeepFolderLocked => "keep-folder-locked",
            Self::ReadAnywhere => "read-anywhere",
            Self::RepeatUnknown => "repeat-unknown",
            #[cfg(feature = "planted-bugs")]
            Self::ReadWithoutLease => "read-without-lease",
            #[cfg(feature = "planted-bugs")]
            Self::ServeUnsettled => "serve-unsettled",
        }
    }

    /// Puts the bug between a replica and its log, where it is of that kind.
    pub(crate) fn plant(bug: Option<Self>, log: Arc<dyn NodeLog>) -> Arc<dyn NodeLog> {
        match bug {
            Some(Self::AcknowledgeBeforeSync) => Arc::new(EagerLog(log)),
            Some(Self::ForgetHardState) => Arc::new(ForgetfulLog::new(log)),
            Some(Self::IgnoreDiskErrors) => Arc::new(HopefulLog(log)),
            _ => log,
        }
    }
}

#[derive(Debug)]
struct EagerLog(Arc<dyn NodeLog>);

impl NodeLog for EagerLog {
    fn submit(&self, batch: LogBatch, done: Done) -> Result<(), Box<Refused>> {
        self.0.submit(batch, Box::new(drop))?;
        done(Ok(()));
        Ok(())
    }

    fn read(&self, group: GroupId, range: Range<u64>, bytes_max: usize) -> Result<Vec<Bytes>> {
        self.0.read(group, range, bytes_max)
    }

    fn lengths(&self, group: GroupId, range: Range<u64>) -> Result<Vec<u64>> {
        self.0.lengths(group, range)
    }

    fn group(&self, group: GroupId) -> GroupView {
        self.0.group(group)
    }

    fn groups(&self) -> Vec<GroupId> {
        self.0.groups()
    }
}

#[derive(Debug)]
struct HopefulLog(Arc<dyn NodeLog>);

impl NodeLog for HopefulLog {
    fn submit(&self, batch: LogBatch, done: Done) -> Result<(), Box<Refused>> {
        self.0.submit(batch, Box::new(|_| done(Ok(()))))
    }

    fn read(&self, group: GroupId, range: Range<u64>, bytes_max: usize) -> Result<Vec<Bytes>> {
        self.0.read(group, range, bytes_max)
    }

    fn lengths(&self, group: GroupId, range: Range<u64>) -> Result<Vec<u64>> {
        self.0.lengths(group, range)
    }

    fn group(&self, group: GroupId) -> GroupView {
        self.0.group(group)
    }

    fn groups(&self) -> Vec<GroupId> {
        self.0.groups()
    }
}

/// Hides the hard states that were there when the log was opened.
#[derive(Debug)]
struct ForgetfulLog {
    log: Arc<dyn NodeLog>,
    forgotten: Vec<(GroupId, Option<Bytes>)>,
}

impl ForgetfulLog {
    fn new(log: Arc<dyn NodeLog>) -> Self {
        let forgotten = log.groups().into_iter().map(|group| (group, log.group(group).hard_state)).collect();
        Self { log, forgotten }
    }
}

impl NodeLog for ForgetfulLog {
    fn submit(&self, batch: LogBatch, done: Done) -> Result<(), Box<Refused>> {
        self.log.submit(batch, done)
    }

    fn read(&self, group: GroupId, range: Range<u64>, bytes_max: usize) -> Result<Vec<Bytes>> {
        self.log.read(group, range, bytes_max)
    }

    fn lengths(&self, group: GroupId, range: Range<u64>) -> Result<Vec<u64>> {
        self.log.lengths(group, range)
    }

    fn group(&self, group: GroupId) -> GroupView {
        let mut view = self.log.group(group);
        if self.forgotten.iter().any(|(other, state)| *other == group && *state == view.hard_state) {
            view.hard_state = None;
        }
        view
    }

    fn groups(&self) -> Vec<GroupId> {
        self.log.groups()
    }
}
