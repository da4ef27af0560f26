use std::error::Error as _;
use std::future::Future;

use mainstay_core::time::{self, Duration};
use mainstay_core::{Backoff, Error, ErrorKind, Result, task};

use crate::attempt::{Attempt, Lent};
use crate::concurrent_queue::NoItem;
use crate::manager::StateManager;
use crate::options::RetryOptions;

/// Runs a transaction until it is committed, fails for good, or the limits are reached.
pub(crate) async fn transact<T, Body>(
    state: &StateManager,
    options: &RetryOptions,
    mut body: impl FnMut(Attempt) -> Body,
) -> Result<T>
where
    Body: Future<Output = Result<T>>,
{
    let start = time::now();
    let mut tries = 0;
    loop {
        tries += 1;
        let (lent, attempt) = Lent::begin(state);
        let outcome = match body(attempt).await {
            Ok(value) => commit(lent).await.map(|()| value),
            Err(error) => {
                // Undone before the pause.
                drop(lent);
                Err(error)
            }
        };
        let error = match outcome {
            Ok(value) => return Ok(value),
            Err(error) if !is_passing(&error) => return Err(error),
            Err(error) => error,
        };
        let pause = Backoff::new(options.pause_first, options.pause_max).pause(tries);
        if tries >= options.tries_max || time::now() - start + pause >= options.time_max {
            return Err(gave_up(error, tries, time::now() - start));
        }
        tracing::debug!(tries, %error, "a transaction is tried again");
        state.shared.home.sleep(pause).await;
    }
}

/// Commits what the body has done.
async fn commit(lent: Lent) -> Result<()> {
    if !task::take_budget() {
        task::yield_for_budget().await;
    }
    let Some(mut transaction) = lent.returned() else { return Err(kept()) };
    let faults = transaction.shared().faults.get().cloned();
    match transaction.commit_at_once(faults.as_deref()) {
        Some(outcome) => outcome.map(drop),
        None => transaction.commit_in_time(faults).await.map(drop),
    }
}

fn kept() -> Error {
    Error::invalid("the body of `transact` has kept its transaction: leave it to be committed")
}

/// Whether the same transaction may succeed if it is tried again here.
fn is_passing(error: &Error) -> bool {
    // Who has waited for an item as long as it wanted to does not wait for it again.
    matches!(error.kind(), ErrorKind::Retry | ErrorKind::Timeout | ErrorKind::Overloaded) && !is_no_item(error)
}

fn is_no_item(error: &Error) -> bool {
    let mut source = error.source();
    while let Some(cause) = source {
        if cause.is::<NoItem>() {
            return true;
        }
        source = cause.source();
    }
    false
}

fn gave_up(last: Error, tries: u32, spent: Duration) -> Error {
    last.about(format_args!("the transaction was tried {tries} times in {spent:?}, and the last error was"))
}
