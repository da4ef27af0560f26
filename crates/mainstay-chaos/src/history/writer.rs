use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use mainstay::prelude::*;
use parking_lot::Mutex;

use super::{Event, Header, Phase, VERSION};
use crate::action::{Action, Answer};

/// Writes a history as it happens. What is written is with the system at once, so that a process that is killed loses nothing.
#[derive(Debug)]
pub struct Recorder {
    file: Mutex<Open>,
    began: Instant,
}

#[derive(Debug)]
struct Open {
    file: File,
    next_op: u64,
}

impl Recorder {
    /// Begins a history in a new file. Loads of one check have different runs.
    ///
    /// # Errors
    /// `Invalid`, naming the file that cannot be made or is there already.
    pub fn create(path: &Path, run: u32) -> Result<Self> {
        let text =
            || format!("the history {} cannot be written: give a path at which there is no file", path.display());
        let mut file = File::create_new(path).or_error_with(ErrorKind::Invalid, text)?;
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let began_ns = u64::try_from(since_epoch.as_nanos()).unwrap_or(u64::MAX);
        let header = Header { history: VERSION, run, began_ns };
        let line = serde_json::to_string(&header).or_error(ErrorKind::Invalid, "a header cannot be written as text")?;
        file.write_all(format!("{line}\n").as_bytes()).or_error_with(ErrorKind::Invalid, text)?;
        // Never 0: that is what a register holds that was never written.
        let next_op = (u64::from(run) << 32) + 1;
        Ok(Self { file: Mutex::new(Open { file, next_op }), began: Instant::now() })
    }

    /// Records that something is asked for, before it is; `action` is given the number of the operation.
    ///
    /// # Errors
    /// `Fatal` if it cannot be written.
    pub fn invoke(&self, action: impl FnOnce(u64) -> Action) -> Result<(u64, Action)> {
        let mut open = self.file.lock();
        let op = open.next_op;
        open.next_op += 1;
        let action = action(op);
        self.write(&mut open, op, Phase::Invoke(action.clone()))?;
        Ok((op, action))
    }

    /// Records what became of it, after it was told.
    ///
    /// # Errors
    /// `Fatal` if it cannot be written.
    pub fn end(&self, op: u64, outcome: Result<Answer>) -> Result<Phase> {
        let phase = Phase::of(outcome);
        self.write(&mut self.file.lock(), op, phase.clone())?;
        Ok(phase)
    }

    /// Nanoseconds since the beginning.
    pub fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// The time is taken under the lock: the order of the lines is that of the times.
    fn write(&self, open: &mut Open, op: u64, phase: Phase) -> Result<()> {
        let event = Event { at: self.now(), op, phase };
        let line = serde_json::to_string(&event).or_error(ErrorKind::Fatal, "an event cannot be written as text")?;
        let written = open.file.write_all(format!("{line}\n").as_bytes());
        written.or_error(ErrorKind::Fatal, "the history cannot be written: is the disk full?")
    }
}
