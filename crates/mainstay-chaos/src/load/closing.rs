use std::time::{Duration, Instant};

use mainstay::actor::wall;
use mainstay::prelude::*;

use super::{LoadOptions, Progress};
use crate::action::{Action, Answer, Object};
use crate::entry::{Request, Target};
use crate::history::Recorder;
use crate::workload::ticker::PERIOD;

/// How long to wait before an object is asked again.
const ASK_AGAIN: Duration = Duration::from_millis(100);

/// Asks every object what it holds, until it answers: what was acknowledged must be there now. A ticker must have come as far
/// as the time of day, too.
///
/// # Errors
/// `Timeout`, naming the object that does not answer in time.
pub(crate) async fn look_at_everything(
    target: &mut impl Target,
    options: &LoadOptions,
    recorder: &Recorder,
    progress: &Progress,
) -> Result<()> {
    let (begun, limit) = (Instant::now(), Duration::from_secs(options.closing_seconds));
    let due_ms = wall().as_millis().saturating_sub(2 * PERIOD.as_millis() as u64);
    for object in options.objects.all() {
        loop {
            let (op, action) = recorder.invoke(|op| last_look(object, op))?;
            let called = recorder.now();
            let request = Request { action, key: None, time_limit_ms: options.call_time_ms };
            let outcome = target.call(&request).await;
            let problem = match &outcome {
                Ok(Answer::Ticks(ticks)) if ticks.planned_ms < due_ms => {
                    Some(format!("its reminder has come as far as {}, and {due_ms} has passed", ticks.planned_ms))
                }
                Ok(_) => None,
                Err(error) => Some(error.report().to_string()),
            };
            let phase = recorder.end(op, outcome)?;
            progress.count(&object, called, recorder.now(), &phase);
            let Some(problem) = problem else { break };
            if begun.elapsed() > limit {
                let seconds = options.closing_seconds;
                let text = format!("{object} has not come back {seconds} s after the end of the load: {problem}");
                return Err(Error::new(ErrorKind::Timeout, text));
            }
            tokio::time::sleep(ASK_AGAIN).await;
        }
    }
    Ok(())
}

/// What shows most of an object.
fn last_look(object: Object, op: u64) -> Action {
    match object {
        Object::Register(register) => Action::Read { register },
        Object::Counter(counter) => Action::Total { counter },
        Object::Journal(journal) => Action::Append { journal, line: op },
        Object::Ticker(ticker) => Action::Ticks { ticker },
        Object::Bank(bank) => Action::Statement { bank },
    }
}
