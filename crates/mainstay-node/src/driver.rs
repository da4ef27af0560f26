use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

use mainstay_core::time::{self, Duration};
use mainstay_core::{Error, Result};

/// Runs what needs a driver of the tokio runtime. Tokio panics where the driver is missing, and says so by nothing else.
///
/// # Errors
/// `Invalid`, with the function of the runtime's builder that adds the driver.
pub(crate) async fn with_driver<F: Future>(what: &str, enable: &str, future: F) -> Result<F::Output> {
    let mut future = pin!(future);
    poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
        Ok(polled) => polled.map(Ok),
        Err(_) => Poll::Ready(Err(Error::invalid(format!(
            "{what}, and the tokio runtime was built without it: build the runtime with `{enable}` or `enable_all`, as \
             `#[tokio::main]` does"
        )))),
    })
    .await
}

/// Refuses a runtime without a clock.
pub(crate) async fn refuse_without_clock() -> Result<()> {
    // Begun and not waited for: that is where tokio looks for the driver.
    let begin = poll_fn(|cx| {
        let _ = pin!(time::sleep(Duration::ZERO)).poll(cx);
        Poll::Ready(())
    });
    with_driver("a node needs a clock", "enable_time", begin).await
}
