use std::sync::Arc;
use std::time::Duration;

use mainstay::prelude::*;
use tokio::sync::watch;

use super::choice::Choice;
use super::{LoadOptions, Progress};
use crate::action::{Action, Answer};
use crate::entry::{Request, Target};
use crate::history::Recorder;

/// How long a caller rests after a call that has failed.
const AFTER_FAILURE: Duration = Duration::from_millis(50);

/// How often a call of unknown outcome is repeated by its key, at most; then its outcome stays unknown.
const REPEATS_MAX: u32 = 100;

/// One that calls, one call after the other.
pub(crate) struct Caller {
    choice: Choice,
    pause: Duration,
    time_limit_ms: u64,
    recorder: Arc<Recorder>,
    progress: Arc<Progress>,
}

impl Caller {
    pub(crate) fn new(options: &LoadOptions, number: usize, recorder: Arc<Recorder>, progress: Arc<Progress>) -> Self {
        let choice = Choice::new(options.seed, number, options.objects.clone());
        Self { choice, pause: options.pause(), time_limit_ms: options.call_time_ms, recorder, progress }
    }

    /// Calls until `end` becomes true, or its other side is gone.
    pub(crate) async fn run(mut self, mut target: impl Target, mut end: watch::Receiver<bool>) -> Result<()> {
        loop {
            let pause = self.pause.mul_f64(self.choice.part());
            tokio::select! {
                _ = end.wait_for(|end| *end) => return Ok(()),
                () = tokio::time::sleep(pause) => {}
            }
            let (op, action) = self.recorder.invoke(|op| self.choice.next(op))?;
            let called = self.recorder.now();
            let outcome = self.call(&mut target, op, &action, &end).await;
            if let Ok(answer) = &outcome {
                self.choice.see(&action, answer);
            }
            let is_ok = outcome.is_ok();
            let phase = self.recorder.end(op, outcome)?;
            self.progress.count(&action.object(), called, self.recorder.now(), &phase);
            if !is_ok {
                tokio::time::sleep(AFTER_FAILURE).await;
            }
        }
    }

    async fn call(
        &self,
        target: &mut impl Target,
        op: u64,
        action: &Action,
        end: &watch::Receiver<bool>,
    ) -> Result<Answer> {
        // On every other counter an add has a key, and is repeated until it is known what became of it.
        let is_keyed = matches!(action, Action::Add { counter } if counter.is_multiple_of(2));
        let key = is_keyed.then(|| op.to_string());
        let request = Request { action: action.clone(), key, time_limit_ms: self.time_limit_ms };
        let mut outcome = target.call(&request).await;
        let is_unknown = |outcome: &Result<Answer>| matches!(outcome, Err(error) if matches!(error.kind(), ErrorKind::OutcomeUnknown | ErrorKind::Fatal));
        let mut repeats = 0;
        let mut was_unknown = false;
        while is_keyed && outcome.is_err() && repeats < REPEATS_MAX && !*end.borrow() {
            was_unknown |= is_unknown(&outcome);
            if !was_unknown {
                break;
            }
            tokio::time::sleep(AFTER_FAILURE).await;
            outcome = target.call(&request).await;
            repeats += 1;
        }
        match outcome {
            // A repeat that has failed says nothing of the call before it.
            Err(error) if was_unknown => {
                Err(Error::new(ErrorKind::OutcomeUnknown, "repeats have not told what became of it").with_source(error))
            }
            outcome => outcome,
        }
    }
}
