use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use mainstay::{Error, Result};

/// Where CSV files are, and when the next one begins.
#[derive(Debug, Clone)]
pub struct CsvSettings {
    /// The folder of the files, which is created if need be. Where owners may run on several nodes, all must reach it.
    pub folder: PathBuf,
    /// When the next file begins.
    pub rotation: CsvRotation,
    /// Whether each file begins with the names of the columns. Rows without names, such as tuples, have none anyway.
    pub has_header: bool,
    /// How long a batch may wait for another process to let go of the lock.
    pub lock_time_max: Duration,
    /// The time of day, by which files grow old.
    pub clock: fn() -> SystemTime,
}

/// When the next file begins. Whichever is reached first, looked at before each batch: a batch is in one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CsvRotation {
    /// A file of so many bytes is the last's.
    pub bytes_max: u64,
    /// A file of so many rows is the last's; `None` is no limit.
    pub rows_max: Option<u64>,
    /// A file of that age is the last's; `None` is no limit.
    pub age_max: Option<Duration>,
}

/// What operators can set of a folder of files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CsvTuning {
    pub(crate) folder: PathBuf,
    pub(crate) rotation: CsvRotation,
    pub(crate) lock_time_max: Duration,
}

impl Default for CsvTuning {
    fn default() -> Self {
        CsvSettings::in_folder("").tuning()
    }
}

impl Default for CsvRotation {
    fn default() -> Self {
        Self { bytes_max: 256 << 20, rows_max: None, age_max: None }
    }
}

impl CsvSettings {
    /// Files in this folder, with defaults for the rest.
    pub fn in_folder(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
            rotation: CsvRotation::default(),
            has_header: true,
            lock_time_max: Duration::from_secs(10),
            clock: SystemTime::now,
        }
    }

    /// The same with another rotation.
    #[must_use]
    pub fn with_rotation(mut self, rotation: CsvRotation) -> Self {
        self.rotation = rotation;
        self
    }

    /// What operators can set.
    pub(super) fn tuning(&self) -> CsvTuning {
        let Self { folder, rotation, lock_time_max, .. } = self.clone();
        CsvTuning { folder, rotation, lock_time_max }
    }

    /// The same with what operators have set.
    pub(super) fn tuned(&self, tuning: CsvTuning) -> Self {
        let CsvTuning { folder, rotation, lock_time_max } = tuning;
        Self { folder, rotation, lock_time_max, ..self.clone() }
    }

    pub(super) fn check(&self) -> Result<()> {
        let CsvRotation { bytes_max, rows_max, age_max } = &self.rotation;
        let zero = [
            ("rotation.bytes_max", *bytes_max == 0),
            ("rotation.rows_max", *rows_max == Some(0)),
            ("rotation.age_max", age_max.is_some_and(|age| age.is_zero())),
        ];
        match zero.iter().find(|(_, is_zero)| *is_zero) {
            Some((name, _)) => Err(Error::invalid(format!("{name} is zero: a file has at least one batch"))),
            None => Ok(()),
        }
    }
}
