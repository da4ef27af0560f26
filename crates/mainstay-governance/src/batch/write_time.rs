//! How long a writer may take.

use std::time::Duration;

use mainstay::{Error, ErrorKind, Result};

/// How long a writer may take for one batch unless told otherwise: longer than whatever is behind it should need to give up
/// by itself, because that knows more of what has happened.
pub(super) const WRITE_TIME_MAX_DEFAULT: Duration = Duration::from_secs(5 * 60);

/// The longest time that a writer may be given for one batch.
pub(super) const WRITE_TIME_LIMIT: Duration = Duration::from_secs(24 * 60 * 60);

/// Has something written within a time. What takes longer is dropped where it stands, and nobody knows how far it came.
pub(super) async fn in_time<T>(
    limit: Duration,
    writer: impl FnOnce() -> String,
    write: impl Future<Output = Result<T>>,
) -> Result<T> {
    match tokio::time::timeout(limit, write).await {
        Ok(written) => written,
        Err(_) => {
            let text = format!(
                "{} took longer than write_time_max of {limit:?} and was given up: its batch may have been written, look \
                 before you write it again",
                writer()
            );
            Err(Error::new(ErrorKind::OutcomeUnknown, text))
        }
    }
}

/// Refuses a time that cannot be.
pub(super) fn check(write_time_max: Duration) -> Result<()> {
    if write_time_max.is_zero() || write_time_max > WRITE_TIME_LIMIT {
        let text = format!("write_time_max is {write_time_max:?}: use more than nothing and at most a day");
        return Err(Error::invalid(text));
    }
    Ok(())
}
