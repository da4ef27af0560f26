use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;

use mainstay_core::Result;
use mainstay_core::time::{self, Coarse, Instant};

use crate::actor::site::Site;
use crate::call::arrival::{Call, Method, Source};
use crate::observe::slow::{Alarm, has_blocked};
use crate::observe::storage::activating;
use crate::observe::trace::Trace;

static ACTIVATE: Method = Method::own("activate", Source::Call);

/// A turn under way, as it is counted, timed, traced and reported. It has failed unless it is told otherwise.
pub(crate) struct TurnWatch<'s> {
    site: &'s Arc<Site>,
    method: &'static Method,
    trace: Trace,
    is_measured: bool,
    /// Set while the method runs.
    running: Option<Running>,
    has_failed: bool,
}

struct Running {
    /// If it is measured.
    began: Option<Instant>,
    /// Of the machine, to know one that has blocked its thread.
    coarse: Coarse,
    alarm: Option<Box<Alarm>>,
}

impl<'s> TurnWatch<'s> {
    /// Counts a turn that begins.
    pub(crate) fn begin(site: &'s Arc<Site>, call: &mut Call) -> Self {
        let trace = std::mem::take(&mut call.trace);
        Self::new(site, call.method, trace, call.deadline.arrived().is_some())
    }

    /// Counts the turn in which an actor is made.
    pub(crate) fn of_activation(site: &'s Arc<Site>) -> Self {
        let is_measured = site.hall.ledger.arrival(&ACTIVATE).is_some();
        Self::new(site, &ACTIVATE, Trace::of_actor(site, &ACTIVATE), is_measured)
    }

    fn new(site: &'s Arc<Site>, method: &'static Method, trace: Trace, is_measured: bool) -> Self {
        site.hall.ledger.method(method).invoked();
        Self { site, method, trace, is_measured, running: None, has_failed: true }
    }

    /// The turn has not failed.
    pub(crate) fn succeed(&mut self) {
        self.has_failed = false;
    }

    /// The turn has failed after all.
    pub(crate) fn fail(&mut self) {
        self.has_failed = true;
    }

    /// Watches the activation that goes before the method.
    pub(crate) async fn activating<R>(&mut self, activation: impl Future<Output = Result<R>>) -> Result<R> {
        let mut activation = pin!(activating(self.site, activation));
        let trace = &self.trace;
        poll_fn(|cx| trace.within(|| activation.as_mut().poll(cx))).await
    }

    /// Watches the method.
    pub(crate) async fn run<F: Future>(&mut self, method: F) -> F::Output {
        let began = self.is_measured.then(time::now);
        self.running = Some(Running { began, coarse: time::coarse(), alarm: None });
        let mut method = pin!(method);
        let output = poll_fn(|cx| {
            let polled = self.trace.within(|| method.as_mut().poll(cx));
            if polled.is_pending() {
                self.wait(cx);
            }
            polled
        })
        .await;
        self.ended();
        output
    }

    /// Sees to it that somebody looks at a turn that waits for too long.
    #[cold]
    fn wait(&mut self, cx: &mut std::task::Context<'_>) {
        let Some(running) = &mut self.running else { return };
        let (site, method) = (self.site, self.method);
        let alarm = running.alarm.get_or_insert_with(|| {
            Box::new(Alarm::new(running.began.unwrap_or_else(time::now), site.hall.settings.slow_turn))
        });
        alarm.watch(cx, site, method);
    }

    /// The method has ended, or was ended.
    fn ended(&mut self) {
        let Some(Running { began, coarse, alarm }) = self.running.take() else { return };
        if let Some(began) = began {
            let took = time::now().saturating_duration_since(began);
            self.site.hall.ledger.method(self.method).turn_took(took);
        }
        if let Some(alarm) = alarm {
            let elapsed = time::now().saturating_duration_since(alarm.began()).max(coarse.elapsed());
            return alarm.end(self.site, self.method, elapsed);
        }
        let elapsed = coarse.elapsed();
        if elapsed >= self.site.hall.settings.slow_turn {
            has_blocked(self.site, self.method, elapsed);
        }
    }
}

impl Drop for TurnWatch<'_> {
    fn drop(&mut self) {
        if self.running.is_some() {
            self.ended();
        }
        if self.has_failed {
            self.site.hall.ledger.method(self.method).failed();
        }
    }
}
