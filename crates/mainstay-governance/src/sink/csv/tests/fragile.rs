use std::ffi::OsString;
use std::fs::TryLockError;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mainstay::partition::{Disk as _, DiskFile, DiskLock, OpenMode, SimDisk};
use parking_lot::Mutex;

use crate::sink::csv::file_system::{FileFacts, FileSystem, Identity, OpenFile};

/// Files on a simulated disk, which loses what was not synced when it crashes, and fails where a test asks for it.
#[derive(Clone)]
pub(super) struct FragileFiles(pub(super) SimDisk);

pub(super) struct FragileFile {
    disk: SimDisk,
    path: PathBuf,
    file: Arc<dyn DiskFile>,
    lock: Mutex<Option<Box<dyn DiskLock>>>,
}

impl FileSystem for FragileFiles {
    type File = FragileFile;

    fn create_folder(&self, folder: &Path) -> io::Result<()> {
        self.0.create_dir_all(folder)
    }

    fn open(&self, path: &Path) -> io::Result<FragileFile> {
        let file = self.0.open(path, OpenMode::Either)?;
        Ok(FragileFile { disk: self.0.clone(), path: path.to_owned(), file, lock: Mutex::new(None) })
    }

    fn facts(&self, path: &Path) -> io::Result<FileFacts> {
        facts(&*self.0.open(path, OpenMode::Existing)?)
    }

    fn names(&self, folder: &Path) -> io::Result<Vec<OsString>> {
        Ok(self.0.list(folder)?.into_iter().map(OsString::from).collect())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.0.remove(path)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        self.0.sync_dir(folder)
    }
}

impl OpenFile for FragileFile {
    fn facts(&self) -> io::Result<FileFacts> {
        facts(&*self.file)
    }

    fn read_at(&self, bytes: &mut [u8], place: u64) -> io::Result<usize> {
        let left = self.file.len()?.saturating_sub(place);
        let length = bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        self.file.read_exact_at(&mut bytes[..length], place)?;
        Ok(length)
    }

    fn write_at(&self, bytes: &[u8], place: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, place)
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.file.set_len(length)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }

    fn try_lock(&self) -> Result<(), TryLockError> {
        match self.disk.lock(&self.path) {
            Ok(lock) => {
                *self.lock.lock() = Some(lock);
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(TryLockError::WouldBlock),
            Err(error) => Err(TryLockError::Error(error)),
        }
    }

    fn unlock(&self) -> io::Result<()> {
        *self.lock.lock() = None;
        Ok(())
    }
}

fn facts(file: &dyn DiskFile) -> io::Result<FileFacts> {
    // Like a system that says neither which file it is nor when it was written.
    Ok(FileFacts { length: file.len()?, identity: Identity(None), modified: None })
}
