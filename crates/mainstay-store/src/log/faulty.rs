use std::ops::Range;

use bytes::Bytes;
use mainstay_core::{Error, Result};
use parking_lot::Mutex;

use super::{Done, GroupId, GroupView, LogBatch, NodeLog};

/// A log that fails where a test asks for it, and is otherwise the log that it wraps.
///
/// A failure keeps the promises of [`NodeLog`]: a batch that is refused is not there; after a batch has failed to
/// become durable, every later one is refused.
#[derive(Debug)]
pub struct FaultyLog<L> {
    log: L,
    faults: Mutex<Faults>,
}

#[derive(Debug, Default)]
struct Faults {
    refuse: Option<(u64, Error)>,
    lose: Option<u64>,
    read: Option<(u64, Error)>,
    stopped: bool,
}

impl<L: NodeLog> FaultyLog<L> {
    /// Wraps a log; nothing fails until it is asked for.
    pub fn new(log: L) -> Self {
        Self { log, faults: Mutex::default() }
    }

    /// The log inside.
    pub fn inner(&self) -> &L {
        &self.log
    }

    /// Refuses the nth submit from now (1 is the next) with an error; later ones are accepted.
    pub fn refuse_submit(&self, nth: u64, error: Error) {
        self.faults.lock().refuse = Some((nth.max(1), error));
    }

    /// Accepts the nth submit from now and then fails to make it durable: `done` gets an error, and so does every
    /// later batch. What becomes of the failed batch is open, as after a failed sync: it may be found after a restart.
    pub fn fail_sync(&self, nth: u64) {
        self.faults.lock().lose = Some(nth.max(1));
    }

    /// Fails the nth read from now with an error.
    pub fn fail_read(&self, nth: u64, error: Error) {
        self.faults.lock().read = Some((nth.max(1), error));
    }
}

fn stopped() -> Error {
    Error::fatal("the node log has stopped after a failed sync (injected): open it anew")
}

/// Counts down; the error when its time has come.
fn strike(fault: &mut Option<(u64, Error)>) -> Option<Error> {
    let (left, _) = fault.as_mut()?;
    *left -= 1;
    if *left > 0 {
        return None;
    }
    fault.take().map(|(_, error)| error)
}

impl<L: NodeLog> NodeLog for FaultyLog<L> {
    fn submit(&self, batch: LogBatch, done: Done) -> Result<()> {
        let mut faults = self.faults.lock();
        if faults.stopped {
            return Err(stopped());
        }
        if let Some(error) = strike(&mut faults.refuse) {
            return Err(error);
        }
        if let Some(left) = &mut faults.lose {
            *left -= 1;
            if *left == 0 {
                faults.lose = None;
                drop(faults);
                // What the log refuses by itself has not failed to become durable.
                self.log.submit(batch, Box::new(move |_| done(Err(stopped()))))?;
                self.faults.lock().stopped = true;
                return Ok(());
            }
        }
        drop(faults);
        self.log.submit(batch, done)
    }

    fn read(&self, group: GroupId, range: Range<u64>, bytes_max: usize) -> Result<Vec<Bytes>> {
        if let Some(error) = strike(&mut self.faults.lock().read) {
            return Err(error);
        }
        self.log.read(group, range, bytes_max)
    }

    fn lengths(&self, group: GroupId, range: Range<u64>) -> Result<Vec<u64>> {
        self.log.lengths(group, range)
    }

    fn group(&self, group: GroupId) -> GroupView {
        self.log.group(group)
    }

    fn groups(&self) -> Vec<GroupId> {
        self.log.groups()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use mainstay_core::ErrorKind;

    use super::super::MemoryLog;
    use super::*;

    fn batch(index: u64) -> LogBatch {
        let mut batch = LogBatch::new();
        batch.append(GroupId(1), index, vec![Bytes::from_static(b"entry")]);
        batch
    }

    #[test]
    fn a_faulty_log_without_faults_conforms() {
        super::super::conformance::check(&|| FaultyLog::new(MemoryLog::new()));
    }

    #[test]
    fn what_is_refused_is_not_there_and_what_failed_stops_the_log() {
        let log = FaultyLog::new(MemoryLog::new());
        let results = Arc::new(Mutex::new(Vec::new()));
        let note = || -> Done {
            let results = Arc::clone(&results);
            Box::new(move |result| results.lock().push(result.is_ok()))
        };
        log.refuse_submit(2, Error::new(ErrorKind::Overloaded, "injected"));
        log.submit(batch(1), note()).unwrap();
        assert_eq!(log.submit(batch(2), note()).unwrap_err().kind(), ErrorKind::Overloaded);
        assert_eq!(log.group(GroupId(1)).next, 2);
        log.submit(batch(2), note()).unwrap();
        log.fail_read(1, Error::corrupt("injected"));
        assert_eq!(log.read(GroupId(1), 1..3, 1000).unwrap_err().kind(), ErrorKind::Corrupt);
        assert_eq!(log.read(GroupId(1), 1..3, 1000).unwrap().len(), 2);
        log.fail_sync(1);
        log.submit(batch(3), note()).unwrap();
        assert_eq!(log.submit(batch(4), note()).unwrap_err().kind(), ErrorKind::Fatal);
        assert_eq!(*results.lock(), [true, true, false]);
    }
}
