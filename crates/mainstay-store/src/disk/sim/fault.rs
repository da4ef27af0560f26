use std::io;
use std::path::{Path, PathBuf};

/// An operation of a disk or a file, as [`Fault`]s name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum DiskOp {
    /// [`Disk::open`](crate::disk::Disk::open).
    Open,
    /// [`Disk::list`](crate::disk::Disk::list).
    List,
    /// [`Disk::create_dir_all`](crate::disk::Disk::create_dir_all).
    CreateDir,
    /// [`Disk::rename`](crate::disk::Disk::rename), by its source.
    Rename,
    /// [`Disk::remove`](crate::disk::Disk::remove).
    Remove,
    /// [`Disk::sync_dir`](crate::disk::Disk::sync_dir).
    SyncDir,
    /// [`Disk::space`](crate::disk::Disk::space).
    Space,
    /// [`Disk::lock`](crate::disk::Disk::lock).
    Lock,
    /// [`DiskFile::len`](crate::disk::DiskFile::len).
    Len,
    /// [`DiskFile::read_exact_at`](crate::disk::DiskFile::read_exact_at).
    Read,
    /// [`DiskFile::write_all_at`](crate::disk::DiskFile::write_all_at): the first half of the bytes is written.
    Write,
    /// [`DiskFile::set_len`](crate::disk::DiskFile::set_len).
    SetLen,
    /// [`DiskFile::allocate`](crate::disk::DiskFile::allocate).
    Allocate,
    /// [`DiskFile::sync`](crate::disk::DiskFile::sync): what was not synced yet is from then on readable, but only
    /// some of it is on the disk, and no later sync changes that, as on a real machine.
    Sync,
}

impl DiskOp {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::Open,
        Self::List,
        Self::CreateDir,
        Self::Rename,
        Self::Remove,
        Self::SyncDir,
        Self::Space,
        Self::Lock,
        Self::Len,
        Self::Read,
        Self::Write,
        Self::SetLen,
        Self::Allocate,
        Self::Sync,
    ];
}

/// A failure that a test asks for.
///
/// ```
/// use mainstay_store::disk::sim::{DiskOp, Fault, SimDisk};
///
/// let disk = SimDisk::new(1);
/// // The third write to a file with "segment" in its path fails, once.
/// disk.inject(Fault::on(DiskOp::Write).path("segment").nth(3));
/// // No file can be opened, until `disk.heal()`.
/// disk.inject(Fault::on(DiskOp::Open).times(u64::MAX).kind(std::io::ErrorKind::PermissionDenied));
/// ```
#[derive(Debug, Clone)]
pub struct Fault {
    op: DiskOp,
    path: Option<PathBuf>,
    skip: u64,
    times: u64,
    kind: io::ErrorKind,
}

impl Fault {
    /// The next such operation fails, once, as a broken device would.
    pub fn on(op: DiskOp) -> Self {
        Self { op, path: None, skip: 0, times: 1, kind: io::ErrorKind::Other }
    }

    /// Only operations on paths that contain a text.
    #[must_use]
    pub fn path(mut self, part: impl AsRef<Path>) -> Self {
        self.path = Some(part.as_ref().to_path_buf());
        self
    }

    /// Not the next but the nth from now; 1 is the next.
    #[must_use]
    pub fn nth(mut self, nth: u64) -> Self {
        self.skip = nth.saturating_sub(1);
        self
    }

    /// Fails that many times.
    #[must_use]
    pub fn times(mut self, times: u64) -> Self {
        self.times = times;
        self
    }

    /// The kind of the error.
    #[must_use]
    pub fn kind(mut self, kind: io::ErrorKind) -> Self {
        self.kind = kind;
        self
    }

    /// Counts an operation, and says whether it fails.
    pub(super) fn strike(&mut self, op: DiskOp, path: &Path) -> Option<io::Error> {
        if self.op != op || self.times == 0 || !self.covers(path) {
            return None;
        }
        if self.skip > 0 {
            self.skip -= 1;
            return None;
        }
        self.times -= 1;
        Some(io::Error::new(self.kind, format!("injected fault: {op:?} on {}", path.display())))
    }

    /// True once it has failed as often as it was asked to.
    pub(super) fn is_spent(&self) -> bool {
        self.times == 0
    }

    fn covers(&self, path: &Path) -> bool {
        let Some(part) = &self.path else { return true };
        path.to_string_lossy().contains(part.to_string_lossy().as_ref())
    }
}
