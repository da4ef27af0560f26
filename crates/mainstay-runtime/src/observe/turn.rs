use std::sync::Arc;

use mainstay_core::time::{self, Coarse, Duration, Instant};

use crate::actor::actor_shared::ActorShared;
use crate::call::arrival::{Method, TurnSource};
use crate::observe::slow_turn::{SlowTurnTimer, has_blocked};

pub(crate) static ACTIVATE: Method = Method::own("activate", TurnSource::Call);

/// The measurement of a turn under way. The turn counts as failed unless [`succeed`](TurnWatch::succeed) is called.
///
/// The owner must call [`over`](TurnWatch::over) in whatever way the turn ends.
pub(crate) struct TurnWatch {
    method: &'static Method,
    is_measured: bool,
    /// The start of the method by the machine's coarse clock, to detect one that blocks its thread; `None` while it does not
    /// run.
    running: Option<Coarse>,
    /// The start by the clock of the node, if the turn is measured.
    began: Option<Instant>,
    /// Warns of a turn that waits for too long.
    slow_timer: Option<Box<SlowTurnTimer>>,
    has_failed: bool,
    is_over: bool,
}

impl TurnWatch {
    /// Watches a turn that begins.
    pub(crate) fn begin(method: &'static Method, is_measured: bool) -> Self {
        Self { method, is_measured, running: None, began: None, slow_timer: None, has_failed: true, is_over: false }
    }

    /// Watches a turn that is not measured, and whose method began at `since`.
    pub(crate) fn running(method: &'static Method, since: Coarse) -> Self {
        Self { running: Some(since), ..Self::begin(method, false) }
    }

    /// Marks the turn as successful.
    #[inline]
    pub(crate) fn succeed(&mut self) {
        self.has_failed = false;
    }

    /// Marks the turn as failed again.
    pub(crate) fn fail(&mut self) {
        self.has_failed = true;
    }

    /// Starts the clocks before the first poll of the method. Later calls do nothing.
    #[inline]
    pub(crate) fn start(&mut self) {
        if self.running.is_none() {
            self.running = Some(time::coarse());
            self.began = self.is_measured.then(time::now);
        }
    }

    /// Arms the slow-turn timer of a turn whose poll is pending.
    #[cold]
    pub(crate) fn wait(&mut self, shared: &Arc<ActorShared>, cx: &mut std::task::Context<'_>) {
        let began = self.began;
        let slow_timer = self.slow_timer.get_or_insert_with(|| {
            Box::new(SlowTurnTimer::new(began.unwrap_or_else(time::now), shared.partition.settings.slow_turn))
        });
        slow_timer.watch(cx, shared, self.method);
    }

    /// Stops the clocks when the method has returned or was dropped.
    #[inline]
    pub(crate) fn ended(&mut self, shared: &Arc<ActorShared>) {
        let Some(running) = self.running.take() else { return };
        let elapsed = running.elapsed();
        if self.began.is_some() || self.slow_timer.is_some() || elapsed >= shared.partition.settings.slow_turn {
            self.report(shared, elapsed);
        }
    }

    /// Records the duration of the method.
    #[cold]
    fn report(&mut self, shared: &Arc<ActorShared>, elapsed: Duration) {
        if let Some(began) = self.began {
            let took = time::now().saturating_duration_since(began);
            shared.partition.counters.method(self.method).turn_took(took);
        }
        match self.slow_timer.take() {
            Some(slow_timer) => {
                let elapsed = time::now().saturating_duration_since(slow_timer.began()).max(elapsed);
                slow_timer.end(shared, self.method, elapsed);
            }
            None if elapsed >= shared.partition.settings.slow_turn => has_blocked(shared, self.method, elapsed),
            None => {}
        }
    }

    /// Moves the measurement out, leaving one that is over.
    pub(crate) fn hand_over(&mut self) -> Self {
        let empty = Self {
            method: self.method,
            is_measured: false,
            running: None,
            began: None,
            slow_timer: None,
            has_failed: false,
            is_over: true,
        };
        std::mem::replace(self, empty)
    }

    /// Ends the measurement. Idempotent.
    #[inline]
    pub(crate) fn over(&mut self, shared: &Arc<ActorShared>) {
        if std::mem::replace(&mut self.is_over, true) {
            return;
        }
        self.ended(shared);
        if self.has_failed {
            shared.partition.counters.method(self.method).failed();
        }
    }
}

/// The measurement of an activation, which ends when this is dropped.
pub(crate) struct ActivationWatch<'s> {
    shared: &'s Arc<ActorShared>,
    pub(crate) watch: TurnWatch,
}

impl<'s> ActivationWatch<'s> {
    pub(crate) fn begin(shared: &'s Arc<ActorShared>) -> Self {
        let counters = &shared.partition.counters;
        counters.method(&ACTIVATE).invoked();
        Self { shared, watch: TurnWatch::begin(&ACTIVATE, counters.arrival(&ACTIVATE).is_some()) }
    }
}

impl Drop for ActivationWatch<'_> {
    fn drop(&mut self) {
        self.watch.over(self.shared);
    }
}
