//! The files of a series as a seam: the operating system's in production, files that fail and forget in tests.
//!
//! It is a type parameter and not a trait object, so that it costs nothing. It is not the disk seam of a node
//! ([`mainstay::partition::Disk`]), because a series asks for more: which file a name stands for at the moment, when that was
//! written last, and a lock on a file that is open.

mod os;

use std::ffi::OsString;
use std::fs::TryLockError;
use std::io;
use std::path::Path;
use std::time::SystemTime;

pub(super) use os::OsFileSystem;

/// Where files are.
///
/// To be correct:
/// - What was written to a file is durable once [`OpenFile::sync`] has returned, and not before.
/// - A file that was made or removed is durably so once [`FileSystem::sync_folder`] of its folder has returned.
pub(super) trait FileSystem: Clone + Send + Sync + 'static {
    /// A file that is open.
    type File: OpenFile;

    /// Makes a folder and those above it, durably; one that is there is fine.
    fn create_folder(&self, folder: &Path) -> io::Result<()>;

    /// Opens a file for reading and writing, which is made if there is none.
    fn open(&self, path: &Path) -> io::Result<Self::File>;

    /// What is known of the file that has this name now.
    fn facts(&self, path: &Path) -> io::Result<FileFacts>;

    /// The names in a folder, in any order.
    fn names(&self, folder: &Path) -> io::Result<Vec<OsString>>;

    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes durable which names a folder has.
    fn sync_folder(&self, folder: &Path) -> io::Result<()>;
}

/// A file of a [`FileSystem`].
pub(super) trait OpenFile: Send + Sync + 'static {
    /// What is known of it.
    fn facts(&self) -> io::Result<FileFacts>;

    /// Reads from a place until there is no room or nothing more, and says how much that was.
    fn read_at(&self, bytes: &mut [u8], place: u64) -> io::Result<usize>;

    /// Writes all bytes at a place.
    fn write_at(&self, bytes: &[u8], place: u64) -> io::Result<()>;

    /// Cuts it off.
    fn set_length(&self, length: u64) -> io::Result<()>;

    /// Makes everything that was written so far durable.
    fn sync(&self) -> io::Result<()>;

    /// Takes its exclusive lock, which closing it gives back as well.
    fn try_lock(&self) -> Result<(), TryLockError>;

    /// Gives the lock back.
    fn unlock(&self) -> io::Result<()>;
}

/// What is known of a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct FileFacts {
    /// In bytes.
    pub(super) length: u64,
    pub(super) identity: Identity,
    /// When it was written last, where the system says so.
    pub(super) modified: Option<SystemTime>,
}

/// Which file it is, whatever its name: two with the same are one. Nothing where the system does not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity(pub(super) Option<(u64, u64)>);
