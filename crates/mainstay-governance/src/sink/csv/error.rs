use std::io;
use std::path::Path;

use mainstay::{Error, ErrorKind};

/// An error of the file system, with what was to be done to which file.
pub(super) fn failed(doing: &str, path: &Path, error: io::Error) -> Error {
    let kind = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            ErrorKind::StorageFull
        }
        // A share that is away, a permission that is missing, a folder that is none because its mount is gone: all may pass
        // without this process, and none is the fault of a row.
        _ => ErrorKind::Retry,
    };
    Error::new(kind, text(doing, path)).with_source(error)
}

/// The same when files are opened: a path that cannot be was given by somebody, who can give another.
pub(super) fn unopened(doing: &str, path: &Path, error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::InvalidFilename | io::ErrorKind::NotADirectory => {
            Error::invalid(text(doing, path)).with_source(error)
        }
        _ => failed(doing, path, error),
    }
}

fn text(doing: &str, path: &Path) -> String {
    format!("cannot {doing} {}", path.display())
}
