//! Callers that ask for something again and again, and write down what they are told.

mod caller;
mod choice;
mod closing;
mod options;
mod status;

use std::sync::Arc;
use std::time::{Duration, Instant};

use mainstay::prelude::*;
use tokio::sync::watch;

use self::caller::Caller;
use crate::entry::Target;
use crate::history::Recorder;
pub use options::{LoadOptions, Objects};
pub use status::{Progress, Status};

/// How often the load says how it goes.
const STATUS_INTERVAL: Duration = Duration::from_millis(500);

/// Calls until the time is up or `stop` becomes true; then looks at every object once more, so that nothing is left unseen.
///
/// # Errors
/// `Fatal` if the history cannot be written; `Timeout` if an object does not answer at the end, naming it.
pub async fn run<T: Target>(
    options: &LoadOptions,
    target: impl Fn(usize) -> T,
    mut stop: watch::Receiver<bool>,
    mut tell: impl FnMut(&Status),
) -> Result<Status> {
    let recorder = Arc::new(Recorder::create(&options.history, options.run)?);
    let progress = Arc::new(Progress::new(options.objects.all()));
    let (end, _) = watch::channel(false);
    let callers: Vec<_> = (0..options.callers)
        .map(|number| {
            let caller = Caller::new(options, number, recorder.clone(), progress.clone());
            tokio::spawn(caller.run(target(number), end.subscribe()))
        })
        .collect();
    let begun = Instant::now();
    while begun.elapsed() < options.time() {
        tokio::select! {
            stopped = stop.wait_for(|stop| *stop) => {
                // The other side has gone: nobody can ask for an end any more, and the time says when.
                if stopped.is_ok() {
                    break;
                }
                tokio::time::sleep(STATUS_INTERVAL).await;
            }
            () = tokio::time::sleep(STATUS_INTERVAL) => {}
        }
        tell(&progress.status(recorder.now()));
        // A caller ends by itself only if its history cannot be written.
        if callers.iter().any(tokio::task::JoinHandle::is_finished) {
            break;
        }
    }
    end.send_replace(true);
    for caller in callers {
        caller.await.or_error(ErrorKind::Fatal, "a caller panicked")??;
    }
    closing::look_at_everything(&mut target(0), options, &recorder, &progress).await?;
    let status = progress.status(recorder.now());
    tell(&status);
    Ok(status)
}
