#[cfg(target_os = "linux")]
mod direct;

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::FallocateFlags;

use super::{Disk, DiskFile, DiskLock, DiskSpace, LockHolder, OpenMode};

/// The operating system's files.
///
/// ```
/// use mainstay_store::disk::{Disk, OpenMode, RealDisk};
///
/// let dir = tempfile::tempdir()?;
/// let file = RealDisk.open(&dir.path().join("a"), OpenMode::New)?;
/// file.write_all_at(b"hello", 0)?;
/// file.sync()?;
/// RealDisk.sync_dir(dir.path())?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct RealDisk;

impl Disk for RealDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(RealFile::open(path, mode)?))
    }

    #[cfg(target_os = "linux")]
    fn open_direct(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        Ok(match direct::DirectFile::open(path, RealFile::open(path, mode)?) {
            Ok(direct) => Arc::new(direct),
            Err(usual) => Arc::new(usual),
        })
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(dir)? {
            // A name that is not text is none of ours; shown lossily it matches no name that we look for.
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        names.sort_unstable();
        Ok(names)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        // One by one from the outside in, and each is durable before the next: of those that are found, only the innermost
        // may have been left unsynced by a process that was killed.
        let folders = || dir.ancestors().filter(|folder| !folder.as_os_str().is_empty());
        let missing: Vec<&Path> = folders().take_while(|folder| !folder.exists()).collect();
        if let Some(found) = folders().nth(missing.len()) {
            match self.sync_dir(folder_of(found)) {
                // Who may not read a folder has created and synced nothing in it.
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
                synced => synced?,
            }
        }
        for missing in missing.into_iter().rev() {
            std::fs::create_dir_all(missing)?;
            self.sync_dir(folder_of(missing))?;
        }
        // Fails if it is a file.
        std::fs::create_dir_all(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        File::open(dir)?.sync_all()
    }

    fn space(&self, dir: &Path) -> io::Result<DiskSpace> {
        let found = rustix::fs::statvfs(dir)?;
        Ok(DiskSpace {
            free_bytes: found.f_bavail.saturating_mul(found.f_frsize),
            total_bytes: found.f_blocks.saturating_mul(found.f_frsize),
        })
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn DiskLock>> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        match file.try_lock() {
            Ok(()) => {
                // For who wants it meanwhile. Should it fail, nobody is named.
                _ = file.set_len(0).and_then(|()| file.write_all_at(std::process::id().to_string().as_bytes(), 0));
                Ok(Box::new(RealLock { file }))
            }
            Err(TryLockError::WouldBlock) => Err(holder(&file).into_error()),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

/// Who says to hold the lock of a file.
fn holder(file: &File) -> LockHolder {
    let mut text = [0; 16];
    let len = file.read_at(&mut text, 0).unwrap_or(0);
    let id = str::from_utf8(&text[..len]).ok().and_then(|text| text.parse().ok());
    if id == Some(std::process::id()) { LockHolder::ThisProcess } else { LockHolder::Process(id) }
}

/// The folder that holds a path; the root holds itself.
fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if folder.as_os_str().is_empty() => Path::new("."),
        Some(folder) => folder,
        None => path,
    }
}

#[derive(Debug)]
struct RealFile {
    file: File,
}

impl RealFile {
    fn open(path: &Path, mode: OpenMode) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        match mode {
            OpenMode::Existing => {}
            OpenMode::New => drop(options.create_new(true)),
            OpenMode::Either => drop(options.create(true).truncate(false)),
        }
        Ok(Self { file: options.open(path)? })
    }
}

impl DiskFile for RealFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        if len == 0 {
            return Ok(());
        }
        // A long one may be interrupted by any signal.
        match rustix::io::retry_on_intr(|| rustix::fs::fallocate(&self.file, FallocateFlags::empty(), 0, len)) {
            Ok(()) => Ok(()),
            // A file system that cannot reserve room gets zeros written: room that is used is reserved, too.
            Err(rustix::io::Errno::OPNOTSUPP) => fill_with_zeros(&self.file, len),
            Err(error) => Err(error.into()),
        }
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}

fn fill_with_zeros(file: &File, len: u64) -> io::Result<()> {
    static ZEROS: [u8; 1 << 16] = [0; 1 << 16];
    let before = file.metadata()?.len();
    let mut offset = before;
    while offset < len {
        let step = (len - offset).min(ZEROS.len() as u64);
        if let Err(error) = file.write_all_at(&ZEROS[..step as usize], offset) {
            // A disk that is full is not left fuller. Should this fail, too, the first error is the one to tell.
            _ = file.set_len(before);
            return Err(error);
        }
        offset += step;
    }
    Ok(())
}

/// The operating system releases the lock when the last copy of the file handle is closed, which it also is when the
/// process dies.
#[derive(Debug)]
struct RealLock {
    file: File,
}

impl DiskLock for RealLock {}

impl Drop for RealLock {
    /// Closing is not enough: a child process that another thread is just starting holds a copy for a moment. If this
    /// fails, closing still releases the lock, only later.
    fn drop(&mut self) {
        _ = self.file.set_len(0);
        _ = self.file.unlock();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn real_disk_conforms() {
        let dir = tempfile::tempdir().unwrap();
        super::super::conformance::check(&RealDisk, dir.path());
    }

    #[test]
    fn folders_are_created_below_and_beside_those_that_are_there() {
        let dir = tempfile::tempdir().unwrap();
        let deep = dir.path().join("a/b/c");
        for folder in [deep.as_path(), &deep, &dir.path().join("a/d"), Path::new("/"), Path::new("."), Path::new("src")]
        {
            RealDisk.create_dir_all(folder).unwrap();
            assert!(folder.is_dir());
        }
        std::fs::write(dir.path().join("file"), "").unwrap();
        RealDisk.create_dir_all(&dir.path().join("file")).unwrap_err();
        RealDisk.create_dir_all(&dir.path().join("file/below")).unwrap_err();
    }

    #[test]
    fn a_dropped_lock_is_free_although_a_copy_of_its_handle_is_open() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(&path).unwrap();
        file.try_lock().unwrap();
        let copy = file.try_clone().unwrap();
        drop(RealLock { file });
        drop(RealDisk.lock(&path).unwrap());
        drop(copy);
    }
}
