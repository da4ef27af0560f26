use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use mainstay_core::{Error, Result};
use parking_lot::Mutex;

use super::{Done, GroupId, GroupView, LogBatch, NodeLog, Refused};

/// A log that fails where a test asks for it, and is otherwise the log that it wraps.
///
/// A failure keeps the promises of [`NodeLog`]: a batch that is refused is not there; after a batch has failed to
/// become durable, every later one is refused.
#[derive(Debug)]
pub struct FaultyLog<L> {
    log: L,
    faults: Mutex<Faults>,
    /// A batch was told that it is not durable. One that was accepted before and stands behind it is told the same.
    failed: Arc<AtomicBool>,
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
        Self { log, faults: Mutex::default(), failed: Arc::default() }
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
    fn submit(&self, batch: LogBatch, done: Done) -> Result<(), Box<Refused>> {
        let mut faults = self.faults.lock();
        if faults.stopped {
            return Err(Refused::new(stopped(), batch, done));
        }
        if let Some(error) = strike(&mut faults.refuse) {
            return Err(Refused::new(error, batch, done));
        }
        let lost = faults.lose.as_mut().is_some_and(|left| {
            *left -= 1;
            *left == 0
        });
        if lost {
            faults.lose = None;
            // Before it is submitted: nothing may be accepted behind it.
            faults.stopped = true;
        }
        // The log may call back, and be called from there, before it returns.
        drop(faults);
        let failed = Arc::clone(&self.failed);
        let submitted = self.log.submit(
            batch,
            Box::new(move |result| {
                let fails = failed.fetch_or(lost, Ordering::SeqCst) || lost;
                done(if fails { Err(stopped()) } else { result });
            }),
        );
        if lost && submitted.is_err() {
            // What the log refuses by itself has not failed to become durable.
            self.faults.lock().stopped = false;
        }
        submitted
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

    fn check_space(&self) -> Result<()> {
        self.log.check_space()
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
    use std::path::Path;

    use mainstay_core::ErrorKind;

    use super::super::{LogOptions, MemoryLog, SegmentLog};
    use super::*;
    use crate::disk::sim::SimDisk;

    fn batch(index: u64) -> LogBatch {
        let mut batch = LogBatch::new();
        batch.append(GroupId(1), index, vec![Bytes::from_static(b"entry")]);
        batch
    }

    #[test]
    fn a_faulty_log_without_faults_conforms() {
        super::super::conformance::check(&|| FaultyLog::new(MemoryLog::new()));
        super::super::conformance::check_durable(&|| {
            let disk = SimDisk::new(0);
            let options = LogOptions { segment_bytes: 64 << 10, ..LogOptions::default() };
            let open = move || SegmentLog::open(Arc::new(disk.clone()), Path::new("/log"), options.clone()).unwrap();
            Box::new(move || FaultyLog::new(open()))
        });
    }

    /// A log that lets somebody else come in between once, before or after it takes a batch.
    struct Interrupted {
        log: MemoryLog,
        before: Interruption,
        after: Interruption,
    }

    type Interruption = Mutex<Option<Box<dyn FnOnce() + Send>>>;

    fn interrupt(interruption: &Interruption) {
        let run = interruption.lock().take();
        run.into_iter().for_each(|run| run());
    }

    impl std::fmt::Debug for Interrupted {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.debug_struct("Interrupted").finish_non_exhaustive()
        }
    }

    impl NodeLog for Interrupted {
        fn submit(&self, entries: LogBatch, done: Done) -> Result<(), Box<Refused>> {
            interrupt(&self.before);
            let submitted = self.log.submit(entries, done);
            interrupt(&self.after);
            submitted
        }

        fn read(&self, group: GroupId, range: Range<u64>, bytes_max: usize) -> Result<Vec<Bytes>> {
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

    /// Submits a batch, and another in the midst of that; how both end. The first or the second fails to become durable.
    fn interrupted(first: LogBatch, before: Option<LogBatch>, after: Option<LogBatch>, fails: u64) -> Vec<(u32, bool)> {
        let inner = Interrupted { log: MemoryLog::new(), before: Mutex::default(), after: Mutex::default() };
        let log = Arc::new(FaultyLog::new(inner));
        let ends = Arc::new(Mutex::new(Vec::new()));
        let submit = |log: &FaultyLog<Interrupted>, number: u32, batch: LogBatch, ends: &Arc<Mutex<Vec<_>>>| {
            let noted = Arc::clone(ends);
            let done = Box::new(move |result: Result<()>| noted.lock().push((number, result.is_ok())));
            if log.submit(batch, done).is_err() {
                ends.lock().push((number, false));
            }
        };
        for (place, batch) in [(&log.inner().before, before), (&log.inner().after, after)] {
            let (outer, ends) = (Arc::clone(&log), Arc::clone(&ends));
            *place.lock() =
                batch.map(|batch| -> Box<dyn FnOnce() + Send> { Box::new(move || submit(&outer, 2, batch, &ends)) });
        }
        log.fail_sync(fails);
        submit(&log, 1, first, &ends);
        ends.lock().clone()
    }

    #[test]
    fn nothing_is_durable_behind_a_batch_that_fails() {
        // Somebody comes right behind the one that fails, and is refused.
        assert_eq!(interrupted(batch(1), None, Some(batch(2)), 1), [(1, false), (2, false)]);
        // The one that fails overtakes somebody who was let in before it.
        assert_eq!(interrupted(batch(2), Some(batch(1)), None, 2), [(2, false), (1, false)]);
        assert_eq!(interrupted(batch(2), Some(batch(1)), None, 3), [(2, true), (1, true)]);
    }

    #[test]
    fn a_batch_that_the_log_refuses_has_not_failed() {
        let log = FaultyLog::new(MemoryLog::new());
        log.submit(batch(1), Box::new(drop)).unwrap();
        log.fail_sync(1);
        assert_eq!(log.submit(batch(9), Box::new(drop)).unwrap_err().kind(), ErrorKind::Invalid);
        log.submit(batch(2), Box::new(drop)).unwrap();
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
