//! The disk as a seam: files that are read and written at offsets, and made durable by an explicit sync.
//!
//! The language of this module is [`std::io::Error`]; the rooms above turn it into errors that name the remedy.
//! [`RealDisk`] is the operating system's, [`sim::SimDisk`] loses what was not synced when a test crashes it, and
//! [`conformance`] is what both pass.

pub mod conformance;
mod real;
pub mod sim;

use std::fmt::{self, Debug};
use std::io;
use std::path::Path;
use std::sync::Arc;

pub use real::RealDisk;

/// A place for files.
///
/// To be correct:
/// - What was written to a file is durable once [`DiskFile::sync`] has returned, and not before.
/// - A file that was created, renamed or removed is durably so once [`Disk::sync_dir`] of its folder has returned.
/// - [`Disk::rename`] replaces the target atomically: after a crash one of the two is there, whole.
pub trait Disk: Debug + Send + Sync + 'static {
    /// Opens a file for reading and writing.
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>>;

    /// Opens a file that small blocks are written to and synced one by one, and that is rarely read: as [`open`](Self::open),
    /// past the system's cache where that can be done.
    fn open_direct(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        self.open(path, mode)
    }

    /// The names of the files and folders in a folder, sorted.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;

    /// Creates a folder and those above it, durably; an existing one is fine, and is durable afterwards, too.
    fn create_dir_all(&self, dir: &Path) -> io::Result<()>;

    /// Renames a file, replacing the target.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes creations, renames and removals in a folder durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;

    /// How much room there is for the files of a folder. A disk that cannot say has as much as anybody wants.
    fn space(&self, _dir: &Path) -> io::Result<DiskSpace> {
        Ok(DiskSpace::UNLIMITED)
    }

    /// Takes the exclusive lock that a file stands for, creating the file if need be; it is released on drop and
    /// when the process dies. Fails with [`io::ErrorKind::WouldBlock`] while somebody else holds it, and says who ([`LockHolder`]).
    fn lock(&self, path: &Path) -> io::Result<Box<dyn DiskLock>>;
}

/// A file of a [`Disk`].
pub trait DiskFile: Debug + Send + Sync + 'static {
    /// The length in bytes.
    fn len(&self) -> io::Result<u64>;

    /// True if the file has no bytes.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Fills the buffer from an offset; fails with [`io::ErrorKind::UnexpectedEof`] if the file ends before.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;

    /// Writes all bytes at an offset, making the file longer where needed.
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Cuts the file off or fills it up with zeros.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Reserves room, so that writes below `len` cannot fail for lack of it, and makes the file that long; the new
    /// part reads as zeros.
    fn allocate(&self, len: u64) -> io::Result<()>;

    /// Makes everything written so far durable.
    fn sync(&self) -> io::Result<()>;
}

/// How much room a file system has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskSpace {
    /// What this process may still use.
    pub free_bytes: u64,
    /// All of it, used or not.
    pub total_bytes: u64,
}

impl DiskSpace {
    /// More than anybody can use.
    pub const UNLIMITED: Self = Self { free_bytes: u64::MAX, total_bytes: u64::MAX };
}

/// Who holds a lock: what [`Disk::lock`] says, inside of its error, when it cannot be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockHolder {
    /// This process: a node that is still running, or still stopping.
    ThisProcess,
    /// Another process, by its id if that is known.
    Process(Option<u32>),
}

impl LockHolder {
    /// Who holds the lock that could not be had, if the error is of that kind.
    pub fn of(error: &io::Error) -> Option<Self> {
        (error.kind() == io::ErrorKind::WouldBlock).then(|| {
            let told = error.get_ref().and_then(|cause| cause.downcast_ref::<Self>());
            told.copied().unwrap_or(Self::Process(None))
        })
    }

    pub(crate) fn into_error(self) -> io::Error {
        io::Error::new(io::ErrorKind::WouldBlock, self)
    }
}

impl fmt::Display for LockHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ThisProcess => f.write_str("a node of this process that is still running or stopping"),
            Self::Process(Some(id)) => write!(f, "process {id}"),
            Self::Process(None) => f.write_str("another process"),
        }
    }
}

impl std::error::Error for LockHolder {}

/// An exclusive lock, released on drop.
pub trait DiskLock: Debug + Send + Sync + 'static {}

/// How [`Disk::open`] treats a file that is there or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    /// The file must exist.
    Existing,
    /// The file must not exist.
    New,
    /// Either.
    Either,
}
