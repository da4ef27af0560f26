use std::fmt::Write as _;
use std::time::Duration;

use mainstay::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::owner::guarded::{Guarded, guarded};
use crate::owner::{Fence, Opening, OwnerSettings, OwnerState, Reset, Resource};

/// A resource in the hands of an actor: open, closed, or resting after a failure. It is what a
/// [`ResourceOwner`](crate::owner::ResourceOwner) and a member of a pool have in common.
///
/// A user of the handle takes it out and puts it back when all went well, so that a turn that is cut off in the middle,
/// after which the state of the handle is not known, drops it.
pub(crate) struct Holding<R: Resource> {
    /// In a lock because a handle need not be shareable; the lock is never waited for.
    handle: Mutex<Option<R::Handle>>,
    /// What it was last opened with, by this activation or by one before; without a token if it never was.
    opening: Opening,
    rest: Option<Rest>,
    /// Openings, checks and jobs in a row that have left no handle.
    failures: u32,
    pub(crate) jobs: u64,
    pub(crate) openings: u64,
}

/// A pause after a failure.
struct Rest {
    until: Instant,
    cause: String,
}

impl<R: Resource> Default for Holding<R> {
    fn default() -> Self {
        let opening = Opening::new("a resource that was never opened", Fence::NONE);
        Self { handle: Mutex::new(None), opening, rest: None, failures: 0, jobs: 0, openings: 0 }
    }
}

impl<R: Resource> Holding<R> {
    /// Takes note of what an activation before has opened, by its token: something of it may be left, and is waited for as if
    /// it had been opened here.
    pub(crate) fn recall(&mut self, last: Opening) {
        self.opening = last;
    }

    pub(crate) fn is_open(&mut self) -> bool {
        self.handle.get_mut().is_some()
    }

    pub(crate) fn state(&self) -> OwnerState {
        match (&self.rest, self.handle.lock().is_some()) {
            (_, true) => OwnerState::Open,
            (Some(rest), false) => OwnerState::Resting {
                left: rest.until.saturating_duration_since(Instant::now()),
                cause: rest.cause.clone(),
            },
            (None, false) => OwnerState::Closed,
        }
    }

    /// How long it rests, and why, if it does.
    pub(crate) fn resting(&self, now: Instant) -> Option<(Duration, &str)> {
        let rest = self.rest.as_ref().filter(|rest| rest.until > now)?;
        Some((rest.until - now, &rest.cause))
    }

    /// When it may be opened again, if it is closed by a failure.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.rest.as_ref().map(|rest| rest.until)
    }

    /// Opens it, after what was open before has been closed.
    pub(crate) async fn open(&mut self, resource: &R, opening: Opening, settings: &OwnerSettings) -> Result<()> {
        if !self.close(resource, settings).await {
            let text = format!("what was open of {} before is not gone yet: it is opened later", opening.key);
            let error = Error::new(ErrorKind::Retry, text);
            self.fail(settings, &error);
            return Err(error);
        }
        self.opening = opening;
        self.openings += 1;
        let (opening, limit) = (&self.opening, settings.open_time_max);
        let opened = guarded(limit, async { resource.open(opening).await }).await;
        match opened.flatten(&format!("opening {}", opening.key), limit) {
            Ok(handle) => {
                *self.handle.get_mut() = Some(handle);
                self.rest = None;
                Ok(())
            }
            Err(error) => {
                self.fail(settings, &error);
                Err(error)
            }
        }
    }

    /// It could not be opened, and is not tried again for a while.
    pub(crate) fn fail(&mut self, settings: &OwnerSettings, error: &Error) {
        self.failures = self.failures.saturating_add(1);
        let pause = settings.backoff.pause(self.failures);
        let (key, fence, failures) = (&*self.opening.key, self.opening.fence.get(), self.failures);
        tracing::warn!(key, fence, failures, ?pause, ?error, "a resource cannot be opened");
        self.rest(pause, error);
    }

    /// Does a job on the open handle.
    pub(crate) async fn run(&mut self, resource: &R, settings: &OwnerSettings, job: R::Job) -> Result<R::Reply> {
        let key = &self.opening.key;
        let Some(mut handle) = self.handle.get_mut().take() else {
            return Err(Error::new(ErrorKind::Retry, format!("{key} is closed: call again")));
        };
        self.jobs += 1;
        let limit = settings.job_time_max;
        let error = match guarded(limit, async { resource.run(&mut handle, job).await }).await {
            Guarded::Ended(Ok(reply)) => {
                self.works(handle);
                return Ok(reply);
            }
            Guarded::Ended(Err(error)) if !resource.breaks(&error) => {
                self.works(handle);
                return Err(error);
            }
            Guarded::Ended(Err(error)) => error,
            Guarded::Late => Error::new(
                ErrorKind::OutcomeUnknown,
                format!(
                    "a job of {key} took longer than job_time_max of {limit:?} and was given up: read before you repeat it"
                ),
            ),
            Guarded::Panicked(panic) => Error::new(
                ErrorKind::OutcomeUnknown,
                format!("a job of {key} panicked: {panic}; it may have happened in part, read before you repeat it"),
            ),
        };
        self.breaks(resource, handle, settings, &error).await;
        Err(error)
    }

    /// Asks whether the open handle is still good, and closes it if not. Nothing to ask is fine.
    pub(crate) async fn check(&mut self, resource: &R, settings: &OwnerSettings) -> Result<()> {
        let Some(mut handle) = self.handle.get_mut().take() else { return Ok(()) };
        let limit = settings.check_time_max;
        let checked = guarded(limit, async { resource.check(&mut handle).await }).await;
        match checked.flatten(&format!("the check of {}", self.opening.key), limit) {
            Ok(()) => {
                self.works(handle);
                Ok(())
            }
            Err(error) => {
                self.breaks(resource, handle, settings, &error).await;
                Err(error)
            }
        }
    }

    /// Takes from the open handle what its user has left in it, or closes it. Nothing open is fine.
    pub(crate) async fn reset(&mut self, resource: &R, settings: &OwnerSettings) {
        let Some(mut handle) = self.handle.get_mut().take() else { return };
        let limit = settings.check_time_max;
        let reset = guarded(limit, async { resource.reset(&mut handle).await }).await;
        match reset.flatten(&format!("the reset of {}", self.opening.key), limit) {
            Ok(Reset::Clean) => *self.handle.get_mut() = Some(handle),
            Ok(Reset::Reopen) => close(resource, handle, &self.opening, settings).await,
            Err(error) => {
                tracing::warn!(key = &*self.opening.key, ?error, "a resource could not be reset and is closed");
                close(resource, handle, &self.opening, settings).await;
            }
        }
    }

    /// Closes it, if it is open. False if something may be left of it, or of one before that was given up.
    pub(crate) async fn close(&mut self, resource: &R, settings: &OwnerSettings) -> bool {
        let began = Instant::now();
        if let Some(handle) = self.handle.get_mut().take() {
            close(resource, handle, &self.opening, settings).await;
        }
        let opening = &self.opening;
        if opening.fence == Fence::NONE {
            return true;
        }
        let left = settings.close_time_max.saturating_sub(began.elapsed());
        let gone = guarded(left, async { resource.gone(opening).await }).await;
        let is_gone = matches!(gone, Guarded::Ended(()));
        if !is_gone {
            tracing::warn!(key = &*opening.key, "something of a resource that was given up may still be there");
        }
        is_gone
    }

    /// Lets it be closed, and forgets that it has failed.
    pub(crate) fn forgive(&mut self) {
        (self.rest, self.failures) = (None, 0);
    }

    /// Puts back a handle that has proved itself.
    fn works(&mut self, handle: R::Handle) {
        *self.handle.get_mut() = Some(handle);
        self.forgive();
    }

    /// Closes a handle that has not. The first time it may be opened again at once: what breaks now and then is common, and
    /// an opening that fails rests in any case.
    async fn breaks(&mut self, resource: &R, handle: R::Handle, settings: &OwnerSettings, error: &Error) {
        let opening = &self.opening;
        let pause = settings.backoff.pause(self.failures);
        self.failures = self.failures.saturating_add(1);
        let (key, fence) = (&*opening.key, opening.fence.get());
        tracing::warn!(key, fence, ?pause, ?error, "an open resource is broken and is closed");
        close(resource, handle, opening, settings).await;
        self.rest(pause, error);
    }

    fn rest(&mut self, pause: Duration, error: &Error) {
        let mut cause = error.to_string();
        if let Some(source) = std::error::Error::source(error) {
            // Writing to a text cannot fail.
            let _ = write!(cause, ": {source}");
        }
        self.rest = Some(Rest { until: Instant::now() + pause, cause });
    }
}

async fn close<R: Resource>(resource: &R, handle: R::Handle, opening: &Opening, settings: &OwnerSettings) {
    let limit = settings.close_time_max;
    let closed = guarded(limit, async { resource.close(handle).await }).await;
    let how = match closed {
        Guarded::Ended(()) => return,
        Guarded::Late => "it took too long".to_owned(),
        Guarded::Panicked(panic) => format!("it panicked: {panic}"),
    };
    tracing::warn!(key = &*opening.key, how, "a resource could not be closed in order and was dropped");
}
