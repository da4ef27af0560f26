//! A file of numbers of events, on the callers' side: see [`records`](crate::records) for which there are.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mainstay::governance::batch::{BatchExecutor, BatchSettings, BatchWriter};
use mainstay::prelude::*;
use parking_lot::Mutex;

use crate::numbers::Numbers;
use crate::origin::{Highest, Origin};

/// The longest line: more than a number has digits.
const LINE_BYTES_MAX: u64 = 32;

/// A file of numbers, one in a line.
#[derive(Debug, Clone)]
pub struct Journal {
    batch: BatchExecutor<u64>,
}

impl Journal {
    /// Opens the file for more.
    ///
    /// # Errors
    /// `Corrupt` if it does not end in lines; what keeps it from being opened.
    pub fn open(path: &Path) -> Result<Self> {
        let opened = OpenOptions::new().create(true).read(true).append(true).open(path);
        let mut file = opened.map_err(|error| failed("open", path, error))?;
        // A line that was torn by a kill is none, and must not become one.
        let length = whole_lines(&mut file).map_err(|error| failed("read", path, error))?;
        let length = length.ok_or_else(|| Origin::end_of(path).corrupt("there is no line where one should end"))?;
        file.set_len(length).map_err(|error| failed("cut", path, error))?;
        let tail = Tail { file, length, is_torn: false };
        let lines = Lines { path: path.to_owned(), tail: Mutex::new(tail) };
        Ok(Self { batch: BatchExecutor::start("journal", lines, BatchSettings::default())? })
    }

    /// Records an event; returns when it is recorded.
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

/// How far a file has whole lines; `None` if there is no end of a line near its end.
fn whole_lines(file: &mut File) -> io::Result<Option<u64>> {
    let length = file.metadata()?.len();
    let from = length.saturating_sub(LINE_BYTES_MAX);
    file.seek(SeekFrom::Start(from))?;
    let mut end = Vec::new();
    file.take(LINE_BYTES_MAX).read_to_end(&mut end)?;
    let last = end.iter().rposition(|byte| *byte == b'\n').map(|last| from + last as u64 + 1);
    Ok(last.or((from == 0).then_some(0)))
}

struct Lines {
    path: PathBuf,
    tail: Mutex<Tail<File>>,
}

/// The end of a file, to which lines are added as a whole.
struct Tail<F> {
    file: F,
    length: u64,
    /// True if there may be more than the length: a part of what could not be written.
    is_torn: bool,
}

/// What can be made longer and shorter.
trait Appended: Write {
    fn cut(&mut self, length: u64) -> io::Result<()>;
}

impl Appended for File {
    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }
}

impl<F: Appended> Tail<F> {
    /// Adds lines, or leaves nothing of them behind: half of a number is another number.
    fn add(&mut self, lines: &str) -> io::Result<()> {
        self.mend()?;
        let written = self.file.write_all(lines.as_bytes());
        if written.is_ok() {
            self.length += lines.len() as u64;
        } else {
            self.is_torn = true;
            // If that fails too, it is done before the next lines.
            let _ = self.mend();
        }
        written
    }

    fn mend(&mut self) -> io::Result<()> {
        if self.is_torn {
            self.file.cut(self.length)?;
            self.is_torn = false;
        }
        Ok(())
    }
}

impl BatchWriter<u64> for Lines {
    async fn write(&self, ids: &[u64]) -> Result<Vec<()>> {
        let lines: String = ids.iter().map(|id| format!("{id}\n")).collect();
        // Given to the operating system, which outlives this process. Whether the machine does is not the question here.
        self.tail.lock().add(&lines).map_err(|error| failed("write", &self.path, error))?;
        Ok(vec![(); ids.len()])
    }
}

/// What was recorded.
#[derive(Debug, Default)]
pub struct Recorded {
    /// The events.
    pub ids: Numbers,
    /// How many lines there are.
    pub lines: u64,
    /// The highest of them.
    pub highest: Highest,
}

/// The numbers in a file; none if there is no file. A line that was torn by a kill is none.
///
/// # Errors
/// `Corrupt` for a line that is no number of an event, naming it; what keeps the file from being read.
pub fn read(path: &Path) -> Result<Recorded> {
    let mut found = Recorded::default();
    let mut reader = match File::open(path) {
        Ok(file) => BufReader::new(file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
        Err(error) => return Err(failed("read", path, error)),
    };
    let (file, mut line) = (Arc::<Path>::from(path), Vec::new());
    loop {
        line.clear();
        let read = reader.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
        let read = read.map_err(|error| failed("read", path, error))? as u64;
        let Some(digits) = line.strip_suffix(b"\n") else {
            if read < LINE_BYTES_MAX {
                return Ok(found);
            }
            return Err(Origin::new(&file, found.lines + 1).corrupt("the line is too long to be a number"));
        };
        found.lines += 1;
        let origin = Origin::new(&file, found.lines);
        let id = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
        let id = id.ok_or_else(|| origin.corrupt("the line is no number"))?;
        found.ids.insert(id).map_err(|error| origin.corrupt(&error.to_string()))?;
        found.highest.see(id, origin);
    }
}

fn failed(doing: &str, path: &Path, error: io::Error) -> Error {
    Error::new(ErrorKind::Retry, format!("cannot {doing} {}", path.display())).with_source(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(path: &Path) -> Vec<u64> {
        read(path).unwrap().ids.iter().collect()
    }

    #[tokio::test]
    async fn what_was_recorded_is_read_and_what_was_torn_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        assert_eq!(ids(&path), [0; 0]);
        let journal = Journal::open(&path).unwrap();
        for id in [3, 1, 99_999_999, 42] {
            journal.record(id).await.unwrap();
        }
        journal.close().await;
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"77").unwrap();
        assert_eq!(ids(&path), [1, 3, 42, 99_999_999]);
        let journal = Journal::open(&path).unwrap();
        journal.record(5).await.unwrap();
        assert_eq!(ids(&path), [1, 3, 5, 42, 99_999_999]);
        assert_eq!(read(&path).unwrap().lines, 5);
    }

    #[test]
    fn a_line_that_is_no_number_of_an_event_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        for damaged in ["x7", "18446744073709551615", "100000000", "", "0000000000000000000000000000000000001"] {
            std::fs::write(&path, format!("1\n{damaged}\n3\n")).unwrap();
            let error = read(&path).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt);
            assert!(error.to_string().contains("journal, line 2"), "{error}");
        }
        std::fs::write(&path, "7".repeat(1000)).unwrap();
        assert_eq!(Journal::open(&path).unwrap_err().kind(), ErrorKind::Corrupt);
    }

    /// A disk that is full after so many bytes.
    struct Full {
        bytes: Vec<u8>,
        room: usize,
        cuts: bool,
    }

    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let fitting = bytes.len().min(self.room - self.bytes.len());
            if fitting == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.bytes.extend_from_slice(&bytes[..fitting]);
            Ok(fitting)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Appended for Full {
        fn cut(&mut self, length: u64) -> io::Result<()> {
            if !self.cuts {
                return Err(io::ErrorKind::Other.into());
            }
            self.bytes.truncate(length as usize);
            Ok(())
        }
    }

    #[test]
    fn of_lines_that_could_not_be_written_nothing_is_left_behind() {
        for cuts in [true, false] {
            let file = Full { bytes: b"1\n".to_vec(), room: 8, cuts };
            let mut tail = Tail { file, length: 2, is_torn: false };
            assert!(tail.add("12345\n6789\n").is_err());
            assert_eq!(tail.file.bytes == b"1\n", cuts);
            assert_eq!(tail.add("2\n").is_ok(), cuts, "not behind half of a line");
            tail.file.cuts = true;
            tail.add("3\n").unwrap();
            assert_eq!(tail.file.bytes, if cuts { &b"1\n2\n3\n"[..] } else { b"1\n3\n" });
        }
    }
}
