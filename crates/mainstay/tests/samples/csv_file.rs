//! A CSV file outside of the system, which one actor writes.
//!
//! The original truncates the file at every activation, and so loses what was written; it writes to a path made of the raw id;
//! it quotes nothing, and writes times as the machine's language has them; and nothing keeps an old primary from writing
//! beside a new one.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::path::PathBuf;
use std::sync::LazyLock;

use mainstay::prelude::*;
use mainstay::{ActorId, Epoch};
use serde::{Deserialize, Serialize};

/// Where the files are. It stands for a share that every node can reach.
static FOLDER: LazyLock<tempfile::TempDir> = LazyLock::new(|| tempfile::tempdir().expect("a temporary folder"));

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct CustomEvent {
    pub(crate) id: u64,
    pub(crate) kind: i64,
    pub(crate) time_ms: u64,
    pub(crate) payload: String,
}

impl CustomEvent {
    /// An event of a test.
    pub(crate) fn new(id: u64, kind: i64, payload: &str) -> Self {
        Self { id, kind, time_ms: 1_447_372_800_000 + id, payload: payload.into() }
    }

    pub(crate) fn row(&self) -> String {
        let payload = self.payload.replace('"', "\"\"");
        format!("{},{},{},\"{payload}\"\n", self.id, self.kind, self.time_ms)
    }
}

/// The file of one kind of events, open for its one owner.
pub(crate) struct CsvFile {
    file: File,
    fence: PathBuf,
    epoch: Epoch,
}

impl CsvFile {
    /// Opens the file of a kind of events, whose rows up to `length` are on record. What stands behind that was written by a
    /// turn that was not committed, and goes.
    ///
    /// Only numbers become names of files: no text from outside can lead elsewhere.
    pub(crate) fn open(kind: &ActorId, epoch: Epoch, length: u64) -> Result<Self> {
        let kind = kind.as_number().ok_or_else(|| Error::invalid(format!("events of kind {kind}: use a number")))?;
        let fence = FOLDER.path().join(format!("{kind}.epoch"));
        let open = || OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path(kind));
        let csv = Self { file: open().map_err(unwritten)?, fence, epoch };
        csv.check()?;
        fs::write(&csv.fence, epoch.0.to_string()).map_err(unwritten)?;
        csv.file.set_len(length).map_err(unwritten)?;
        Ok(csv)
    }

    /// Writes rows behind those on record. Returns the new length, which is to be recorded with the turn.
    pub(crate) fn append(&mut self, length: u64, rows: &str) -> Result<u64> {
        self.check()?;
        let mut write = || {
            self.file.set_len(length)?;
            self.file.seek(SeekFrom::Start(length))?;
            self.file.write_all(rows.as_bytes())?;
            self.file.sync_data()
        };
        write().map_err(unwritten)?;
        Ok(length + rows.len() as u64)
    }

    /// Refuses an owner of the past. A resource with a server of its own would do this itself, and without a gap.
    fn check(&self) -> Result<()> {
        let highest = fs::read_to_string(&self.fence).ok().and_then(|text| text.parse().ok()).map_or(Epoch(0), Epoch);
        if highest > self.epoch {
            let text = format!("the file belongs to epoch {highest}, and this is {}", self.epoch);
            return Err(Error::new(ErrorKind::NotPrimary { hint: None }, text));
        }
        Ok(())
    }
}

fn path(kind: i64) -> PathBuf {
    FOLDER.path().join(format!("{kind}.csv"))
}

fn unwritten(error: io::Error) -> Error {
    Error::new(ErrorKind::Retry, "the file cannot be written").with_source(error)
}

/// The rows of a kind of events.
pub(crate) fn rows(kind: i64) -> Vec<String> {
    let text = fs::read_to_string(path(kind)).unwrap_or_default();
    text.lines().map(|line| format!("{line}\n")).collect()
}

/// Makes the file of a kind of events one that cannot be written, or one that can be.
pub(crate) fn take_away(kind: i64, is_away: bool) {
    // A newer owner appears, and goes.
    let epoch = if is_away { u64::MAX } else { 0 };
    fs::write(FOLDER.path().join(format!("{kind}.epoch")), epoch.to_string()).unwrap();
}

#[test]
fn what_is_written_can_be_read_by_others() {
    let event = CustomEvent { time_ms: 7, ..CustomEvent::new(1, 2, "said \"no\", twice") };
    assert_eq!(event.row(), "1,2,7,\"said \"\"no\"\", twice\"\n");
}

#[test]
fn an_owner_of_the_past_cannot_write() {
    let kind = ActorId::from(901);
    let mut old = CsvFile::open(&kind, Epoch(3), 0).unwrap();
    let length = old.append(0, "old\n").unwrap();
    let mut new = CsvFile::open(&kind, Epoch(4), length).unwrap();
    assert!(old.append(length, "too late\n").unwrap_err().to_string().contains("epoch e4"));
    new.append(length, "new\n").unwrap();
    assert!(CsvFile::open(&kind, Epoch(3), 0).is_err());
    assert_eq!(rows(901), ["old\n", "new\n"]);
}
