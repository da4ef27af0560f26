//! The file below redb: numbered blocks, each with a checksum of its own.
//!
//! redb has checksums, but reads them only when it repairs a file. Here every block is checked whenever it is read, so
//! that a damaged byte, wherever it is, is an error and never data. `docs/internals/state-store.md` has the layout.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use mainstay_core::{Error, ErrorKind, RESTORE, Result};
use parking_lot::Mutex;

use super::failure::{Replaced, io_failure};
use super::reading::past_redb;
use crate::disk::{Disk, DiskFile, OpenMode};
use crate::formats;

const MAGIC: [u8; 8] = *b"MAINSTST";

/// The head of the file, written once.
const HEAD_BYTES: usize = 4096;
const HEAD_CHECKSUM_AT: usize = HEAD_BYTES - 4;
const OWNER_AT: usize = 16;

/// The longest owner tag.
pub(super) const OWNER_BYTES_MAX: usize = 1024;

/// What redb calls a page.
const BLOCK_BYTES: usize = 4096;

/// A block and its checksum.
const UNIT_BYTES: usize = BLOCK_BYTES + 4;

/// By how much a file may grow with all of that reserved.
const RESERVED_BYTES_MAX: u64 = 64 << 20;

/// A file of checked blocks.
#[derive(Debug)]
pub(super) struct BlockFile {
    file: Arc<dyn DiskFile>,
    /// What redb sees as the length: a multiple of the block size.
    len: AtomicU64,
    first: Mutex<FirstBlock>,
    /// Set when the file is done with: from then on nothing can change it.
    sealed: AtomicBool,
    /// Set when the file has a new user: from then on what is read may not be what was written.
    retired: AtomicBool,
}

/// Block 0, which redb overwrites in place, is kept twice: a torn write leaves the other copy.
#[derive(Debug)]
struct FirstBlock {
    bytes: Box<[u8; BLOCK_BYTES]>,
    /// The first copy has changed since both were synced.
    changed: bool,
}

impl BlockFile {
    /// Creates an empty file for an owner.
    pub(super) fn create(disk: &dyn Disk, path: &Path, owner: &[u8]) -> Result<Self> {
        if owner.len() > OWNER_BYTES_MAX {
            return Err(Error::new(
                ErrorKind::TooLarge,
                format!("owner tag of {} bytes exceeds the limit of {OWNER_BYTES_MAX}: shorten it", owner.len()),
            ));
        }
        let failed = |error| io_failure(path, "create", error);
        let file = disk.open(path, OpenMode::New).map_err(failed)?;
        file.write_all_at(&head(owner), 0).map_err(failed)?;
        let first = FirstBlock { bytes: Box::new([0; BLOCK_BYTES]), changed: false };
        Ok(Self {
            file,
            len: AtomicU64::new(0),
            first: Mutex::new(first),
            sealed: AtomicBool::new(false),
            retired: AtomicBool::new(false),
        })
    }

    /// Opens a file that belongs to an owner, and settles what a crash left of its first block.
    pub(super) fn open(disk: &dyn Disk, path: &Path, owner: &[u8]) -> Result<Self> {
        let failed = |error| io_failure(path, "open", error);
        let file = disk.open(path, OpenMode::Existing).map_err(failed)?;
        let mut head = vec![0; HEAD_BYTES];
        file.read_exact_at(&mut head, 0).map_err(failed)?;
        check_head(path, &head, owner)?;

        let file_len = file.len().map_err(failed)?;
        let units = (file_len - HEAD_BYTES as u64) / UNIT_BYTES as u64;
        if units < 2 {
            return Err(Error::corrupt(format!("state store {} is cut off: {RESTORE}", path.display())));
        }
        let copies = [read_unit(&*file, 0, 0), read_unit(&*file, 1, 0)];
        let bytes = match copies {
            [Ok(first), Ok(second)] if first == second => {
                // Equal as read is not equal on disk: after a failed sync one of them may be in the system's cache alone. The one
                // that is on disk is overwritten with the bytes that it has, which no crash can tear.
                write_unit(&*file, 0, 0, &first).map_err(failed)?;
                write_unit(&*file, 1, 0, &first).map_err(failed)?;
                file.sync().map_err(failed)?;
                first
            }
            [Ok(first), Ok(_) | Err(_)] => {
                // A crash or a failed sync came between the copies. The first is the newer one; it is written again
                // because a failed sync may have dropped it from the disk while it can still be read, and so is the
                // length.
                file.set_len(file_len).map_err(failed)?;
                write_unit(&*file, 0, 0, &first).map_err(failed)?;
                file.sync().map_err(failed)?;
                write_unit(&*file, 1, 0, &first).map_err(failed)?;
                file.sync().map_err(failed)?;
                first
            }
            [Err(_), Ok(second)] => {
                file.set_len(file_len).map_err(failed)?;
                write_unit(&*file, 0, 0, &second).map_err(failed)?;
                file.sync().map_err(failed)?;
                second
            }
            [Err(error), Err(_)] => return Err(failed(error)),
        };
        Ok(Self {
            file,
            len: AtomicU64::new((units - 1) * BLOCK_BYTES as u64),
            first: Mutex::new(FirstBlock { bytes, changed: false }),
            sealed: AtomicBool::new(false),
            retired: AtomicBool::new(false),
        })
    }

    /// Ends all changes, whatever redb still tries.
    pub(super) fn seal(&self) {
        self.sealed.store(true, Ordering::Release);
    }

    /// Ends all reading, too.
    pub(super) fn retire(&self) {
        self.seal();
        self.retired.store(true, Ordering::Release);
    }

    pub(super) fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Acquire)
    }

    fn check_sealed(&self) -> io::Result<()> {
        if self.sealed.load(Ordering::Acquire) {
            return Err(io::Error::other("the state store is closed"));
        }
        Ok(())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let read = self.read_blocks(offset, out);
        // After the read, so that what was read while the file changed hands does not count, nor that it could not be.
        if self.is_retired() {
            return Err(io::Error::other(Replaced));
        }
        read
    }

    fn read_blocks(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let end = offset + out.len() as u64;
        if end > self.len.load(Ordering::Acquire) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut offset = offset;
        let mut out = out;
        if offset < BLOCK_BYTES as u64 {
            let at = offset as usize;
            let in_first = out.len().min(BLOCK_BYTES - at);
            let (front, back) = out.split_at_mut(in_first);
            front.copy_from_slice(&self.first.lock().bytes[at..at + in_first]);
            offset = BLOCK_BYTES as u64;
            out = back;
        }
        if out.is_empty() {
            return Ok(());
        }
        let first = offset / BLOCK_BYTES as u64;
        let last = (end - 1) / BLOCK_BYTES as u64;
        let mut units = vec![0; (last - first + 1) as usize * UNIT_BYTES];
        self.file.read_exact_at(&mut units, unit_offset(first + 1))?;
        let mut at = (offset % BLOCK_BYTES as u64) as usize;
        for (unit, block) in units.chunks_exact(UNIT_BYTES).zip(first..) {
            let bytes = check_unit(unit, block)?;
            let part = out.len().min(BLOCK_BYTES - at);
            let (front, back) = out.split_at_mut(part);
            front.copy_from_slice(&bytes[at..at + part]);
            out = back;
            at = 0;
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.check_sealed()?;
        if offset == 0 && data.len() <= BLOCK_BYTES {
            let mut first = self.first.lock();
            first.bytes[..data.len()].copy_from_slice(data);
            first.changed = true;
            return write_unit(&*self.file, 0, 0, &first.bytes);
        }
        let is_whole = offset.is_multiple_of(BLOCK_BYTES as u64) && data.len().is_multiple_of(BLOCK_BYTES);
        if offset == 0 || !is_whole {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "redb wrote a part of a page"));
        }
        let block = offset / BLOCK_BYTES as u64;
        let mut units = Vec::with_capacity(data.len() / BLOCK_BYTES * UNIT_BYTES);
        for (bytes, number) in data.chunks_exact(BLOCK_BYTES).zip(block..) {
            units.extend_from_slice(bytes);
            units.extend_from_slice(&checksum(number, bytes).to_le_bytes());
        }
        self.file.write_all_at(&units, unit_offset(block + 1))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.check_sealed()?;
        let blocks = len.div_ceil(BLOCK_BYTES as u64);
        let before = self.len.load(Ordering::Acquire);
        // Block 0 has two units.
        let file_len = unit_offset(if blocks == 0 { 0 } else { blocks + 1 });
        // A little is reserved, so that pages lie together and a full disk shows early. redb asks for as much as there is
        // already, or for gigabytes, when it needs a page: that much need not be there. Nor need what a new file begins with,
        // most of which a store that holds little never uses.
        let is_grown = before > 0 && len > before;
        let is_reserved = is_grown && len - before <= RESERVED_BYTES_MAX && reserve(&*self.file, file_len)?;
        if !is_reserved {
            self.file.set_len(file_len)?;
        }
        self.len.store(len, Ordering::Release);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.check_sealed()?;
        let mut first = self.first.lock();
        self.file.sync()?;
        if first.changed {
            // The first copy is on disk, so this one may be torn.
            write_unit(&*self.file, 1, 0, &first.bytes)?;
            self.file.sync()?;
            first.changed = false;
        }
        Ok(())
    }
}

/// What redb is given.
#[derive(Debug)]
pub(super) struct Backend(pub(super) Arc<BlockFile>);

impl redb::StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.len.load(Ordering::Acquire))
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read(offset, out).map_err(past_redb)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write(offset, data)
    }
}

/// Reserves room if there is any; false if the disk has not that much.
fn reserve(file: &dyn DiskFile, len: u64) -> io::Result<bool> {
    match file.allocate(len) {
        Ok(()) => Ok(true),
        Err(error) if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) => Ok(false),
        Err(error) => Err(error),
    }
}

fn unit_offset(unit: u64) -> u64 {
    HEAD_BYTES as u64 + unit * UNIT_BYTES as u64
}

/// A checksum that depends on the place, so that a block written to another place does not pass.
fn checksum(block: u64, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&block.to_le_bytes()), bytes)
}

fn check_unit(unit: &[u8], block: u64) -> io::Result<&[u8]> {
    let (bytes, stored) = unit.split_at(BLOCK_BYTES);
    if checksum(block, bytes).to_le_bytes() != stored {
        let message = format!("the checksum of block {block} does not match");
        return Err(io::Error::new(io::ErrorKind::InvalidData, message));
    }
    Ok(bytes)
}

fn read_unit(file: &dyn DiskFile, unit: u64, block: u64) -> io::Result<Box<[u8; BLOCK_BYTES]>> {
    let mut buffer = vec![0; UNIT_BYTES];
    file.read_exact_at(&mut buffer, unit_offset(unit))?;
    let mut bytes = Box::new([0; BLOCK_BYTES]);
    bytes.copy_from_slice(check_unit(&buffer, block)?);
    Ok(bytes)
}

fn write_unit(file: &dyn DiskFile, unit: u64, block: u64, bytes: &[u8; BLOCK_BYTES]) -> io::Result<()> {
    let mut buffer = Vec::with_capacity(UNIT_BYTES);
    buffer.extend_from_slice(bytes);
    buffer.extend_from_slice(&checksum(block, bytes).to_le_bytes());
    file.write_all_at(&buffer, unit_offset(unit))
}

fn head(owner: &[u8]) -> Vec<u8> {
    let mut head = vec![0; HEAD_BYTES];
    head[..8].copy_from_slice(&MAGIC);
    head[8..12].copy_from_slice(&u32::from(formats::STORE_FILE.written()).to_le_bytes());
    // At most OWNER_BYTES_MAX.
    head[12..OWNER_AT].copy_from_slice(&(owner.len() as u32).to_le_bytes());
    head[OWNER_AT..OWNER_AT + owner.len()].copy_from_slice(owner);
    let checksum = crc32c::crc32c(&head[..HEAD_CHECKSUM_AT]);
    head[HEAD_CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
    head
}

fn check_head(path: &Path, head: &[u8], owner: &[u8]) -> Result<()> {
    let path = path.display();
    let checksum = crc32c::crc32c(&head[..HEAD_CHECKSUM_AT]).to_le_bytes();
    if head[..8] != MAGIC || head[HEAD_CHECKSUM_AT..] != checksum {
        return Err(Error::corrupt(format!("{path} is no state store, or its head is damaged: {RESTORE}")));
    }
    let number_at = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    formats::STORE_FILE.check_wide(number_at(8), format_args!("state store {path}"))?;
    let found = head.get(OWNER_AT..OWNER_AT + number_at(12) as usize).unwrap_or_default();
    if found != owner {
        return Err(Error::invalid(format!(
            "state store {path} belongs to {:?}, not to {:?}: check the data folder",
            String::from_utf8_lossy(found),
            String::from_utf8_lossy(owner)
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use mainstay_core::format::golden::{Golden, damaged};

    use super::*;
    use crate::disk::sim::{DiskOp, Fault, SimDisk};

    const PATH: &str = "/a.state";

    #[test]
    fn golden_heads_are_what_is_written_and_damaged_ones_are_refused() {
        let head = head(b"owner");
        Golden::of(env!("CARGO_MANIFEST_DIR")).check("store-head", &formats::STORE_FILE, &head);
        check_head(Path::new(PATH), &head, b"owner").unwrap();
        for (what, bytes) in damaged(&head).filter(|(_, bytes)| bytes.len() == HEAD_BYTES) {
            let error = check_head(Path::new(PATH), &bytes, b"owner").expect_err(&what);
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{what}");
        }
    }

    fn open(disk: &SimDisk) -> Result<BlockFile> {
        BlockFile::open(disk, Path::new(PATH), b"owner")
    }

    fn fill(file: &BlockFile, byte: u8) {
        file.write(0, &[byte; BLOCK_BYTES]).unwrap();
    }

    /// A disk with a durable first block of ones in both copies.
    fn disk_with_ones(seed: u64) -> (SimDisk, BlockFile) {
        let disk = SimDisk::new(seed);
        let file = BlockFile::create(&disk, Path::new(PATH), b"owner").unwrap();
        file.set_len(BLOCK_BYTES as u64).unwrap();
        fill(&file, 1);
        file.sync().unwrap();
        disk.sync_dir(Path::new("/")).unwrap();
        (disk, file)
    }

    #[test]
    fn a_copy_whose_sync_failed_is_made_durable_before_the_other_changes() {
        for seed in 0..200 {
            for failing in 1..=2 {
                let (disk, file) = disk_with_ones(seed);
                fill(&file, 2);
                disk.inject(Fault::on(DiskOp::Sync).nth(failing));
                file.sync().unwrap_err();
                drop(file);
                fill(&open(&disk).unwrap(), 3);
                disk.crash();
                let found = open(&disk).unwrap_or_else(|error| panic!("seed {seed}, sync {failing}: {error}"));
                let first = found.first.lock().bytes[0];
                assert!((2..=3).contains(&first), "seed {seed}, sync {failing}: went back to {first}");
            }
        }
    }
}
