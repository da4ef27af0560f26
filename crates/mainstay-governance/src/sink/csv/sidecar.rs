use std::fs::TryLockError;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use mainstay::format::Format;
use mainstay::{Error, ErrorKind, Result};

use super::error::{failed, unopened};
use super::file_system::{FileSystem, Identity, OpenFile as _};
use super::series::CsvMark;
use super::token::Token;
use crate::formats::CSV_HINT;
use crate::owner::{Claim, Fence};

/// How large a sector is: what a disk writes whole or not at all.
const SECTOR: usize = 512;

/// How many sectors there are.
const SECTORS: usize = 3;

/// What the records begin with.
const MAGIC: &[u8; 4] = b"MSCS";

/// The kind of the note.
const HINT_KIND: u8 = 2;

/// How many bytes the fields of a note have, in the first version and in this one.
const HINT_FIELDS_V1: usize = 32;
const HINT_FIELDS: usize = 40;

/// How long what every record begins with is.
const HEAD: usize = 8;

/// How often is looked whether another process has let go of the lock.
const LOCK_POLL: Duration = Duration::from_millis(2);

/// The file beside the rows that says who may write them: three sectors, of which two have fencing tokens in turn, so that
/// one of them is whole whenever the power fails, and one has how far the rows were whole. `docs/internals/csv-sink.md`
/// has it byte by byte.
///
/// Its lock is the lock of the rows.
pub(super) struct Sidecar<F: FileSystem> {
    system: F,
    file: F::File,
    path: PathBuf,
    identity: Identity,
}

/// How far a file was whole at some time, and acknowledged. It saves reading the file, and may be old or missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hint {
    pub(super) number: u32,
    /// The end of a record, from which on the file is read when it is opened, to find damage.
    pub(super) base: u64,
    pub(super) length: u64,
    pub(super) rows: u64,
    /// When the file was begun, in milliseconds since 1970.
    pub(super) begun_ms: u64,
}

/// The lock, until it is dropped.
pub(super) struct Locked<'a, F: FileSystem>(&'a mut Sidecar<F>);

/// What the file has, as far as it goes.
struct Sectors {
    bytes: [u8; SECTORS * SECTOR],
    length: usize,
}

impl Sectors {
    fn sector(&self, number: usize) -> &[u8] {
        self.bytes[..self.length].get(number * SECTOR..).unwrap_or_default()
    }
}

impl<F: FileSystem> Sidecar<F> {
    /// Opens the file, which is made if there is none.
    pub(super) fn open(system: F, path: PathBuf) -> Result<Self> {
        let file = system.open(&path).map_err(|error| unopened("open", &path, error))?;
        let identity = file.facts().map_err(|error| failed("read", &path, error))?.identity;
        Ok(Self { system, file, path, identity })
    }

    /// Takes the lock, which another holds for no longer than one batch.
    ///
    /// # Errors
    /// `Timeout` if another holds it for longer than `wait_max`; `NotPrimary` if the name is not that of the file any more.
    pub(super) fn lock(&mut self, wait_max: Duration) -> Result<Locked<'_, F>> {
        let begun = Instant::now();
        loop {
            match self.file.try_lock() {
                Ok(()) => {
                    let locked = Locked(self);
                    locked.refuse_if_replaced()?;
                    return Ok(locked);
                }
                Err(TryLockError::WouldBlock) if begun.elapsed() < wait_max => std::thread::sleep(LOCK_POLL),
                Err(TryLockError::WouldBlock) => {
                    let text = format!(
                        "{} has been locked by another process for {wait_max:?}: see whether one of them is stuck",
                        self.path.display()
                    );
                    return Err(Error::new(ErrorKind::Timeout, text));
                }
                Err(TryLockError::Error(error)) => return Err(failed("lock", &self.path, error)),
            }
        }
    }
}

impl<F: FileSystem> Drop for Locked<'_, F> {
    fn drop(&mut self) {
        // Nothing can be done if it fails, and closing the file unlocks it as well.
        let _ = self.0.file.unlock();
    }
}

impl<F: FileSystem> Locked<'_, F> {
    /// Whoever opens the files next goes by the name of the sidecar: the lock of a file that has lost it keeps nobody out.
    fn refuse_if_replaced(&self) -> Result<()> {
        let path = self.path();
        match self.0.system.facts(path) {
            Ok(facts) if facts.identity == self.0.identity => Ok(()),
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(failed("look at", path, error)),
            Ok(_) | Err(_) => {
                let text = format!(
                    "{} was deleted or replaced, and says nothing of this writer any more: the rows are to be opened again",
                    path.display()
                );
                Err(Error::new(ErrorKind::NotPrimary { hint: None }, text))
            }
        }
    }

    /// Says whether a claim may become the one that writes, and changes nothing yet.
    ///
    /// # Errors
    /// `NotPrimary` if its token is stale, `Fatal` if the rows are somebody else's.
    pub(super) fn examine(&mut self, claim: &Claim) -> Result<Token> {
        let newest = self.token()?;
        claim.open(&mut newest.claim(claim)).map_err(|error| self.refused(&error))?;
        Ok(newest)
    }

    /// Makes a claim the one that may write, durably. The rows end at `end`: with another lineage than the last it cannot cut
    /// off what is before.
    ///
    /// # Errors
    /// As [`examine`](Locked::examine).
    pub(super) fn admit(&mut self, claim: &Claim, end: CsvMark) -> Result<()> {
        let newest = self.examine(claim)?;
        if newest.claim(claim).as_ref() != Some(claim) || newest.owner.is_none() {
            let next = newest.next(claim, end);
            self.write((next.generation % 2) as usize, &next.encode())?;
            self.0.file.sync().map_err(|error| failed("sync", &self.0.path, error))?;
        }
        Ok(())
    }

    /// Refuses whoever is not the one that may write. Returns what it must not cut off, if there is something.
    ///
    /// # Errors
    /// As [`examine`](Locked::examine).
    pub(super) fn check(&mut self, claim: &Claim) -> Result<Option<CsvMark>> {
        let newest = self.token()?;
        claim.check(newest.claim(claim).as_ref()).map_err(|error| self.refused(&error))?;
        Ok(newest.floor)
    }

    /// How far the rows were whole, as far as is known.
    pub(super) fn hint(&mut self) -> Result<Option<Hint>> {
        decode_hint(self.read()?.sector(2))
    }

    /// Notes how far the rows are whole. It is not synced: if the power fails, an older one says less, and nothing that is
    /// wrong.
    pub(super) fn set_hint(&mut self, hint: Hint) -> Result<()> {
        self.write(2, &encode_hint(hint))
    }

    /// Notes durably how far the rows are whole, because they are to become less.
    pub(super) fn set_hint_synced(&mut self, hint: Hint) -> Result<()> {
        self.set_hint(hint)?;
        self.0.file.sync().map_err(|error| failed("sync", &self.0.path, error))
    }

    /// The newest token. A file without any is one that nobody has opened; one that has bytes but no whole token was damaged,
    /// because at most one of the two can be torn.
    fn token(&mut self) -> Result<Token> {
        let read = self.read()?;
        let tokens = [Token::decode(read.sector(0))?, Token::decode(read.sector(1))?];
        match tokens.into_iter().flatten().max_by_key(|token| token.generation) {
            Some(token) => Ok(token),
            // The first token was being written when the power failed: nobody has written rows by it.
            None if read.length <= 2 * SECTOR => Ok(Token::none()),
            None => Err(Error::corrupt(format!(
                "{} has no whole fencing token: see that no other writer runs, and delete it",
                self.0.path.display()
            ))),
        }
    }

    fn read(&self) -> Result<Sectors> {
        let mut bytes = [0; SECTORS * SECTOR];
        let length = self.0.file.read_at(&mut bytes, 0).map_err(|error| failed("read", &self.0.path, error))?;
        Ok(Sectors { bytes, length })
    }

    fn write(&mut self, sector: usize, record: &[u8]) -> Result<()> {
        let written = self.0.file.write_at(record, (sector * SECTOR) as u64);
        written.map_err(|error| failed("write", &self.0.path, error))
    }

    fn refused(&self, error: &Error) -> Error {
        let path = self.path().display();
        let text = match error.kind() {
            ErrorKind::Fatal => format!(
                "{path} says whose the rows beside it are: {error}; or hand them over: see that the first does not run \
                 any more, and delete that file"
            ),
            _ => format!("{path} is not this writer's any more: {error}"),
        };
        Fence::reworded(error, text)
    }

    fn path(&self) -> &Path {
        &self.0.path
    }
}

/// A sector begins with the magic bytes, the version and what it holds.
pub(super) fn begin(version: u8, kind: u8) -> Vec<u8> {
    let mut record = Vec::with_capacity(SECTOR);
    record.extend_from_slice(MAGIC);
    record.extend_from_slice(&[version, kind, 0, 0]);
    record
}

/// And ends with a checksum, and zeros.
pub(super) fn end(mut record: Vec<u8>) -> Vec<u8> {
    let sum = crc32c::crc32c(&record);
    record.extend_from_slice(&sum.to_le_bytes());
    record.resize(SECTOR, 0);
    record
}

/// The version and the fields of a record, if it is whole. `fields` says how many bytes those of a version have.
///
/// # Errors
/// `UnknownVersion` if it is whole and of a version that is not read: an older one beside it would let a writer in whose time is
/// over.
pub(super) fn open<'s>(
    sector: &'s [u8],
    format: &Format,
    kind: u8,
    fields: impl Fn(u8) -> usize,
) -> Result<Option<(u8, &'s [u8])>> {
    let Some((head, _)) = sector.split_at_checked(HEAD) else { return Ok(None) };
    let version = head[4];
    if !head.starts_with(MAGIC) || head[5] != kind {
        return Ok(None);
    }
    if format.reads(version) {
        let end = HEAD + fields(version);
        return Ok(is_whole(sector, end).then(|| (version, &sector[HEAD..end])));
    }
    // Where the checksum of a later version stands is not known.
    match (HEAD..sector.len()).any(|end| is_whole(sector, end)) {
        true => Err(format.unknown(version.into(), format.name())),
        false => Ok(None),
    }
}

/// True if the checksum of a record that ends there stands behind it.
fn is_whole(sector: &[u8], end: usize) -> bool {
    sector.split_at_checked(end).is_some_and(|(record, rest)| {
        rest.first_chunk::<4>().is_some_and(|sum| crc32c::crc32c(record) == u32::from_le_bytes(*sum))
    })
}

fn encode_hint(hint: Hint) -> Vec<u8> {
    let mut record = begin(CSV_HINT.written(), HINT_KIND);
    for field in [u64::from(hint.number), hint.length, hint.rows, hint.begun_ms, hint.base] {
        record.extend_from_slice(&field.to_le_bytes());
    }
    end(record)
}

fn decode_hint(sector: &[u8]) -> Result<Option<Hint>> {
    let fields = |version| if version == 1 { HINT_FIELDS_V1 } else { HINT_FIELDS };
    let record = open(sector, &CSV_HINT, HINT_KIND, fields)?;
    Ok(record.and_then(|(version, fields)| read_hint(version, fields)))
}

fn read_hint(version: u8, fields: &[u8]) -> Option<Hint> {
    let (file, length) = (u32::try_from(number(fields, 0)?).ok()?, number(fields, 8)?);
    let base = if version == 1 { length } else { number(fields, 32)? };
    Some(Hint { number: file, base, length, rows: number(fields, 16)?, begun_ms: number(fields, 24)? })
}

pub(super) fn number(fields: &[u8], at: usize) -> Option<u64> {
    fields.get(at..)?.first_chunk::<8>().map(|bytes| u64::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use mainstay::format::golden::Golden;

    use super::*;
    use crate::owner::FenceLineage;
    use crate::sink::csv::file_system::OsFileSystem;

    const WAIT: Duration = Duration::from_secs(10);

    const END: CsvMark = CsvMark { file: 1, length: 0, rows: 0 };

    fn claim(fence: u64) -> Claim {
        Claim { holder: "somebody".into(), fence: Fence::new(fence), lineage: FenceLineage::new(1) }
    }

    fn highest(path: &Path) -> u64 {
        Sidecar::open(OsFileSystem, path.to_owned()).unwrap().lock(WAIT).unwrap().token().unwrap().fence.get()
    }

    #[test]
    fn a_torn_token_leaves_the_one_before_and_the_next_one_replaces_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        let mut sidecar = Sidecar::open(OsFileSystem, path.clone()).unwrap();
        for fence in [3, 4, 9] {
            sidecar.lock(WAIT).unwrap().admit(&claim(fence), END).unwrap();
            assert_eq!(highest(&path), fence);
        }
        // The third token is in the sector of the first.
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[SECTOR + 9] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(highest(&path), 4);
        let mut sidecar = Sidecar::open(OsFileSystem, path.clone()).unwrap();
        sidecar.lock(WAIT).unwrap().admit(&claim(10), END).unwrap();
        assert_eq!(highest(&path), 10);
        let stale = sidecar.lock(WAIT).unwrap().check(&claim(9)).unwrap_err();
        assert!(matches!(stale.kind(), ErrorKind::NotPrimary { .. }));
        assert!(stale.to_string().contains("token 9 is stale, because 10"), "{stale}");
    }

    #[test]
    fn a_damaged_file_is_no_licence_to_write() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        std::fs::write(&path, [7; 3 * SECTOR]).unwrap();
        let error = Sidecar::open(OsFileSystem, path).unwrap().lock(WAIT).unwrap().admit(&claim(1), END).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
    }

    #[test]
    fn a_hint_is_what_was_noted_or_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        let mut sidecar = Sidecar::open(OsFileSystem, path.clone()).unwrap();
        let mut locked = sidecar.lock(WAIT).unwrap();
        assert_eq!(locked.hint().unwrap(), None);
        locked.admit(&claim(1), END).unwrap();
        let hint = Hint { number: 3, base: 1 << 39, length: 1 << 40, rows: 77, begun_ms: 5 };
        locked.set_hint(hint).unwrap();
        assert_eq!(locked.hint().unwrap(), Some(hint));
        drop(locked);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[2 * SECTOR + 10] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(sidecar.lock(WAIT).unwrap().hint().unwrap(), None);
    }

    #[test]
    fn a_hint_of_the_first_version_is_read() {
        let mut record = begin(1, 2);
        for field in [3_u64, 1 << 40, 77, 5] {
            record.extend_from_slice(&field.to_le_bytes());
        }
        let hint = Hint { number: 3, base: 1 << 40, length: 1 << 40, rows: 77, begun_ms: 5 };
        assert_eq!(decode_hint(&end(record.clone())).unwrap(), Some(hint));
        let golden = Golden::of(env!("CARGO_MANIFEST_DIR"));
        golden.check_version("csv-note", &CSV_HINT, 1, &end(record));
        let newest = Hint { base: 9, ..hint };
        golden.check("csv-note", &CSV_HINT, &encode_hint(newest));
        assert_eq!(decode_hint(&golden.read("csv-note", 1)).unwrap(), Some(hint));
        assert_eq!(decode_hint(&golden.read("csv-note", 2)).unwrap(), Some(newest));
    }

    #[test]
    fn a_file_of_a_later_program_is_refused_by_its_version() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        let mut sidecar = Sidecar::open(OsFileSystem, path.clone()).unwrap();
        for fence in [3, 4] {
            sidecar.lock(WAIT).unwrap().admit(&claim(fence), END).unwrap();
        }
        let mut later = begin(3, 1);
        later.extend_from_slice(&[7; 90]);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[..SECTOR].copy_from_slice(&end(later));
        std::fs::write(&path, &bytes).unwrap();
        let error = sidecar.lock(WAIT).unwrap().admit(&claim(9), END).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnknownVersion, "the older token beside it says nothing: {error}");
    }

    #[test]
    fn two_do_not_have_the_lock_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        let (mut one, mut two) =
            (Sidecar::open(OsFileSystem, path.clone()).unwrap(), Sidecar::open(OsFileSystem, path).unwrap());
        let held = one.lock(WAIT).unwrap();
        assert_eq!(two.lock(Duration::ZERO).err().unwrap().kind(), ErrorKind::Timeout);
        drop(held);
        drop(two.lock(Duration::ZERO).unwrap());
    }
}
