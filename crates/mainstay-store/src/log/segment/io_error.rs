//! What the disk says, with the path and the remedy.

use std::io;
use std::path::Path;

use mainstay_core::{Error, ErrorKind};
use rustix::io::Errno;

/// The error of an operation without which the log cannot be opened, read or go on.
pub(super) fn io_error(doing: &str, path: &Path, error: io::Error) -> Error {
    let kind = if is_full(&error) { ErrorKind::StorageFull } else { ErrorKind::Fatal };
    let remedy = remedy(&error);
    Error::new(kind, format!("cannot {doing} {}: {remedy}", path.display())).with_source(error)
}

/// The error of a batch that is refused because no room can be reserved for it. The log goes on, and takes it when the
/// reason is gone.
pub(super) fn refusal(doing: &str, path: &Path, error: io::Error) -> Error {
    let (kind, more) = match is_full(&error) {
        true => (ErrorKind::StorageFull, " and try again"),
        false => (ErrorKind::Retry, "; nothing was changed, try again then"),
    };
    let remedy = remedy(&error);
    Error::new(kind, format!("cannot {doing} {}: {remedy}{more}", path.display())).with_source(error)
}

/// The error that everybody gets after a failure.
pub(super) fn stopped(cause: &str) -> Error {
    Error::fatal(format!("the node log has stopped: {cause}; once that is mended, restart the node"))
}

/// True if the disk has no room.
pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

fn remedy(error: &io::Error) -> &'static str {
    match (error.kind(), error.raw_os_error().map(Errno::from_raw_os_error)) {
        (io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded, _) => "the disk is full; free room",
        (io::ErrorKind::PermissionDenied, _) => {
            "permission denied; let the user of this process read and write the folder"
        }
        (io::ErrorKind::ReadOnlyFilesystem, _) => "the file system is read-only; mount it for writing",
        (_, Some(Errno::MFILE | Errno::NFILE)) => "too many files are open; allow this process more of them",
        _ => "check the disk",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_what_to_do_and_not_that_the_log_has_stopped() {
        for (errno, kind, remedy) in [
            (Errno::NOSPC, ErrorKind::StorageFull, "the disk is full; free room and try again"),
            (Errno::DQUOT, ErrorKind::StorageFull, "the disk is full; free room and try again"),
            (Errno::ACCESS, ErrorKind::Retry, "permission denied"),
            (Errno::ROFS, ErrorKind::Retry, "mount it for writing"),
            (Errno::MFILE, ErrorKind::Retry, "too many files are open"),
            (Errno::IO, ErrorKind::Retry, "check the disk"),
        ] {
            let error = refusal("reserve", Path::new("/log"), errno.into());
            assert_eq!(error.kind(), kind);
            let text = error.to_string();
            assert!(text.contains("/log") && text.contains(remedy) && !text.contains("restart"), "{text}");
        }
    }

    #[test]
    fn a_failure_does_not_ask_for_what_a_stopped_log_cannot_do() {
        let error = io_error("write to", Path::new("/log"), Errno::NOSPC.into());
        let text = stopped(&error.to_string()).to_string();
        assert!(
            text.contains("free room") && text.contains("restart the node") && !text.contains("try again"),
            "{text}"
        );
    }
}
