//! Where a number was read, to be named if it cannot be.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use mainstay::prelude::*;

/// A line of a file.
#[derive(Debug, Clone)]
pub struct Origin {
    file: Arc<Path>,
    line: Option<u64>,
}

impl Origin {
    /// A line by its number, from 1.
    pub fn new(file: &Arc<Path>, line: u64) -> Self {
        Self { file: file.clone(), line: Some(line) }
    }

    /// The last line, whatever its number.
    pub fn end_of(file: &Path) -> Self {
        Self { file: file.into(), line: None }
    }

    /// The error for what is wrong there.
    pub fn corrupt(&self, what: &str) -> Error {
        Error::corrupt(format!("{self}: {what}; the folder was changed by others, delete it to begin anew"))
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}, line {line}", self.file.display()),
            None => write!(f, "{}, at its end", self.file.display()),
        }
    }
}

/// The highest number that was read, and where.
#[derive(Debug, Default)]
pub struct Highest(Option<(u64, Origin)>);

impl Highest {
    /// Looks at a number.
    pub fn see(&mut self, id: u64, origin: Origin) {
        if self.0.as_ref().is_none_or(|(highest, _)| *highest < id) {
            self.0 = Some((id, origin));
        }
    }

    /// Refuses a number that cannot have been sent yet, when so many are known and no more were under way than a limit. It
    /// would have all numbers below it sent again.
    ///
    /// # Errors
    /// `Corrupt`, naming where it is.
    pub fn check(&self, known: u64, under_way_max: u64) -> Result<()> {
        match &self.0 {
            Some((id, origin)) if *id >= known + under_way_max => Err(origin.corrupt(&format!(
                "there is event {id}, although {known} are known in all and only {under_way_max} can have been under way"
            ))),
            _ => Ok(()),
        }
    }
}
