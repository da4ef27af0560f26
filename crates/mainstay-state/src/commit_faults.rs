use std::future::Future;

use mainstay_core::{Error, ErrorKind, Result, SequenceNumber};
use parking_lot::Mutex;

/// What becomes of a commit that a test lets fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CommitFault {
    /// It is refused as on a full disk, with `StorageFull`: nothing of it happens.
    Refused,
    /// It never arrives: nothing of it happens, and its caller gets `OutcomeUnknown`.
    RequestLost,
    /// It happens, and its caller gets `OutcomeUnknown`.
    AnswerLost,
}

/// Lets the commits of actors and services fail, for tests of what happens then.
#[derive(Debug, Default)]
pub struct CommitFaults {
    next: Mutex<Option<(CommitFault, u32)>>,
}

impl CommitFaults {
    /// Lets the next commits fail, this many. It replaces what was said before; none are let off by zero.
    pub fn fail_next(&self, fault: CommitFault, commits: u32) {
        *self.next.lock() = (commits > 0).then_some((fault, commits));
    }

    /// Carries out a commit, unless it is to fail.
    ///
    /// # Errors
    /// Those of the commit, and the one that a test asked for.
    pub async fn commit(&self, commit: impl Future<Output = Result<SequenceNumber>>) -> Result<SequenceNumber> {
        match self.take() {
            None => commit.await,
            Some(CommitFault::Refused) => Err(refused()),
            Some(CommitFault::RequestLost) => Err(unknown()),
            Some(CommitFault::AnswerLost) => commit.await.and_then(|_| Err(unknown())),
        }
    }

    /// As [`commit`](Self::commit), for one that takes no time.
    pub(crate) fn commit_at_once(&self, commit: impl FnOnce() -> Result<SequenceNumber>) -> Result<SequenceNumber> {
        match self.take() {
            None => commit(),
            Some(CommitFault::Refused) => Err(refused()),
            Some(CommitFault::RequestLost) => Err(unknown()),
            Some(CommitFault::AnswerLost) => commit().and_then(|_| Err(unknown())),
        }
    }

    fn take(&self) -> Option<CommitFault> {
        let mut next = self.next.lock();
        let (fault, left) = next.take()?;
        *next = left.checked_sub(1).filter(|left| *left > 0).map(|left| (fault, left));
        Some(fault)
    }
}

fn refused() -> Error {
    Error::new(ErrorKind::StorageFull, "this commit was made to fail by the test")
}

fn unknown() -> Error {
    Error::new(
        ErrorKind::OutcomeUnknown,
        "the outcome of this commit was made unknown by the test: read before you write it again",
    )
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test]
    async fn each_fault_does_what_it_says_as_often_as_it_was_asked() {
        let (faults, happened) = (CommitFaults::default(), Cell::new(0));
        let commit = || {
            happened.set(happened.get() + 1);
            Ok(SequenceNumber(happened.get()))
        };
        for (fault, kind, happens) in [
            (CommitFault::Refused, ErrorKind::StorageFull, 0),
            (CommitFault::RequestLost, ErrorKind::OutcomeUnknown, 0),
            (CommitFault::AnswerLost, ErrorKind::OutcomeUnknown, 2),
        ] {
            happened.set(0);
            faults.fail_next(fault, 2);
            assert_eq!(faults.commit(async { commit() }).await.unwrap_err().kind(), kind);
            assert_eq!(faults.commit_at_once(commit).unwrap_err().kind(), kind);
            assert_eq!(happened.get(), happens, "{fault:?}");
            faults.commit(async { commit() }).await.unwrap();
            faults.commit_at_once(commit).unwrap();
            assert_eq!(happened.get(), happens + 2, "{fault:?}");
        }
        faults.fail_next(CommitFault::Refused, 5);
        faults.fail_next(CommitFault::Refused, 0);
        faults.commit_at_once(commit).unwrap();
    }
}
