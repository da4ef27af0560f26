use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mainstay::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use super::error::{failed, unopened};
use super::file_system::{FileSystem, Identity, OpenFile as _, OsFileSystem, ReadFrom};
use super::name::file_stem;
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
pub(super) struct Series<F: FileSystem = OsFileSystem> {
    place: Place<F>,
    claim: Claim,
    sidecar: Sidecar<F>,
    current: Current<F>,
}

/// Where the files are, and how they are named.
struct Place<F> {
    system: F,
    settings: CsvSettings,
    stem: String,
}

/// The file that is written.
struct Current<F: FileSystem> {
    file: F::File,
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
    /// True after a batch that failed and could not be cut off either: nothing is to be believed that is behind the length.
    is_in_doubt: bool,
}

/// What is to be appended.
pub(super) struct Rows {
    pub(super) bytes: Vec<u8>,
    pub(super) count: u64,
    /// The line of column names; empty if there is none.
    pub(super) header: Vec<u8>,
}

impl<F: FileSystem> Series<F> {
    /// Opens the files of a key, and makes this the one writer of them.
    ///
    /// # Errors
    /// `NotPrimary` if a newer writer has opened them, `Fatal` if they are somebody else's; what keeps the files from being
    /// opened.
    pub(super) fn open(system: F, settings: CsvSettings, opening: &Opening) -> Result<Self> {
        settings.check()?;
        let (stem, claim) = (file_stem(&opening.key), opening.claim());
        let place = Place { system, settings, stem };
        let Place { system, settings, stem } = &place;
        let folder = &settings.folder;
        system.create_folder(folder).map_err(|error| unopened("create the folder", folder, error))?;
        let mut sidecar = Sidecar::open(system.clone(), folder.join(format!("{stem}-owner.fence")))?;
        let mut locked = sidecar.lock(settings.lock_time_max)?;
        locked.examine(&claim)?;
        let current = Current::find(&place, &mut locked)?;
        locked.admit(&claim, current.mark())?;
        place.sync_folder()?;
        drop(locked);
        Ok(Self { place, claim, sidecar, current })
    }

    /// Where the next row goes.
    pub(super) fn end(&mut self) -> Result<CsvMark> {
        let Self { place, claim, sidecar, current } = self;
        let mut locked = sidecar.lock(place.settings.lock_time_max)?;
        locked.check(claim)?;
        current.refresh(place, &mut locked)?;
        Ok(current.mark())
    }

    /// Appends rows, durably, or leaves the files as they were. With a mark, what is behind it is removed first: it was
    /// written by somebody who did not live to know. But what was there before this life of the writer began, stays: another may
    /// have known.
    ///
    /// # Errors
    /// `NotPrimary` if a newer writer has opened the files; `Corrupt` if they do not reach to the mark; what keeps them from
    /// being written.
    pub(super) fn append(&mut self, rows: &Rows, after: Option<CsvMark>) -> Result<CsvMark> {
        let Self { place, claim, sidecar, current } = self;
        let mut locked = sidecar.lock(place.settings.lock_time_max)?;
        let floor = locked.check(claim)?;
        let after = after.map(|mark| mark.not_before(floor));
        current.refresh(place, &mut locked)?;
        if let Some(mark) = after.filter(|mark| *mark != current.mark()) {
            *current = current.cut_back(place, mark, &mut locked)?;
        }
        if rows.count == 0 {
            return Ok(current.mark());
        }
        if current.is_full(&place.settings, &rows.header)? {
            *current = Current::open(place, place.next_number(current.number)?, None)?;
        }
        let (length, count) = (current.length, current.rows);
        match current.write(rows) {
            Ok(()) => {
                // The rows are written, whatever becomes of the note.
                if let Err(error) = current.note(&mut locked) {
                    tracing::warn!(?error, "the length of a CSV file could not be noted: it will take longer to open");
                }
                Ok(current.mark())
            }
            Err(error) => {
                // Neither now nor after a crash may a part of it be taken for written.
                let error = failed("write", &current.path, error);
                current.is_in_doubt = current.truncate(length, count).is_err();
                Err(error)
            }
        }
    }
}

impl<F: FileSystem> Current<F> {
    /// Makes sure that the file is as it was left, and takes the last one as it is found otherwise.
    fn refresh(&mut self, place: &Place<F>, locked: &mut Locked<'_, F>) -> Result<()> {
        // By its name: a file that was moved away would take rows where nobody looks for them.
        let found = match place.system.facts(&self.path) {
            Err(error) if self.is_in_doubt && error.kind() != std::io::ErrorKind::NotFound => {
                return Err(failed("look at", &self.path, error));
            }
            found => found.ok().filter(|facts| facts.identity == self.identity),
        };
        if self.is_in_doubt && found.is_some_and(|facts| facts.length >= self.length) {
            // What is behind it is of a batch that was not acknowledged, and perhaps not on the disk, whatever can be read.
            self.truncate(self.length, self.rows).map_err(|error| failed("cut", &self.path, error))?;
            self.is_in_doubt = false;
        } else if found.is_none_or(|facts| facts.length != self.length) {
            *self = Self::find(place, locked)?;
        }
        Ok(())
    }

    /// The last file of a series, cut to its last whole record; the first one if there is none.
    fn find(place: &Place<F>, locked: &mut Locked<'_, F>) -> Result<Self> {
        let hint = locked.hint()?;
        let number = match (place.last_number()?, hint) {
            // The file that had rows was taken away: what comes next is not to be taken for its beginning.
            (last, Some(hint)) if hint.length > 0 && last.is_none_or(|last| last < hint.number) => {
                place.next_number(hint.number)?
            }
            (last, hint) => last.or(hint.map(|hint| hint.number)).unwrap_or(1),
        };
        let found = Self::open(place, number, hint.filter(|hint| hint.number == number))?;
        if hint.is_some_and(|hint| hint.number == number && hint.length > found.length) {
            // Somebody has made the file shorter. What is appended now must not be taken for what was noted then.
            locked.set_hint_synced(found.hint())?;
        }
        Ok(found)
    }

    /// The file of a number, cut to its last whole record; a new one if there is none.
    fn open(place: &Place<F>, number: u32, hint: Option<Hint>) -> Result<Self> {
        let path = place.path(number);
        let file = place.system.open(&path).map_err(|error| failed("open", &path, error))?;
        let unread = |error| failed("read", &path, error);
        let facts = file.facts().map_err(unread)?;
        if facts.length == 0 {
            // It was made just now, perhaps: rows that are acknowledged must not be lost with its name.
            place.sync_folder()?;
        }
        // What was whole once, still is: only what came after is to be read. A file that is shorter was changed by others.
        let known = hint.filter(|hint| hint.length <= facts.length);
        let from = known.map_or(0, |hint| hint.length);
        let scanned = scan(ReadFrom { file: &file, place: from }).map_err(unread)?;
        let (length, torn) = (from + scanned.whole_bytes, scanned.bytes - scanned.whole_bytes);
        if torn > 0 {
            tracing::warn!(
                file = %path.display(),
                length,
                torn,
                "the last record of a file was torn by a crash and is cut off: it was not acknowledged"
            );
            file.set_length(length).and_then(|()| file.sync()).map_err(|error| failed("cut", &path, error))?;
        }
        let clock = place.settings.clock;
        let begun = known.map(|hint| UNIX_EPOCH + Duration::from_millis(hint.begun_ms));
        let begun = begun.or(facts.modified).unwrap_or_else(clock);
        let begun = if length == 0 { clock() } else { begun };
        let rows = known.map_or_else(
            || scanned.records.saturating_sub(u64::from(place.settings.has_header)),
            |hint| hint.rows + scanned.records,
        );
        let (identity, noted) = (facts.identity, known.map(|hint| hint.length));
        Ok(Self { file, path, identity, number, length, rows, noted, begun, header: None, is_in_doubt: false })
    }

    /// Goes back to a mark: removes files after its own, and what its own has after it.
    fn cut_back(&self, place: &Place<F>, mark: CsvMark, locked: &mut Locked<'_, F>) -> Result<Self> {
        let mut later = place.numbers()?;
        later.retain(|number| *number > mark.file && *number <= self.number);
        later.sort_unstable();
        for number in &later {
            let path = place.path(*number);
            match place.system.remove(&path) {
                Ok(()) => tracing::warn!(file = %path.display(), "a file that was not acknowledged is removed"),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(failed("remove", &path, error)),
            }
        }
        if !later.is_empty() {
            // One that came back after a crash would be taken for the last one.
            place.sync_folder()?;
        }
        let path = place.path(mark.file);
        if mark.file > self.number || place.system.facts(&path).is_err() {
            // Somebody has taken the file away. What comes next goes behind it.
            tracing::warn!(file = %path.display(), "a file is gone, and the next one begins");
            return Self::open(place, place.next_number(mark.file)?, None);
        }
        let mut open = Self::open(place, mark.file, None)?;
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
        let length = self.file.read_at(&mut first, 0).map_err(|error| failed("read", &self.path, error))?;
        first.truncate(length);
        let is_same = first == header;
        if is_same {
            self.header = Some(first);
        }
        Ok(is_same)
    }

    fn write(&mut self, rows: &Rows) -> std::io::Result<()> {
        if self.length == 0 {
            self.file.write_at(&[&*rows.header, &*rows.bytes].concat(), 0)?;
        } else {
            self.file.write_at(&rows.bytes, self.length)?;
        }
        self.file.sync()?;
        if self.length == 0 {
            self.length = rows.header.len() as u64;
            self.header = Some(rows.header.clone());
        }
        self.length += rows.bytes.len() as u64;
        self.rows += rows.count;
        Ok(())
    }

    /// Notes how far it is whole, if that was not done for a while.
    fn note(&mut self, locked: &mut Locked<'_, F>) -> Result<()> {
        if self.noted.is_none_or(|noted| self.length.saturating_sub(noted) >= NOTED_EVERY_BYTES) {
            locked.set_hint(self.hint())?;
            self.noted = Some(self.length);
        }
        Ok(())
    }

    fn truncate(&mut self, length: u64, rows: u64) -> std::io::Result<()> {
        self.file.set_length(length)?;
        self.file.sync()?;
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

impl<F: FileSystem> Place<F> {
    fn path(&self, number: u32) -> PathBuf {
        self.settings.folder.join(file_name(&self.stem, number))
    }

    /// The number of the file after one that is full, or was taken away. The last one there can be is nearly always a file of
    /// others that was put there: if it is taken away, the series goes on behind what is left.
    ///
    /// # Errors
    /// `Fatal` if there is no next one.
    fn next_number(&self, number: u32) -> Result<u32> {
        if number < FILE_NUMBER_MAX {
            return Ok(number + 1);
        }
        match self.last_number()?.unwrap_or_default() {
            FILE_NUMBER_MAX => {
                let path = self.path(FILE_NUMBER_MAX);
                let text =
                    format!("{} is the last that its name has a number for: move it away to go on", path.display());
                Err(Error::fatal(text))
            }
            last => Ok(last + 1),
        }
    }

    fn last_number(&self) -> Result<Option<u32>> {
        Ok(self.numbers()?.into_iter().max())
    }

    fn numbers(&self) -> Result<Vec<u32>> {
        numbers(&self.system, &self.settings.folder, &self.stem)
    }

    /// Makes the names of new files durable.
    fn sync_folder(&self) -> Result<()> {
        let folder = &self.settings.folder;
        self.system.sync_folder(folder).map_err(|error| failed("sync the folder", folder, error))
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
    let mut numbers = numbers(&OsFileSystem, &settings.folder, &stem)?;
    numbers.sort_unstable();
    Ok(numbers.into_iter().map(|number| settings.folder.join(file_name(&stem, number))).collect())
}

fn numbers(system: &impl FileSystem, folder: &Path, stem: &str) -> Result<Vec<u32>> {
    let names = match system.names(folder) {
        Ok(names) => names,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed("list", folder, error)),
    };
    let of_series = |name: &std::ffi::OsString| {
        let name = name.to_str()?;
        let number = name.strip_suffix(".csv")?.rsplit_once('-')?.1.parse().ok()?;
        // Only as it is written here: `7` and `+7` are names of others.
        let is_of_series = (1..=FILE_NUMBER_MAX).contains(&number) && file_name(stem, number) == name;
        is_of_series.then_some(number)
    };
    Ok(names.iter().filter_map(of_series).collect())
}

/// For errors of tasks that did not end.
pub(super) fn interrupted() -> Error {
    Error::new(
        ErrorKind::OutcomeUnknown,
        "the runtime ended while a CSV file was being written: look before you write again",
    )
}
