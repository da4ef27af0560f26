use std::cell::RefCell;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::OFlags;
use rustix::io::Errno;

use super::RealFile;
use crate::disk::DiskFile;

/// The largest write that goes past the cache. A larger one is better off in it: the system hands its parts to the disk all at
/// once.
const WRITE_BYTES_MAX: usize = 256 << 10;

/// What places and lengths of writes past the cache are multiples of, at the least. A disk that wants more refuses.
const SECTOR_BYTES: usize = 512;

/// Where in memory such a write may start, for any disk.
const MEMORY_ALIGNMENT: usize = 4096;

thread_local! {
    static BUFFER: RefCell<AlignedBuffer> = const { RefCell::new(AlignedBuffer { memory: Vec::new() }) };
}

/// A file that small writes of whole sectors go to without passing through the system's cache.
///
/// Everything else takes the usual way: the system keeps the two coherent, as long as nobody writes to the same page by both
/// at the same time. Which way a write takes says nothing about when it is durable: that is said by a sync.
#[derive(Debug)]
pub(super) struct DirectFile {
    usual: RealFile,
    direct: File,
    /// The file system or the disk does not take writes of this kind.
    refused: AtomicBool,
}

impl DirectFile {
    /// Opens the same file once more, past the cache; gives it back as it is where that cannot be done.
    pub(super) fn open(path: &Path, usual: RealFile) -> Result<Self, RealFile> {
        match OpenOptions::new().write(true).custom_flags(OFlags::DIRECT.bits().cast_signed()).open(path) {
            Ok(direct) => Ok(Self { usual, direct, refused: AtomicBool::new(false) }),
            Err(error) => {
                tracing::debug!(path = %path.display(), %error, "not past the system's cache");
                Err(usual)
            }
        }
    }

    fn takes(&self, bytes: &[u8], offset: u64) -> bool {
        bytes.len() <= WRITE_BYTES_MAX
            && bytes.len().is_multiple_of(SECTOR_BYTES)
            && offset.is_multiple_of(SECTOR_BYTES as u64)
            && !self.refused.load(Ordering::Relaxed)
    }
}

impl DiskFile for DirectFile {
    fn len(&self) -> io::Result<u64> {
        self.usual.len()
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.usual.read_exact_at(buffer, offset)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        if self.takes(bytes, offset) {
            let written = BUFFER.with_borrow_mut(|buffer| self.direct.write_all_at(buffer.hold(bytes), offset));
            match written {
                // The sectors of the disk are larger, or the file system cannot do it after all.
                Err(error) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => {
                    tracing::debug!("the disk takes no sectors of {SECTOR_BYTES} bytes past the system's cache");
                    self.refused.store(true, Ordering::Relaxed);
                }
                written => return written,
            }
        }
        self.usual.write_all_at(bytes, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.usual.set_len(len)
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.usual.allocate(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.usual.sync()
    }
}

/// Memory that a disk can read from by itself, one for each thread that writes.
struct AlignedBuffer {
    /// Long enough to hold the largest write from the first aligned place on; empty until it is used.
    memory: Vec<u8>,
}

impl AlignedBuffer {
    /// A copy of the bytes where the disk wants them.
    fn hold(&mut self, bytes: &[u8]) -> &[u8] {
        if self.memory.is_empty() {
            self.memory = vec![0; WRITE_BYTES_MAX + MEMORY_ALIGNMENT];
        }
        // Less than the alignment for bytes.
        let start = self.memory.as_ptr().align_offset(MEMORY_ALIGNMENT);
        let held = &mut self.memory[start..start + bytes.len()];
        held.copy_from_slice(bytes);
        held
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::Mode;

    use super::*;
    use crate::disk::{Disk as _, OpenMode, RealDisk};

    fn read(path: &Path) -> Vec<u8> {
        std::fs::read(path).unwrap()
    }

    fn open(path: &Path) -> DirectFile {
        let usual = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).unwrap();
        let direct = OpenOptions::new().write(true).open(path).unwrap();
        DirectFile { usual: RealFile { file: usual }, direct, refused: AtomicBool::new(false) }
    }

    #[test]
    fn the_second_handle_is_past_the_cache() {
        // Beside the program, which is on a disk.
        let dir = tempfile::tempdir_in(std::env::current_exe().unwrap().parent().unwrap()).unwrap();
        let path = dir.path().join("file");
        match DirectFile::open(&path, RealFile::open(&path, OpenMode::New).unwrap()) {
            Ok(file) => assert!(rustix::fs::fcntl_getfl(&file.direct).unwrap().contains(OFlags::DIRECT)),
            // Then the file system cannot do it for anybody.
            Err(_) => drop(rustix::fs::open(&path, OFlags::WRONLY | OFlags::DIRECT, Mode::empty()).unwrap_err()),
        }
    }

    #[test]
    fn both_ways_see_what_the_other_has_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let file = RealDisk.open_direct(&path, OpenMode::New).unwrap();
        file.allocate(2 << 20).unwrap();
        let mut expected = vec![0; 2 << 20];
        // Whole sectors, parts of them, some of both next to each other, and more than goes past the cache.
        let writes = [(0, 512), (512, 1024), (1536, 700), (1536, 512), (2236, 3), (4096, WRITE_BYTES_MAX)];
        let large = [(300_032, WRITE_BYTES_MAX + 512), (300_032, 512), (299_520, 1024), ((2 << 20) - 512, 512)];
        for (number, (offset, len)) in (1u8..).zip(writes.into_iter().chain(large)) {
            let bytes = vec![number; len];
            file.write_all_at(&bytes, offset as u64).unwrap();
            expected[offset..offset + len].copy_from_slice(&bytes);
            let mut found = vec![0; 2 << 20];
            file.read_exact_at(&mut found, 0).unwrap();
            assert!(found == expected, "after write {number}");
        }
        file.sync().unwrap();
        assert!(read(&path) == expected);
    }

    #[test]
    fn only_small_writes_of_whole_sectors_go_past_the_cache() {
        let dir = tempfile::tempdir().unwrap();
        let file = open(&dir.path().join("file"));
        let takes = |len: usize, offset| file.takes(&vec![0; len], offset);
        assert!(takes(512, 0) && takes(1024, 512) && takes(WRITE_BYTES_MAX, 1 << 40));
        assert!(!takes(511, 0) && !takes(512, 1) && !takes(WRITE_BYTES_MAX + 512, 0));
    }

    #[test]
    fn what_the_disk_refuses_takes_the_usual_way_from_then_on() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let mut file = open(&path);
        file.direct = refusing();
        assert_eq!(file.direct.write_at(&[7; 512], 0).unwrap_err().raw_os_error(), Some(Errno::INVAL.raw_os_error()));
        file.write_all_at(&[7; 1024], 512).unwrap();
        assert!(file.refused.load(Ordering::Relaxed));
        file.write_all_at(&[8; 512], 1024).unwrap();
        assert_eq!(read(&path), [vec![0; 512], vec![7; 512], vec![8; 512]].concat());
    }

    /// Something that answers such writes with "invalid", as a disk with larger sectors does: the system wants a number there.
    fn refusing() -> File {
        OpenOptions::new().write(true).open("/proc/self/oom_score_adj").unwrap()
    }

    #[test]
    fn other_failures_are_told() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let mut file = open(&path);
        file.direct = File::open(&path).unwrap();
        file.write_all_at(&[7; 512], 0).unwrap_err();
        assert_eq!(read(&path), [], "nothing is tried again another way");
    }
}
