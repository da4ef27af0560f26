use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Context;

use mainstay_core::time::{self, Duration, Instant};

use crate::actor::site::Site;
use crate::call::arrival::Method;

/// The shortest and the longest time between two warnings about a turn that goes on and on.
const AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// The longest time that is handed to the clock at once; what is longer is looked at again.
const LOOK_MAX: Duration = Duration::from_secs(24 * 60 * 60);

const WAS_SLOW: &str = "a turn was slow";

/// Says of a turn that it still runs: when it has become slow, and then again and again, ever less often.
pub(crate) struct Alarm {
    began: Instant,
    /// How long the turn may have run before somebody is told.
    due: Duration,
    pause: Duration,
    is_slow: bool,
    /// True once somebody was told of it, who is to hear how it ends.
    is_told: bool,
    look: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl Alarm {
    pub(crate) fn new(began: Instant, slow_turn: Duration) -> Self {
        Self { began, due: slow_turn, pause: slow_turn, is_slow: false, is_told: false, look: look(slow_turn) }
    }

    pub(crate) fn began(&self) -> Instant {
        self.began
    }

    /// To be called whenever the turn waits.
    pub(crate) fn watch(&mut self, cx: &mut Context<'_>, site: &Arc<Site>, method: &'static Method) {
        while self.look.as_mut().poll(cx).is_ready() {
            let elapsed = time::now().saturating_duration_since(self.began);
            if elapsed >= self.due {
                self.tell(site, method, elapsed, "a turn is slow and still runs: other calls wait for it");
                self.pause = self.pause.saturating_mul(2).clamp(AGAIN.0, AGAIN.1);
                self.due = elapsed.saturating_add(self.pause);
            }
            self.look = look(self.due.saturating_sub(elapsed));
        }
    }

    /// To be called when the turn has ended.
    pub(crate) fn end(mut self, site: &Arc<Site>, method: &'static Method, elapsed: Duration) {
        if elapsed >= site.hall.settings.slow_turn {
            self.tell(site, method, elapsed, WAS_SLOW);
        }
    }

    fn tell(&mut self, site: &Arc<Site>, method: &'static Method, elapsed: Duration, what: &'static str) {
        if !std::mem::replace(&mut self.is_slow, true) {
            site.hall.ledger.method(method).was_slow();
        }
        if self.is_told {
            return say(site, method, elapsed, 0, what);
        }
        if let Some(unsaid) = site.hall.ledger.warnings.slow_turn.admit(&site.id) {
            self.is_told = true;
            say(site, method, elapsed, unsaid, what);
        }
    }
}

/// Counts a turn that was slow without ever having waited, and reports it: it has blocked its thread.
pub(crate) fn has_blocked(site: &Arc<Site>, method: &'static Method, elapsed: Duration) {
    site.hall.ledger.method(method).was_slow();
    if let Some(unsaid) = site.hall.ledger.warnings.slow_turn.admit(&site.id) {
        say(
            site,
            method,
            elapsed,
            unsaid,
            "a turn was slow and has blocked its thread: let what takes long run elsewhere",
        );
    }
}

fn say(site: &Arc<Site>, method: &'static Method, elapsed: Duration, unsaid: u64, what: &'static str) {
    tracing::warn!(
        actor = %site,
        method = method.name(),
        elapsed_ms = elapsed.as_millis() as u64,
        slow_turn_ms = site.hall.settings.slow_turn.as_millis() as u64,
        unsaid,
        "{what}"
    );
}

fn look(after: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    // Never at once, because whoever polls it does so until it waits.
    Box::pin(time::sleep(after.clamp(Duration::from_millis(1), LOOK_MAX)))
}
