//! Turns the failures of files and of redb into errors that name the file and the remedy.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use mainstay_core::{Error, ErrorKind, Result};
use redb::StorageError;

/// The failure of an operation on a file.
pub(super) fn io_failure(path: &Path, action: &str, error: io::Error) -> Error {
    let path = path.display();
    let (kind, message) = match error.kind() {
        io::ErrorKind::NotFound => {
            (ErrorKind::NotFound, format!("cannot {action} state store {path}: there is no such file"))
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            (ErrorKind::StorageFull, format!("cannot {action} state store {path}: the disk is full, make room"))
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            (ErrorKind::Invalid, format!("cannot {action} state store {path}: allow this user to read and write it"))
        }
        io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => (
            ErrorKind::Corrupt,
            format!("cannot {action} state store {path}: it is damaged, import its state from another replica"),
        ),
        _ => (ErrorKind::Retry, format!("cannot {action} state store {path}: the disk failed, check it")),
    };
    Error::new(kind, message).with_source(error)
}

/// The failure of redb on a file.
pub(super) fn redb_failure(path: &Path, action: &str, error: impl Into<redb::Error>) -> Error {
    match error.into() {
        redb::Error::Io(error) => io_failure(path, action, error),
        redb::Error::PreviousIo | redb::Error::DatabaseClosed => Error::new(
            ErrorKind::Retry,
            format!("cannot {action} state store {}: the disk failed earlier, take a new snapshot", path.display()),
        ),
        error @ redb::Error::UpgradeRequired(_) => Error::new(
            ErrorKind::UnknownVersion,
            format!("cannot {action} state store {}: another version of redb wrote it", path.display()),
        )
        .with_source(error),
        redb::Error::ValueTooLarge(len) => Error::new(
            ErrorKind::TooLarge,
            format!("cannot {action} state store {}: a value of {len} bytes is too long", path.display()),
        ),
        error => Error::corrupt(format!(
            "cannot {action} state store {}: it is damaged, import its state from another replica",
            path.display()
        ))
        .with_source(error),
    }
}

/// True if redb refuses to go on after this, or cannot be trusted to, until the file is opened anew.
pub(super) fn is_latched(error: &redb::Error) -> bool {
    matches!(error, redb::Error::Io(_) | redb::Error::Corrupted(_)) || is_stale(error)
}

/// True if this tells of an earlier failure and not of what was asked for now.
pub(super) fn is_stale(error: &redb::Error) -> bool {
    matches!(error, redb::Error::PreviousIo | redb::Error::DatabaseClosed | redb::Error::LockPoisoned(_))
}

/// Runs something of redb's, which panics where it meets pages that it could not have written.
pub(super) fn shielded<T>(run: impl FnOnce() -> Result<T, redb::Error>) -> Result<T, redb::Error> {
    // What redb leaves behind when it unwinds is not used again: a failed instance is replaced.
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let what = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("no message");
        Err(StorageError::Corrupted(format!("redb gave up: {what}")).into())
    })
}
