use std::fmt;

use mainstay_core::{Error, ErrorKind};

use crate::log::{Done, LogBatch};

/// A batch that a log did not take, with the reason.
pub struct Refused {
    /// Why the log did not take it.
    pub error: Error,
    /// The batch, as it was submitted.
    pub batch: LogBatch,
    /// Its callback, which was not called.
    pub done: Done,
}

impl Refused {
    pub(crate) fn new(error: Error, batch: LogBatch, done: Done) -> Box<Self> {
        Box::new(Self { error, batch, done })
    }

    /// What the caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        self.error.kind()
    }
}

impl fmt::Debug for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.error, f)
    }
}

impl From<Box<Refused>> for Error {
    fn from(refused: Box<Refused>) -> Self {
        refused.error
    }
}
