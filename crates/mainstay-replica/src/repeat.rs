use std::pin::pin;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use mainstay_core::{Result, time};

/// How long to wait after an attempt that has failed at once, such as by a connection that is not there at the moment.
const PAUSE: time::Duration = time::Duration::from_millis(500);

/// How long an answer is waited for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// After so long the question is put again; then after twice as long, and so on.
    pub first: time::Duration,
    /// In all.
    pub limit: time::Duration,
}

/// Puts a question, and puts it again when it or its answer may have been lost; the first answer counts. `None` if there
/// was nothing but silence.
///
/// Earlier questions stay open: on a way that is slow and loses nothing it is the first that is answered first. So the
/// question must be one that may be put twice. Time limits how often that is: open questions double their distance, and
/// between those that fail there is a pause.
///
/// # Errors
/// The last that came instead of an answer.
pub(crate) async fn repeat<T, F>(mut ask: impl FnMut() -> F, patience: Patience) -> Result<Option<T>>
where
    F: Future<Output = Result<T>>,
{
    let deadline = time::now() + patience.limit;
    let mut silence = patience.first;
    let mut open = FuturesUnordered::new();
    let mut last = None;
    loop {
        open.push(ask());
        let mut again = pin!(time::sleep_until(deadline.min(time::now() + silence)));
        let mut failed = false;
        loop {
            tokio::select! {
                biased;
                Some(answer) = open.next() => match answer {
                    Ok(answer) => return Ok(Some(answer)),
                    Err(error) => {
                        last = Some(error);
                        if open.is_empty() {
                            failed = true;
                            again.set(time::sleep_until(deadline.min(time::now() + PAUSE)));
                        }
                    }
                },
                () = again.as_mut() => break,
            }
        }
        if time::now() >= deadline {
            return last.map_or(Ok(None), Err);
        }
        if !failed {
            silence *= 2;
        }
    }
}
