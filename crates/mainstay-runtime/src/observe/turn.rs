use std::sync::Arc;

use mainstay_core::time::{self, Coarse, Duration, Instant};

use crate::actor::site::Site;
use crate::call::arrival::{Method, Source};
use crate::observe::slow::{Alarm, has_blocked};

pub(crate) static ACTIVATE: Method = Method::own("activate", Source::Call);

/// A turn under way, as it is counted, timed and reported. It has failed unless it is told otherwise.
///
/// Whoever has it sees to it that it is [over](TurnWatch::over), in whatever way the turn ends.
pub(crate) struct TurnWatch {
    method: &'static Method,
    is_measured: bool,
    /// When the method began to run, by the machine's own clock, to know one that has blocked its thread; `None` while it
    /// does not run.
    running: Option<Coarse>,
    /// The same by the clock of the node, if it is measured.
    began: Option<Instant>,
    /// Looks at one that waits.
    alarm: Option<Box<Alarm>>,
    has_failed: bool,
    is_over: bool,
}

impl TurnWatch {
    /// Watches a turn that begins.
    pub(crate) fn begin(method: &'static Method, is_measured: bool) -> Self {
        Self { method, is_measured, running: None, began: None, alarm: None, has_failed: true, is_over: false }
    }

    /// Watches a turn that is not measured, and whose method has run since a moment.
    pub(crate) fn running(method: &'static Method, since: Coarse) -> Self {
        Self { running: Some(since), ..Self::begin(method, false) }
    }

    /// The turn has not failed.
    #[inline]
    pub(crate) fn succeed(&mut self) {
        self.has_failed = false;
    }

    /// The turn has failed after all.
    pub(crate) fn fail(&mut self) {
        self.has_failed = true;
    }

    /// The method begins, or goes on.
    #[inline]
    pub(crate) fn start(&mut self) {
        if self.running.is_none() {
            self.running = Some(time::coarse());
            self.began = self.is_measured.then(time::now);
        }
    }

    /// Sees to it that somebody looks at a turn that waits for too long.
    #[cold]
    pub(crate) fn wait(&mut self, site: &Arc<Site>, cx: &mut std::task::Context<'_>) {
        let began = self.began;
        let alarm = self
            .alarm
            .get_or_insert_with(|| Box::new(Alarm::new(began.unwrap_or_else(time::now), site.hall.settings.slow_turn)));
        alarm.watch(cx, site, self.method);
    }

    /// The method has ended, or was ended.
    #[inline]
    pub(crate) fn ended(&mut self, site: &Arc<Site>) {
        let Some(running) = self.running.take() else { return };
        let elapsed = running.elapsed();
        if self.began.is_some() || self.alarm.is_some() || elapsed >= site.hall.settings.slow_turn {
            self.report(site, elapsed);
        }
    }

    /// Says how long a method has taken.
    #[cold]
    fn report(&mut self, site: &Arc<Site>, elapsed: Duration) {
        if let Some(began) = self.began {
            let took = time::now().saturating_duration_since(began);
            site.hall.ledger.method(self.method).turn_took(took);
        }
        match self.alarm.take() {
            Some(alarm) => {
                let elapsed = time::now().saturating_duration_since(alarm.began()).max(elapsed);
                alarm.end(site, self.method, elapsed);
            }
            None if elapsed >= site.hall.settings.slow_turn => has_blocked(site, self.method, elapsed),
            None => {}
        }
    }

    /// The same in other hands; these have none any more.
    pub(crate) fn hand_over(&mut self) -> Self {
        let empty = Self {
            method: self.method,
            is_measured: false,
            running: None,
            began: None,
            alarm: None,
            has_failed: false,
            is_over: true,
        };
        std::mem::replace(self, empty)
    }

    /// The turn is over. Once is enough, and more do no harm.
    #[inline]
    pub(crate) fn over(&mut self, site: &Arc<Site>) {
        if std::mem::replace(&mut self.is_over, true) {
            return;
        }
        self.ended(site);
        if self.has_failed {
            site.hall.ledger.method(self.method).failed();
        }
    }
}

/// The turn in which an actor is made.
pub(crate) struct ActivationWatch<'s> {
    site: &'s Arc<Site>,
    pub(crate) watch: TurnWatch,
}

impl<'s> ActivationWatch<'s> {
    pub(crate) fn begin(site: &'s Arc<Site>) -> Self {
        let ledger = &site.hall.ledger;
        ledger.method(&ACTIVATE).invoked();
        Self { site, watch: TurnWatch::begin(&ACTIVATE, ledger.arrival(&ACTIVATE).is_some()) }
    }
}

impl Drop for ActivationWatch<'_> {
    fn drop(&mut self) {
        self.watch.over(self.site);
    }
}
