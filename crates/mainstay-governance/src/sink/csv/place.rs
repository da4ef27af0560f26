//! Bytes at a place of a file, with one call to the operating system where it has one.

use std::fs::{File, Metadata};
use std::io;

/// Reads from a place until there is no room or nothing more, and says how much that was.
pub(super) fn read_at(file: &File, bytes: &mut [u8], place: u64) -> io::Result<usize> {
    let mut length = 0;
    while length < bytes.len() {
        match system::read_at(file, &mut bytes[length..], place + length as u64) {
            Ok(0) => break,
            Ok(read) => length += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}

/// Writes all bytes at a place.
pub(super) fn write_at(file: &File, bytes: &[u8], place: u64) -> io::Result<()> {
    let mut length = 0;
    while length < bytes.len() {
        match system::write_at(file, &bytes[length..], place + length as u64) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => length += written,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Which file it is, whatever its name: two with the same are one. Nothing where the system does not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity(Option<(u64, u64)>);

impl Identity {
    pub(super) fn of(file: &Metadata) -> Self {
        Self(system::identity(file))
    }
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
