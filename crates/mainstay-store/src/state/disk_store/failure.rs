//! Turns the failures of files and of redb into errors that name the file and the remedy.

use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use mainstay_core::{Error, ErrorKind, RESTORE, Result};
use redb::StorageError;

use super::reading::Unread;

/// Another instance has taken over the file: what this one reads may not be what was written.
#[derive(Debug)]
pub(super) struct Replaced;

impl fmt::Display for Replaced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the state store was opened anew")
    }
}

impl std::error::Error for Replaced {}

/// The failure of an operation on a file.
pub(super) fn io_failure(path: &Path, action: &str, error: io::Error) -> Error {
    let path = path.display();
    let (kind, message) = match error.kind() {
        io::ErrorKind::NotFound => {
            (ErrorKind::NotFound, format!("cannot {action} state store {path}: there is no such file; {RESTORE}"))
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            (ErrorKind::StorageFull, format!("cannot {action} state store {path}: the disk is full, make room"))
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            (ErrorKind::Invalid, format!("cannot {action} state store {path}: allow this user to read and write it"))
        }
        io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => {
            (ErrorKind::Corrupt, format!("cannot {action} state store {path}: it is damaged; {RESTORE}"))
        }
        _ => (ErrorKind::Retry, format!("cannot {action} state store {path}: the disk failed, check it")),
    };
    Error::new(kind, message).with_source(error)
}

/// The failure of redb on a file.
pub(super) fn redb_failure(path: &Path, action: &str, error: impl Into<redb::Error>) -> Error {
    match error.into() {
        error if is_stale(&error) => Error::new(
            ErrorKind::Retry,
            format!("cannot {action} state store {}: the disk failed earlier, take a new snapshot", path.display()),
        )
        .with_source(error),
        redb::Error::Io(error) => io_failure(path, action, error),
        error @ redb::Error::UpgradeRequired(_) => Error::new(
            ErrorKind::UnknownVersion,
            format!(
                "cannot {action} state store {}: another version of redb wrote it, upgrade this node",
                path.display()
            ),
        )
        .with_source(error),
        redb::Error::ValueTooLarge(len) => Error::new(
            ErrorKind::TooLarge,
            format!("cannot {action} state store {}: a value of {len} bytes is too long, divide it", path.display()),
        ),
        // Left behind by a panic of redb's, which was told to who caused it, or asked of redb where it cannot be done: the
        // file is as it was.
        error @ (redb::Error::TransactionPoisoned | redb::Error::Unsupported) => {
            let message = format!("cannot {action} state store {}: redb refused; restart the node", path.display());
            Error::fatal(message).with_source(error)
        }
        error => Error::corrupt(format!("cannot {action} state store {}: it is damaged; {RESTORE}", path.display()))
            .with_source(error),
    }
}

/// A record of a checkpoint that does not fit what it was written with.
pub(super) fn wrong_counts() -> redb::Error {
    redb::Error::Corrupted("the counts of the last checkpoint are not those of its entries".to_owned())
}

/// True if redb refuses to go on after this, or cannot be trusted to, until the file is opened anew.
pub(super) fn is_latched(error: &redb::Error) -> bool {
    matches!(error, redb::Error::Io(_)) || is_broken(error)
}

/// As [`is_latched`], for a [read](super::reading) of which redb has not heard.
pub(super) fn is_broken(error: &redb::Error) -> bool {
    matches!(error, redb::Error::Corrupted(_)) || is_stale(error)
}

/// True if this tells of an earlier failure and not of what was asked for now.
pub(super) fn is_stale(error: &redb::Error) -> bool {
    match error {
        redb::Error::PreviousIo | redb::Error::DatabaseClosed | redb::Error::LockPoisoned(_) => true,
        redb::Error::Io(error) => error.get_ref().is_some_and(|cause| cause.is::<Replaced>()),
        _ => false,
    }
}

/// Runs something of redb's, which panics where it meets pages that it could not have written.
pub(super) fn shielded<T>(run: impl FnOnce() -> Result<T, redb::Error>) -> Result<T, redb::Error> {
    // What redb leaves behind when it unwinds is not used again: a failed instance is replaced.
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let panic = match panic.downcast::<Unread>() {
            Ok(unread) => return Err(redb::Error::Io(unread.0)),
            Err(panic) => panic,
        };
        let what = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("no message");
        Err(StorageError::Corrupted(format!("redb gave up: {what}")).into())
    })
}
