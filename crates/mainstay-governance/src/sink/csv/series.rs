use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mainstay::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use super::aside::set_aside;
use super::error::{damaged, failed, shortened, unopened};
use super::file_system::{FileSystem, Identity, OpenFile as _, OsFileSystem};
use super::name::file_stem;
use super::scan::scan;
use super::settings::CsvSettings;
use super::sidecar::{Hint, Locked, Sidecar};
use crate::owner::{Claim, Opening};

/// The largest number of a file. Whatever has a larger one in its name is not of a series.
const FILE_NUMBER_MAX: u32 = 999_999_999;

/// How much of what was acknowledged is read at least when a file is opened, if it has as much, and half of what is read at
/// most.
const CHECKED_BYTES: u64 = 1 << 20;

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
    /// What is behind that.
    tail: Tail,
    /// From where on it is read when it is opened next, and from where on when enough is behind that.
    bases: [u64; 2],
    begun: SystemTime,
    /// Its first line, once it is known.
    header: Option<Vec<u8>>,
    /// True after a batch that failed and could not be cut off either: nothing is to be believed that is behind the length.
    is_in_doubt: bool,
}

/// What a file has behind its last whole record.
#[derive(Debug, Clone, Copy, Default)]
struct Tail {
    bytes: u64,
    /// Where it is neither a record nor the beginning of one: then nobody knows whether it was acknowledged.
    damage: Option<u64>,
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
        let newest = locked.examine(&claim)?;
        let current = Current::find(&place, &mut locked)?;
        if !newest.goes_on(&claim) {
            // Whoever begins a lineage takes what is there for acknowledged, and has to know what that is.
            current.refuse_damage()?;
        }
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
        current.refuse_damage()?;
        Ok(current.mark())
    }

    /// Appends rows, durably, or leaves the files as they were. With a mark, what is behind it is removed first: it was
    /// written by somebody who did not live to know. But what was there before this lineage of the writer began, stays: another may
    /// have known. Without a mark, a record that was torn is removed. Whatever is removed is set aside before.
    ///
    /// # Errors
    /// `NotPrimary` if a newer writer has opened the files; `Corrupt` if they do not reach to the mark, or are damaged before it;
    /// what keeps them from being written.
    pub(super) fn append(&mut self, rows: &Rows, after: Option<CsvMark>) -> Result<CsvMark> {
        let Self { place, claim, sidecar, current } = self;
        let mut locked = sidecar.lock(place.settings.lock_time_max)?;
        let floor = locked.check(claim)?;
        let after = after.map(|mark| mark.not_before(floor));
        current.refresh(place, &mut locked)?;
        match after {
            Some(mark) if mark != current.mark() || current.tail.bytes > 0 => {
                *current = current.cut_back(place, mark, &mut locked)?;
            }
            Some(_) => {}
            None => current.cut_tail(place)?,
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
                    tracing::warn!(
                        ?error,
                        "the length of a CSV file could not be noted: more of it is read when it is opened"
                    );
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
        } else if self.tail.damage.is_some() || found.is_none_or(|facts| facts.length != self.length + self.tail.bytes)
        {
            *self = Self::find(place, locked)?;
        }
        Ok(())
    }

    /// The last file of a series; the first one if there is none.
    fn find(place: &Place<F>, locked: &mut Locked<'_, F>) -> Result<Self> {
        let hint = locked.hint()?;
        let number = match (place.last_number()?, hint) {
            // The file that had rows was taken away: what comes next is not to be taken for its beginning.
            (last, Some(hint)) if hint.length > 0 && last.is_none_or(|last| last < hint.number) => {
                place.next_number(hint.number)?
            }
            (last, hint) => last.or(hint.map(|hint| hint.number)).unwrap_or(1),
        };
        Self::open(place, number, hint.filter(|hint| hint.number == number))
    }

    /// The file of a number; a new one if there is none. Of what is known to have been acknowledged the end is read, to find
    /// damage, and what comes after it.
    ///
    /// # Errors
    /// `Corrupt` if it has less than is known, or something else.
    fn open(place: &Place<F>, number: u32, hint: Option<Hint>) -> Result<Self> {
        let path = place.path(number);
        let file = place.system.open(&path).map_err(|error| failed("open", &path, error))?;
        let unread = |error| failed("read", &path, error);
        let facts = file.facts().map_err(unread)?;
        if facts.length == 0 {
            // It was made just now, perhaps: rows that are acknowledged must not be lost with its name.
            place.sync_folder()?;
        }
        let scan = |from, to| scan(from, to, |bytes, at| file.read_at(bytes, at)).map_err(unread);
        let (base, from) = hint.map_or((0, 0), |hint| (hint.base.min(hint.length), hint.length));
        if facts.length < from {
            return Err(shortened(&path, facts.length, from));
        }
        let checked = scan(base, from)?;
        if checked.offence.is_some() || checked.whole < from {
            return Err(damaged(&path, checked.offence.unwrap_or(checked.whole)));
        }
        let scanned = scan(from, facts.length)?;
        let length = scanned.whole;
        let tail = Tail { bytes: facts.length - length, damage: scanned.offence.filter(|_| length < facts.length) };
        let clock = place.settings.clock;
        let begun = hint.map(|hint| UNIX_EPOCH + Duration::from_millis(hint.begun_ms));
        let begun = begun.or(facts.modified).unwrap_or_else(clock);
        let begun = if length == 0 { clock() } else { begun };
        let rows = hint.map_or_else(
            || scanned.records.saturating_sub(u64::from(place.settings.has_header)),
            |hint| hint.rows + scanned.records,
        );
        // What others have written is not held against the rules of this writer.
        let bases = if hint.is_some() { [base, from] } else { [length; 2] };
        let identity = facts.identity;
        Ok(Self { file, path, identity, number, length, rows, tail, bases, begun, header: None, is_in_doubt: false })
    }

    /// Says that it cannot be told what was acknowledged, if it cannot.
    fn refuse_damage(&self) -> Result<()> {
        match self.tail.damage {
            Some(place) => Err(damaged(&self.path, place)),
            None => Ok(()),
        }
    }

    /// Removes a record that was torn.
    fn cut_tail(&mut self, place: &Place<F>) -> Result<()> {
        self.refuse_damage()?;
        if self.tail.bytes > 0 {
            self.cut(place, self.length, self.rows)?;
        }
        Ok(())
    }

    /// Removes what is behind a place, after it was set aside.
    fn cut(&mut self, place: &Place<F>, length: u64, rows: u64) -> Result<()> {
        set_aside(&place.system, &self.path, &self.file, length)?;
        self.truncate(length, rows).map_err(|error| failed("cut", &self.path, error))
    }

    /// Goes back to a mark: removes files after its own, and what its own has after it.
    fn cut_back(&self, place: &Place<F>, mark: CsvMark, locked: &mut Locked<'_, F>) -> Result<Self> {
        let path = place.path(mark.file);
        let is_gone = mark.file > self.number || place.system.facts(&path).is_err();
        let mut at_mark = None;
        if !is_gone {
            let noted = locked.hint()?.filter(|hint| hint.number == mark.file);
            let base = noted.map(|hint| hint.base).filter(|base| *base <= mark.length).unwrap_or_default();
            let begun_ms = noted.map(|hint| hint.begun_ms);
            let CsvMark { file: number, length, rows } = mark;
            let hint = Hint { number, base, length, rows, begun_ms: begun_ms.unwrap_or_default() };
            let mut open = Self::open(place, number, Some(hint))?;
            if begun_ms.is_none() {
                open.begun = place.system.facts(&path).ok().and_then(|facts| facts.modified).unwrap_or(open.begun);
            }
            // Before anything is cut: a place that was noted must be the end of a record, whatever is written there next.
            locked.set_hint_synced(Hint { length, rows, ..open.hint() })?;
            at_mark = Some(open);
        }
        self.remove_after(place, mark.file)?;
        let Some(mut open) = at_mark else {
            // Somebody has taken the file away. What comes next goes behind it.
            tracing::warn!(file = %path.display(), "a file is gone, and the next one begins");
            return Self::open(place, place.next_number(mark.file)?, None);
        };
        if open.length + open.tail.bytes > mark.length {
            open.cut(place, mark.length, mark.rows)?;
        }
        open.rows = mark.rows;
        Ok(open)
    }

    /// Removes the files after one, up to this one, after they were set aside.
    fn remove_after(&self, place: &Place<F>, file: u32) -> Result<()> {
        let mut later = place.numbers()?;
        later.retain(|number| *number > file && *number <= self.number);
        later.sort_unstable();
        for number in &later {
            let path = place.path(*number);
            let open = place.system.open(&path).map_err(|error| failed("open", &path, error))?;
            set_aside(&place.system, &path, &open, 0)?;
            match place.system.remove(&path) {
                Ok(()) => {}
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(failed("remove", &path, error)),
            }
        }
        if !later.is_empty() {
            // One that came back after a crash would be taken for the last one.
            place.sync_folder()?;
        }
        Ok(())
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

    /// Notes how far it is whole.
    fn note(&mut self, locked: &mut Locked<'_, F>) -> Result<()> {
        let [_, next] = self.bases;
        if self.length.saturating_sub(next) >= CHECKED_BYTES {
            self.bases = [next, self.length];
        }
        locked.set_hint(self.hint())
    }

    fn truncate(&mut self, length: u64, rows: u64) -> std::io::Result<()> {
        self.file.set_length(length)?;
        self.file.sync()?;
        (self.length, self.rows, self.tail) = (length, rows, Tail::default());
        self.bases = self.bases.map(|base| base.min(length));
        Ok(())
    }

    fn mark(&self) -> CsvMark {
        CsvMark { file: self.number, length: self.length, rows: self.rows }
    }

    fn hint(&self) -> Hint {
        let begun_ms = self.begun.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64;
        Hint { number: self.number, base: self.bases[0], length: self.length, rows: self.rows, begun_ms }
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
