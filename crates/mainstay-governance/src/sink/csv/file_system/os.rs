use std::ffi::OsString;
use std::fs::{self, File, Metadata, OpenOptions, TryLockError};
use std::io;
use std::path::Path;

use mainstay::partition::{Disk as _, RealDisk};

use super::{FileFacts, FileSystem, Identity, OpenFile};

/// The files of the operating system, with one call to it for each operation where it has one.
#[derive(Debug, Clone, Copy, Default)]
pub(in super::super) struct OsFileSystem;

impl FileSystem for OsFileSystem {
    type File = File;

    fn create_folder(&self, folder: &Path) -> io::Result<()> {
        match cfg!(unix) {
            // The name of a new folder is in the one above it, which is synced, too.
            true => RealDisk.create_dir_all(folder),
            false => fs::create_dir_all(folder),
        }
    }

    fn open(&self, path: &Path) -> io::Result<File> {
        OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)
    }

    fn facts(&self, path: &Path) -> io::Result<FileFacts> {
        fs::metadata(path).map(|data| facts(&data))
    }

    fn names(&self, folder: &Path) -> io::Result<Vec<OsString>> {
        fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name())).collect()
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        // Elsewhere a name is durable with its file.
        match cfg!(unix) {
            true => File::open(folder)?.sync_all(),
            false => Ok(()),
        }
    }
}

impl OpenFile for File {
    fn facts(&self) -> io::Result<FileFacts> {
        self.metadata().map(|data| facts(&data))
    }

    fn read_at(&self, bytes: &mut [u8], place: u64) -> io::Result<usize> {
        let mut length = 0;
        while length < bytes.len() {
            match system::read_at(self, &mut bytes[length..], place + length as u64) {
                Ok(0) => break,
                Ok(read) => length += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(length)
    }

    fn write_at(&self, bytes: &[u8], place: u64) -> io::Result<()> {
        let mut length = 0;
        while length < bytes.len() {
            match system::write_at(self, &bytes[length..], place + length as u64) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => length += written,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }

    fn sync(&self) -> io::Result<()> {
        // With the length, where that has changed.
        self.sync_data()
    }

    fn try_lock(&self) -> Result<(), TryLockError> {
        File::try_lock(self)
    }

    fn unlock(&self) -> io::Result<()> {
        File::unlock(self)
    }
}

fn facts(data: &Metadata) -> FileFacts {
    FileFacts { length: data.len(), identity: Identity(system::identity(data)), modified: data.modified().ok() }
}

#[cfg(unix)]
mod system {
    use std::fs::{File, Metadata};
    use std::io;
    use std::os::unix::fs::{FileExt as _, MetadataExt as _};

    pub(super) fn read_at(file: &File, bytes: &mut [u8], place: u64) -> io::Result<usize> {
        file.read_at(bytes, place)
    }

    pub(super) fn write_at(file: &File, bytes: &[u8], place: u64) -> io::Result<usize> {
        file.write_at(bytes, place)
    }

    pub(super) fn identity(file: &Metadata) -> Option<(u64, u64)> {
        Some((file.dev(), file.ino()))
    }
}

#[cfg(not(unix))]
mod system {
    use std::fs::{File, Metadata};
    use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};

    pub(super) fn read_at(mut file: &File, bytes: &mut [u8], place: u64) -> io::Result<usize> {
        file.seek(SeekFrom::Start(place))?;
        file.read(bytes)
    }

    pub(super) fn write_at(mut file: &File, bytes: &[u8], place: u64) -> io::Result<usize> {
        file.seek(SeekFrom::Start(place))?;
        file.write(bytes)
    }

    pub(super) fn identity(_: &Metadata) -> Option<(u64, u64)> {
        None
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// A device that holds nothing: Linux refuses to sync it, and so does whatever asks Linux.
    const DEVICE: &str = "/dev/null";

    #[test]
    fn a_sync_of_a_file_and_of_a_folder_is_one_of_the_system() {
        let file = OsFileSystem.open(Path::new(DEVICE)).unwrap();
        assert_eq!(OpenFile::sync(&file).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        let refused = OsFileSystem.sync_folder(Path::new(DEVICE)).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
    }
}
