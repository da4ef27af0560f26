//! Which events were acknowledged, on the callers' side: a file of their numbers. An event counts as acknowledged when its
//! number is in it, so that the next start can hold the system to its word.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use mainstay::prelude::*;
use mainstay_governance::batch::{BatchExecutor, BatchSettings, BatchWriter};
use parking_lot::Mutex;

/// The file of acknowledged numbers, one in a line.
#[derive(Debug, Clone)]
pub struct Journal {
    batch: BatchExecutor<u64>,
}

struct Lines {
    path: PathBuf,
    file: Mutex<File>,
}

impl Journal {
    /// Opens the file for more.
    ///
    /// # Errors
    /// What keeps it from being opened.
    pub fn open(path: &Path) -> Result<Self> {
        let opened = OpenOptions::new().create(true).append(true).open(path);
        let file = opened.map_err(|error| failed("open", path, error))?;
        // A line that was torn by a kill is none, and must not become one.
        let text = std::fs::read(path).map_err(|error| failed("read", path, error))?;
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        file.set_len(whole as u64).map_err(|error| failed("cut", path, error))?;
        let lines = Lines { path: path.to_owned(), file: Mutex::new(file) };
        Ok(Self { batch: BatchExecutor::start("journal", lines, BatchSettings::default())? })
    }

    /// Records that an event was acknowledged; returns when it is recorded.
    ///
    /// # Errors
    /// What keeps it from being written.
    pub async fn record(&self, id: u64) -> Result<()> {
        self.batch.submit(id).await
    }

    /// Writes what is under way, and ends.
    pub async fn close(&self) {
        self.batch.close().await;
    }
}

impl BatchWriter<u64> for Lines {
    async fn write(&self, ids: &[u64]) -> Result<Vec<()>> {
        let lines: String = ids.iter().map(|id| format!("{id}\n")).collect();
        // Given to the operating system, which outlives this process. Whether the machine does is not the question here.
        let written = self.file.lock().write_all(lines.as_bytes());
        written.map_err(|error| failed("write", &self.path, error))?;
        Ok(vec![(); ids.len()])
    }
}

/// The numbers in a file; none if there is no file. A line that was torn by a kill is none.
///
/// # Errors
/// What keeps it from being read.
pub fn read(path: &Path) -> Result<Vec<u64>> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed("read", path, error)),
    };
    let lines = text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
    Ok(lines.filter_map(|line| line.parse().ok()).collect())
}

fn failed(doing: &str, path: &Path, error: std::io::Error) -> Error {
    Error::new(ErrorKind::Retry, format!("cannot {doing} {}", path.display())).with_source(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_was_recorded_is_read_and_what_was_torn_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        assert_eq!(read(&path).unwrap(), [0; 0]);
        let journal = Journal::open(&path).unwrap();
        for id in [3, 1, 42] {
            journal.record(id).await.unwrap();
        }
        journal.close().await;
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"77").unwrap();
        assert_eq!(read(&path).unwrap(), [3, 1, 42]);
        let journal = Journal::open(&path).unwrap();
        journal.record(5).await.unwrap();
        assert_eq!(read(&path).unwrap(), [3, 1, 42, 5]);
    }
}
