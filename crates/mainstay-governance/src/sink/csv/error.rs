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

/// A file that has less than was acknowledged.
pub(super) fn shortened(path: &Path, bytes: u64, known: u64) -> Error {
    Error::corrupt(format!(
        "{} has {bytes} bytes, and {known} were on record: rows are missing that were acknowledged; restore the file, or move \
         it away to go on with the next one",
        path.display()
    ))
}

/// A file that has something else than was written to it.
pub(super) fn damaged(path: &Path, place: u64) -> Error {
    Error::corrupt(format!(
        "{} is damaged at byte {place}, in or before rows that may have been acknowledged: nothing was cut off, and nothing \
         is written to it; restore the file, or mend the record there without changing its length, or move the file away to \
         go on with the next one",
        path.display()
    ))
}

fn text(doing: &str, path: &Path) -> String {
    format!("cannot {doing} {}", path.display())
}
