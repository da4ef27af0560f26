use std::any::type_name;
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use mainstay_core::time::{self, Duration, Instant};
use mainstay_core::{Error, ErrorKind, Result};

use crate::actor::activation_tasks::{Ending, TaskTable};
use crate::actor::actor_shared::ActorShared;
use crate::actor::cell::ActorCell;
use crate::actor::internal::run_turn;
use crate::actor::{Actor, Context};
use crate::call::arrival::{Method, TurnSource};
use crate::call::turn::panic_text;

/// How many timers an actor may have at a time. Each is a task.
pub const TIMERS_PER_ACTOR_MAX: usize = 64;

/// The longest part of a wait that is handed to the clock at once, which counts in milliseconds and not for ever.
const WAIT_PART_MAX: Duration = Duration::from_secs(24 * 60 * 60);

static TIMER: Method = Method::own("timer", TurnSource::Timer);

/// What a timer does: an async method of the actor without arguments, or an async closure that is given the actor. What a
/// closure captures is cloned for each run.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not what a timer of `{T}` can do",
    label = "this is not an async method of `{T}`",
    note = "pass `{T}::method` for an `async fn method(&mut self) -> Result<()>`, or \
            `async |actor: &mut {T}| {{ .. Ok(()) }}`, whose future can be sent to other threads"
)]
pub trait TimerMethod<'a, T: 'a>: Clone + Send {
    /// What it takes to run it.
    type Running: Future<Output = Result<()>> + Send + 'a;

    /// Runs it.
    fn run(self, actor: &'a mut T) -> Self::Running;
}

impl<'a, T: 'a, F, Running> TimerMethod<'a, T> for F
where
    F: FnOnce(&'a mut T) -> Running + Clone + Send,
    Running: Future<Output = Result<()>> + Send + 'a,
{
    type Running = Running;

    fn run(self, actor: &'a mut T) -> Running {
        self(actor)
    }
}

/// A timer of an actor. It goes on when this is dropped.
#[derive(Clone)]
pub struct Timer {
    name: Arc<str>,
    ending: Arc<Ending>,
    plans: Arc<TaskTable>,
}

impl fmt::Debug for Timer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = if self.is_active() { "active" } else { "ended" };
        write!(f, "Timer({:?}, {state})", self.name)
    }
}

impl Timer {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// True if it is yet to run. A timer ends when it was cancelled or replaced, when it has run once and has no period,
    /// and with the activation of its actor.
    pub fn is_active(&self) -> bool {
        !self.ending.is_over()
    }

    /// Ends it. A run that has begun goes on to its end.
    pub fn cancel(&self) {
        self.plans.forget_timer(&self.name, &self.ending);
        self.ending.end();
    }
}

impl Context {
    /// Runs a method of the actor after a while, and then again and again if there is a period, counted from the end of a
    /// run to the begin of the next.
    ///
    /// Each run is an exclusive turn, and what it changes is saved. One that fails is logged, and the timer goes on. A timer
    /// lives in memory, like a plain field: it is dropped with the activation, and also when a panic or a failed commit
    /// resets the actor, and it stays when the turn that sets it returns an error. An actor that is reset is activated anew if
    /// it had timers, so one that [`Lifecycle::activate`](crate::Lifecycle::activate) sets comes back by itself. It does not
    /// keep an idle actor in memory.
    /// What must happen in any case is a [reminder](Context::remind).
    ///
    /// A timer of the same name is replaced.
    ///
    /// # Errors
    /// `Invalid` for a period of zero, or if `T` is not the type of this actor; `Overloaded` if there are
    /// [`TIMERS_PER_ACTOR_MAX`] already.
    pub fn set_timer<T, F>(&self, name: &str, due: Duration, period: Option<Duration>, method: F) -> Result<Timer>
    where
        T: Actor,
        F: for<'a> TimerMethod<'a, T> + Sync + 'static,
    {
        let shared = &self.shared;
        if shared.cell::<ActorCell<T>>().is_none() {
            shared.partition.check_attached(format_args!("timer {name:?} of {shared}"))?;
            let strange = type_name::<T>();
            return Err(Error::invalid(format!(
                "timer {name:?} of {shared} is for {strange}, which that is not: pass a method of the actor that sets it"
            )));
        }
        if period.is_some_and(|period| period.is_zero()) {
            return Err(Error::invalid(format!(
                "timer {name:?} of {shared} has a period of zero: give it at least a millisecond, or none to run it once"
            )));
        }
        let timer = Timer { name: name.into(), ending: Arc::default(), plans: self.stay.plans().clone() };
        timer
            .plans
            .add_timer(&timer.name, &timer.ending)
            .map_err(|error| error.about(format_args!("timer {name:?} of {shared} cannot be set")))?;
        let running = keep_running(shared.clone(), timer.clone(), Wait::new(due), period, method);
        drop(shared.partition.scope.spawn(running));
        Ok(timer)
    }

    /// Ends a timer by its name. False if there is none.
    pub fn cancel_timer(&self, name: &str) -> bool {
        self.stay.known_plans().is_some_and(|plans| plans.end_timer(name))
    }
}

async fn keep_running<T, F>(shared: Arc<ActorShared>, timer: Timer, due: Wait, period: Option<Duration>, method: F)
where
    T: Actor,
    F: for<'a> TimerMethod<'a, T> + Sync + 'static,
{
    let mut wait = due;
    loop {
        tokio::select! {
            biased;
            () = timer.ending.ended() => return,
            () = wait.over() => {}
        }
        // What the closure has captured is of others, and so is how that is cloned.
        match catch_unwind(AssertUnwindSafe(|| method.clone())) {
            Ok(method) => fire(&shared, &timer, method).await,
            Err(panic) => {
                let panic = panic_text(&*panic);
                tracing::error!(actor = %shared, timer = &*timer.name, panic, "a timer panicked before its run");
            }
        }
        match period {
            Some(period) => wait = Wait::new(period),
            None => return timer.cancel(),
        }
    }
}

/// Runs the method once, unless the timer ends before its turn comes.
async fn fire<T, F>(shared: &ActorShared, timer: &Timer, method: F)
where
    T: Actor,
    F: for<'a> TimerMethod<'a, T> + 'static,
{
    let Some(cell) = shared.cell::<ActorCell<T>>() else { return timer.cancel() };
    // A timer does not activate an actor, and so none that is to be activated anew.
    cell.shed();
    if timer.ending.is_over() {
        return;
    }
    let ending = timer.ending.clone();
    let result = run_turn(&cell, &TIMER, move |actor: &mut T| {
        Box::pin(async move { if ending.is_over() { Ok(()) } else { method.run(actor).await } })
    })
    .await;
    let Err(error) = result else { return };
    let has_left = timer.ending.is_over()
        && matches!(error.kind(), ErrorKind::Retry | ErrorKind::NotFound | ErrorKind::NotPrimary { .. });
    if !has_left {
        tracing::warn!(actor = %shared, timer = &*timer.name, ?error, "a timer has failed");
    }
}

/// A length of time from the moment at which it is made.
struct Wait {
    begin: Instant,
    length: Duration,
}

impl Wait {
    fn new(length: Duration) -> Self {
        Self { begin: time::now(), length }
    }

    /// Ready when it is over, however long that takes.
    async fn over(&self) {
        loop {
            let left = self.length.saturating_sub(self.begin.elapsed());
            if left.is_zero() {
                return;
            }
            time::sleep(left.min(WAIT_PART_MAX)).await;
        }
    }
}
