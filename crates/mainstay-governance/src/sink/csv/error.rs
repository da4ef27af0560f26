use std::io;
use std::path::Path;

use mainstay::{Error, ErrorKind};

/// An error of the file system, with what was to be done to which file.
pub(super) fn failed(doing: &str, path: &Path, error: io::Error) -> Error {
    let kind = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            ErrorKind::StorageFull
        }
        io::ErrorKind::InvalidFilename | io::ErrorKind::NotADirectory => ErrorKind::Invalid,
        // A share that is away, a permission that is missing: both may pass without this process.
        _ => ErrorKind::Retry,
    };
    Error::new(kind, format!("cannot {doing} {}", path.display())).with_source(error)
}
