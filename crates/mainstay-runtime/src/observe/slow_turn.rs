use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Context;

use mainstay_core::time::{self, Duration, Instant};

use crate::actor::actor_shared::ActorShared;
use crate::call::arrival::Method;

/// The minimum and the maximum pause between two warnings about one turn.
const AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// The longest single sleep; a longer wait is split, because the clock has a limited range.
const SLEEP_MAX: Duration = Duration::from_secs(24 * 60 * 60);

const WAS_SLOW: &str = "a turn was slow";

/// Warns of a turn that still runs after `slow_turn`, and then again with growing pauses.
pub(crate) struct SlowTurnTimer {
    began: Instant,
    /// The elapsed time of the turn at which the next warning is due.
    due: Duration,
    pause: Duration,
    is_slow: bool,
    /// True once a warning was logged: then the end of the turn is logged as well, past the throttle.
    is_reported: bool,
    sleep: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl SlowTurnTimer {
    pub(crate) fn new(began: Instant, slow_turn: Duration) -> Self {
        Self { began, due: slow_turn, pause: slow_turn, is_slow: false, is_reported: false, sleep: sleep(slow_turn) }
    }

    pub(crate) fn began(&self) -> Instant {
        self.began
    }

    /// To be called whenever a poll of the turn is pending.
    pub(crate) fn watch(&mut self, cx: &mut Context<'_>, shared: &Arc<ActorShared>, method: &'static Method) {
        while self.sleep.as_mut().poll(cx).is_ready() {
            let elapsed = time::now().saturating_duration_since(self.began);
            if elapsed >= self.due {
                self.report(shared, method, elapsed, "a turn is slow and still runs: other calls wait for it");
                self.pause = self.pause.saturating_mul(2).clamp(AGAIN.0, AGAIN.1);
                self.due = elapsed.saturating_add(self.pause);
            }
            self.sleep = sleep(self.due.saturating_sub(elapsed));
        }
    }

    /// To be called when the turn has ended.
    pub(crate) fn end(mut self, shared: &Arc<ActorShared>, method: &'static Method, elapsed: Duration) {
        if elapsed >= shared.partition.settings.slow_turn {
            self.report(shared, method, elapsed, WAS_SLOW);
        }
    }

    fn report(&mut self, shared: &Arc<ActorShared>, method: &'static Method, elapsed: Duration, what: &'static str) {
        if !std::mem::replace(&mut self.is_slow, true) {
            shared.partition.counters.method(method).was_slow();
        }
        if self.is_reported {
            return warn(shared, method, elapsed, 0, what);
        }
        if let Some(suppressed) = shared.partition.counters.warnings.slow_turn.admit(&shared.id) {
            self.is_reported = true;
            warn(shared, method, elapsed, suppressed, what);
        }
    }
}

/// Counts and reports a slow turn that never returned `Pending`, and so blocked its thread.
pub(crate) fn has_blocked(shared: &Arc<ActorShared>, method: &'static Method, elapsed: Duration) {
    shared.partition.counters.method(method).was_slow();
    if let Some(suppressed) = shared.partition.counters.warnings.slow_turn.admit(&shared.id) {
        warn(
            shared,
            method,
            elapsed,
            suppressed,
            "a turn was slow and has blocked its thread: run blocking work on a blocking task",
        );
    }
}

fn warn(shared: &Arc<ActorShared>, method: &'static Method, elapsed: Duration, suppressed: u64, what: &'static str) {
    tracing::warn!(
        actor = %shared,
        method = method.name(),
        elapsed_ms = elapsed.as_millis() as u64,
        slow_turn_ms = shared.partition.settings.slow_turn.as_millis() as u64,
        suppressed,
        "{what}"
    );
}

fn sleep(after: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    // Never zero: `watch` polls it in a loop until it is pending.
    Box::pin(time::sleep(after.clamp(Duration::from_millis(1), SLEEP_MAX)))
}
