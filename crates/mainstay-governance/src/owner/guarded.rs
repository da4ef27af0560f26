use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt as _;
use mainstay::{Error, ErrorKind, Result};

/// What became of code that is not ours.
pub(crate) enum Guarded<T> {
    /// It came to its end.
    Ended(T),
    /// It has not, in the time that it had, and was dropped.
    Late,
    /// It has panicked, with this text.
    Panicked(String),
}

/// Runs code of an author with a limit of time, and catches its panics: what it holds is to be closed in either case.
pub(crate) async fn guarded<T>(limit: Duration, work: impl Future<Output = T>) -> Guarded<T> {
    match tokio::time::timeout(limit, AssertUnwindSafe(work).catch_unwind()).await {
        Ok(Ok(output)) => Guarded::Ended(output),
        Ok(Err(panic)) => Guarded::Panicked(text_of(&*panic).to_owned()),
        Err(_) => Guarded::Late,
    }
}

impl<T> Guarded<Result<T>> {
    /// As a result, where nothing depends on how it has failed. `what` names it: `opening orders/3`.
    pub(crate) fn flatten(self, what: &str, limit: Duration) -> Result<T> {
        match self {
            Self::Ended(result) => result,
            Self::Late => {
                Err(Error::new(ErrorKind::Timeout, format!("{what} took longer than {limit:?} and was given up")))
            }
            Self::Panicked(panic) => Err(Error::fatal(format!("{what} panicked: {panic}"))),
        }
    }
}

fn text_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic without a text")
}
