use std::fs::{self, File, OpenOptions};
use std::io::{Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mainstay::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use super::error::{failed, unopened};
use super::name::file_stem;
use super::place::{Identity, read_at, write_at};
use super::scan::scan;
use super::settings::CsvSettings;
use super::sidecar::{Hint, Locked, Sidecar};
use crate::owner::{Claim, Opening};

/// The largest number of a file. Whatever has a larger one in its name is not of a series.
const FILE_NUMBER_MAX: u32 = 999_999_999;

/// After how many bytes it is noted again how far a file is whole: no more than that has to be read when it is opened.
const NOTED_EVERY_BYTES: u64 = 1 << 20;

/// A place in a series of files: everything before it was written.
///
/// Whoever keeps it, together with what was written, knows after a crash what was not: see
/// [`CsvSink::append_after`](super::CsvSink::append_after).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CsvMark {
    /// The number of the file; its name ends in it.
    pub file: u32,
    /// How many bytes of it.
    pub length: u64,
    /// How many rows that are, without the header.
    pub rows: u64,
}

impl CsvMark {
    /// This one, or a floor that is behind it.
    fn not_before(self, floor: Option<Self>) -> Self {
        match floor {
            Some(floor) if (self.file, self.length) < (floor.file, floor.length) => floor,
            _ => self,
        }
    }
}

/// The files of one key, with blocking calls.
pub(super) struct Series {
    settings: CsvSettings,
    stem: String,
    claim: Claim,
    sidecar: Sidecar,
    /// `None` after an error that leaves in doubt what it has: it is opened anew.
    current: Option<Current>,
}

/// The file that is written.
struct Current {
    file: File,
    path: PathBuf,
    identity: Identity,
    number: u32,
    length: u64,
    rows: u64,
    /// How far it was noted to be whole, if that is known.
    noted: Option<u64>,
    begun: SystemTime,
    /// Its first line, once it is known.
    header: Option<Vec<u8>>,
}

/// What is to be appended.
pub(super) struct Rows {
    pub(super) bytes: Vec<u8>,
    pub(super) count: u64,
    /// The line of column names; empty if there is none.
    pub(super) header: Vec<u8>,
}

impl Series {
    /// Opens the files of a key, and makes this the one writer of them.
    ///
    /// # Errors
    /// `NotPrimary` if a newer writer has opened them, `Fatal` if they are somebody else's; what keeps the files from being
    /// opened.
    pub(super) fn open(settings: CsvSettings, opening: &Opening) -> Result<Self> {
        settings.check()?;
        let (folder, stem, claim) = (&settings.folder, file_stem(&opening.key), opening.claim());
        fs::create_dir_all(folder).map_err(|error| unopened("create the folder", folder, error))?;
        let mut sidecar = Sidecar::open(folder.join(format!("{stem}-owner.fence")))?;
        let mut locked = sidecar.lock(settings.lock_time_max)?;
        locked.examine(&claim)?;
        let current = Current::find(&settings, &stem, &mut locked)?;
        locked.admit(&claim, current.mark())?;
        sync_folder(folder)?;
        drop(locked);
        Ok(Self { settings, stem, claim, sidecar, current: Some(current) })
    }

    /// Where the next row goes.
    pub(super) fn end(&mut self) -> Result<CsvMark> {
        let Self { settings, stem, claim, sidecar, current } = self;
        let mut locked = sidecar.lock(settings.lock_time_max)?;
        locked.check(claim)?;
        Ok(Current::refreshed(current, settings, stem, &mut locked)?.mark())
    }

    /// Appends rows, durably, or leaves the files as they were. With a mark, what is behind it is removed first: it was
    /// written by somebody who did not live to know. But what was there before this life of the writer began, stays: another may
    /// have known.
    ///
    /// # Errors
    /// `NotPrimary` if a newer writer has opened the files; `Corrupt` if they do not reach to the mark; what keeps them from
    /// being written.
    pub(super) fn append(&mut self, rows: &Rows, after: Option<CsvMark>) -> Result<CsvMark> {
        let Self { settings, stem, claim, sidecar, current } = self;
        let mut locked = sidecar.lock(settings.lock_time_max)?;
        let floor = locked.check(claim)?;
        let after = after.map(|mark| mark.not_before(floor));
        let open = Current::refreshed(current, settings, stem, &mut locked)?;
        if let Some(mark) = after.filter(|mark| *mark != open.mark()) {
            *open = open.cut_back(settings, stem, mark, &mut locked)?;
        }
        if rows.count == 0 {
            return Ok(open.mark());
        }
        if open.is_full(settings, &rows.header)? {
            *open = Current::open(settings, stem, next_number(settings, stem, open.number)?, None)?;
        }
        let (length, count) = (open.length, open.rows);
        match open.write(rows) {
            Ok(()) => {
                // The rows are written, whatever becomes of the note.
                if let Err(error) = open.note(&mut locked) {
                    tracing::warn!(?error, "the length of a CSV file could not be noted: it will take longer to open");
                }
                Ok(open.mark())
            }
            Err(error) => {
                // Neither now nor after a crash may a part of it be taken for written.
                let error = failed("write", &open.path, error);
                if open.truncate(length, count).is_err() {
                    *current = None;
                }
                Err(error)
            }
        }
    }
}

impl Current {
    /// The file that is open, if it is as it was left, and otherwise the last one as it is found.
    fn refreshed<'a>(
        current: &'a mut Option<Self>,
        settings: &CsvSettings,
        stem: &str,
        locked: &mut Locked<'_>,
    ) -> Result<&'a mut Self> {
        let is_as_left = match current {
            // By its name: a file that was moved away would take rows where nobody looks for them.
            Some(open) => fs::metadata(&open.path)
                .is_ok_and(|data| data.len() == open.length && Identity::of(&data) == open.identity),
            None => false,
        };
        if !is_as_left {
            *current = Some(Self::find(settings, stem, locked)?);
        }
        current.as_mut().ok_or_else(|| Error::fatal("a file is gone that was found just now"))
    }

    /// The last file of a series, cut to its last whole record; the first one if there is none.
    fn find(settings: &CsvSettings, stem: &str, locked: &mut Locked<'_>) -> Result<Self> {
        let hint = locked.hint()?;
        let number = match (last_number(settings, stem)?, hint) {
            // The file that had rows was taken away: what comes next is not to be taken for its beginning.
            (last, Some(hint)) if hint.length > 0 && last.is_none_or(|last| last < hint.number) => {
                next_number(settings, stem, hint.number)?
            }
            (last, hint) => last.or(hint.map(|hint| hint.number)).unwrap_or(1),
        };
        let found = Self::open(settings, stem, number, hint.filter(|hint| hint.number == number))?;
        if hint.is_some_and(|hint| hint.number == number && hint.length > found.length) {
            // Somebody has made the file shorter. What is appended now must not be taken for what was noted then.
            locked.set_hint_synced(found.hint())?;
        }
        Ok(found)
    }

    /// The file of a number, cut to its last whole record; a new one if there is none.
    fn open(settings: &CsvSettings, stem: &str, number: u32, hint: Option<Hint>) -> Result<Self> {
        let path = settings.folder.join(file_name(stem, number));
        let opened = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
        let mut file = opened.map_err(|error| failed("open", &path, error))?;
        let unread = |error| failed("read", &path, error);
        let data = file.metadata().map_err(unread)?;
        if data.len() == 0 {
            // It was made just now, perhaps: rows that are acknowledged must not be lost with its name.
            sync_folder(&settings.folder)?;
        }
        // What was whole once, still is: only what came after is to be read. A file that is shorter was changed by others.
        let known = hint.filter(|hint| hint.length <= data.len());
        let from = known.map_or(0, |hint| hint.length);
        file.seek(SeekFrom::Start(from)).map_err(unread)?;
        let scanned = scan(&mut file).map_err(unread)?;
        let (length, torn) = (from + scanned.whole_bytes, scanned.bytes - scanned.whole_bytes);
        if torn > 0 {
            tracing::warn!(
                file = %path.display(),
                length,
                torn,
                "the last record of a file was torn by a crash and is cut off: it was not acknowledged"
            );
            file.set_len(length).and_then(|()| file.sync_data()).map_err(|error| failed("cut", &path, error))?;
        }
        let begun = known.map(|hint| UNIX_EPOCH + Duration::from_millis(hint.begun_ms));
        let begun = begun.or_else(|| data.modified().ok()).unwrap_or_else(|| (settings.clock)());
        let begun = if length == 0 { (settings.clock)() } else { begun };
        let rows = known.map_or_else(
            || scanned.records.saturating_sub(u64::from(settings.has_header)),
            |hint| hint.rows + scanned.records,
        );
        let (identity, noted) = (Identity::of(&data), known.map(|hint| hint.length));
        Ok(Self { file, path, identity, number, length, rows, noted, begun, header: None })
    }

    /// Goes back to a mark: removes files after its own, and what its own has after it.
    fn cut_back(&self, settings: &CsvSettings, stem: &str, mark: CsvMark, locked: &mut Locked<'_>) -> Result<Self> {
        let mut later = numbers(settings, stem)?;
        later.retain(|number| *number > mark.file && *number <= self.number);
        later.sort_unstable();
        for number in later {
            let path = settings.folder.join(file_name(stem, number));
            match fs::remove_file(&path) {
                Ok(()) => tracing::warn!(file = %path.display(), "a file that was not acknowledged is removed"),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(failed("remove", &path, error)),
            }
        }
        let path = settings.folder.join(file_name(stem, mark.file));
        if mark.file > self.number || !path.exists() {
            // Somebody has taken the file away. What comes next goes behind it.
            tracing::warn!(file = %path.display(), "a file is gone, and the next one begins");
            return Self::open(settings, stem, next_number(settings, stem, mark.file)?, None);
        }
        let mut open = Self::open(settings, stem, mark.file, None)?;
        if open.length < mark.length {
            return Err(Error::corrupt(format!(
                "{} has {} bytes, and {} were on record: rows are missing that were acknowledged; restore the file, or move \
                 it away to go on with the next one",
                path.display(),
                open.length,
                mark.length
            )));
        }
        if open.length > mark.length {
            let (length, removed) = (mark.length, open.length - mark.length);
            tracing::warn!(file = %path.display(), length, removed, "rows that were not acknowledged are cut off");
            // Before it is cut: a place that was noted must be the end of a record, whatever is written there next.
            locked.set_hint_synced(Hint {
                number: mark.file,
                length,
                rows: mark.rows,
                begun_ms: open.hint().begun_ms,
            })?;
            open.truncate(mark.length, mark.rows).map_err(|error| failed("cut", &path, error))?;
        }
        open.rows = mark.rows;
        Ok(open)
    }

    /// True if the next batch belongs into the next file.
    fn is_full(&mut self, settings: &CsvSettings, header: &[u8]) -> Result<bool> {
        if self.rows == 0 && self.length <= header.len() as u64 {
            return Ok(false);
        }
        let age = || (settings.clock)().duration_since(self.begun).unwrap_or_default();
        let rotation = &settings.rotation;
        Ok(self.length >= rotation.bytes_max
            || rotation.rows_max.is_some_and(|rows_max| self.rows >= rows_max)
            || rotation.age_max.is_some_and(|age_max| age() >= age_max)
            || !self.has_header(header)?)
    }

    /// True if the file begins with this line.
    fn has_header(&mut self, header: &[u8]) -> Result<bool> {
        if self.header.as_deref() == Some(header) {
            return Ok(true);
        }
        let mut first = vec![0; header.len()];
        let length = read_at(&self.file, &mut first, 0).map_err(|error| failed("read", &self.path, error))?;
        first.truncate(length);
        let is_same = first == header;
        if is_same {
            self.header = Some(first);
        }
        Ok(is_same)
    }

    fn write(&mut self, rows: &Rows) -> std::io::Result<()> {
        if self.length == 0 {
            write_at(&self.file, &[&*rows.header, &*rows.bytes].concat(), 0)?;
        } else {
            write_at(&self.file, &rows.bytes, self.length)?;
        }
        self.file.sync_data()?;
        if self.length == 0 {
            self.length = rows.header.len() as u64;
            self.header = Some(rows.header.clone());
        }
        self.length += rows.bytes.len() as u64;
        self.rows += rows.count;
        Ok(())
    }

    /// Notes how far it is whole, if that was not done for a while.
    fn note(&mut self, locked: &mut Locked<'_>) -> Result<()> {
        if self.noted.is_none_or(|noted| self.length.saturating_sub(noted) >= NOTED_EVERY_BYTES) {
            locked.set_hint(self.hint())?;
            self.noted = Some(self.length);
        }
        Ok(())
    }

    fn truncate(&mut self, length: u64, rows: u64) -> std::io::Result<()> {
        self.file.set_len(length)?;
        self.file.sync_data()?;
        (self.length, self.rows) = (length, rows);
        Ok(())
    }

    fn mark(&self) -> CsvMark {
        CsvMark { file: self.number, length: self.length, rows: self.rows }
    }

    fn hint(&self) -> Hint {
        let begun_ms = self.begun.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64;
        Hint { number: self.number, length: self.length, rows: self.rows, begun_ms }
    }
}

/// The name of a file of a series.
pub(super) fn file_name(stem: &str, number: u32) -> String {
    format!("{stem}-{number:06}.csv")
}

/// The files of a series, in their order.
///
/// # Errors
/// What keeps the folder from being read.
pub(super) fn files(settings: &CsvSettings, key: &str) -> Result<Vec<PathBuf>> {
    let stem = file_stem(key);
    let mut numbers = numbers(settings, &stem)?;
    numbers.sort_unstable();
    Ok(numbers.into_iter().map(|number| settings.folder.join(file_name(&stem, number))).collect())
}

/// The number of the file after one that is full, or was taken away. The last one there can be is nearly always a file of
/// others that was put there: if it is taken away, the series goes on behind what is left.
///
/// # Errors
/// `Fatal` if there is no next one.
fn next_number(settings: &CsvSettings, stem: &str, number: u32) -> Result<u32> {
    if number < FILE_NUMBER_MAX {
        return Ok(number + 1);
    }
    match last_number(settings, stem)?.unwrap_or_default() {
        FILE_NUMBER_MAX => {
            let path = settings.folder.join(file_name(stem, FILE_NUMBER_MAX));
            let text = format!("{} is the last that its name has a number for: move it away to go on", path.display());
            Err(Error::fatal(text))
        }
        last => Ok(last + 1),
    }
}

fn last_number(settings: &CsvSettings, stem: &str) -> Result<Option<u32>> {
    Ok(numbers(settings, stem)?.into_iter().max())
}

fn numbers(settings: &CsvSettings, stem: &str) -> Result<Vec<u32>> {
    let folder = &settings.folder;
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed("list", folder, error)),
    };
    let mut numbers = Vec::new();
    for entry in entries {
        let name = entry.map_err(|error| failed("list", folder, error))?.file_name();
        let Some(name) = name.to_str() else { continue };
        let number = name.strip_suffix(".csv").and_then(|name| name.rsplit_once('-'));
        let number = number.and_then(|(_, number)| number.parse().ok());
        // Only as it is written here: `7` and `+7` are names of others.
        let is_of_series = |number: &u32| (1..=FILE_NUMBER_MAX).contains(number) && file_name(stem, *number) == name;
        numbers.extend(number.filter(is_of_series));
    }
    Ok(numbers)
}

/// Makes the names of new files durable, where that is to be asked for.
fn sync_folder(folder: &Path) -> Result<()> {
    if cfg!(unix) {
        let synced = File::open(folder).and_then(|folder| folder.sync_all());
        synced.map_err(|error| failed("sync the folder", folder, error))?;
    }
    Ok(())
}

/// For errors of tasks that did not end.
pub(super) fn interrupted() -> Error {
    Error::new(
        ErrorKind::OutcomeUnknown,
        "the runtime ended while a CSV file was being written: look before you write again",
    )
}
