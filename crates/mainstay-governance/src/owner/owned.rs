use std::time::Duration;

use mainstay::prelude::*;
use tokio::time::Instant;

use crate::owner::counter::Counter;
use crate::owner::holding::Holding;
use crate::owner::settings::owner_settings;
use crate::owner::{Fence, FenceLineage, Opening, OwnerSettings, Resource};

/// The name of the timer that checks an open resource.
const CHECK: &str = "check";
/// The name of the timer that opens a resource again.
const REOPEN: &str = "reopen";
/// The name of the reminder that keeps an unused resource open.
const STAY: &str = "stay open";

/// A resource of an actor, with what the actor knows of it in memory.
pub(crate) struct OwnedResource<R: Resource> {
    pub(crate) holding: Holding<R>,
    pub(crate) settings: OwnerSettings,
    /// The fencing tokens that are not on record here.
    counter: Counter,
    /// When the timer that was set opens it again.
    planned: Option<Instant>,
}

impl<R: Resource> Default for OwnedResource<R> {
    fn default() -> Self {
        let (holding, settings) = (Holding::default(), OwnerSettings::default());
        Self { holding, settings, counter: Counter::default(), planned: None }
    }
}

/// The fields of an actor that [`OwnsResource`] works with.
pub(crate) struct OwnerFields<'a, R: Resource> {
    /// The token of the last opening. Raised and saved before each.
    pub(crate) fence: &'a mut State<Fence>,
    /// The line of tokens that it belongs to.
    pub(crate) lineage: &'a mut State<FenceLineage>,
    pub(crate) resource: &'a R,
    pub(crate) owned: &'a mut OwnedResource<R>,
    pub(crate) ctx: &'a Context,
}

/// Why a resource is not open.
pub(crate) enum NotOpen {
    /// It has failed, and is not opened before this much time has passed.
    Resting { left: Duration, cause: String },
    /// [`OwnsResource::admit`] has refused.
    Refused,
    /// It was not tried, because no token for it could be raised and saved, or because it is not known whether it may be.
    NotTried(Error),
    /// It could not be opened.
    Failed(Error),
}

/// An actor that holds a resource: the owner of one, or a member of a pool. It opens the resource with a fencing token above
/// all before, checks it, opens it again after a failure and closes it at the end.
pub(crate) trait OwnsResource<R: Resource>: Actor {
    fn fields(&mut self) -> OwnerFields<'_, R>;

    /// The opening of its resource with a token, by this actor.
    fn opening(&self, fence: Fence) -> Result<Opening>;

    /// Whether the actor may open its resource now. An error counts as an opening that has failed.
    fn admit(&mut self) -> impl Future<Output = Result<bool>> + Send {
        std::future::ready(Ok(true))
    }

    /// When a resource that may be opened again at a moment is opened without a call; `None` for never.
    fn reopens_at(&self, due: Instant) -> Option<Instant> {
        Some(due)
    }

    /// Is told of each opening before it begins.
    fn opens(&mut self) {}

    /// Is told of each opening and of each check that has failed.
    fn failed(&mut self) {}

    /// The first part of an activation.
    fn begin_owning(&mut self) -> Result<()> {
        let OwnerFields { fence, resource, owned, ctx, .. } = self.fields();
        owned.settings = owner_settings(resource, ctx.services())?;
        let (OwnerSettings { stay_open, check_interval, .. }, fence) = (owned.settings, **fence);
        match stay_open {
            Some(period) => drop(ctx.remind(STAY).after(period).every(period).set()?),
            None => drop(ctx.cancel_reminder(STAY)?),
        }
        if let Some(period) = check_interval {
            ctx.set_timer(CHECK, period, Some(period), Self::check)?;
        }
        let last = self.opening(fence)?;
        self.fields().owned.holding.recall(last);
        Ok(())
    }

    /// Opens the resource, unless it is open, rests after a failure or is not admitted.
    fn ensure_open(&mut self) -> impl Future<Output = Result<(), NotOpen>> + Send {
        async {
            let owned = self.fields().owned;
            if owned.holding.is_open() {
                return Ok(());
            }
            if let Some((left, cause)) = owned.holding.resting(Instant::now()) {
                return Err(NotOpen::Resting { left, cause: cause.to_owned() });
            }
            let opened = match self.admit().await {
                Ok(true) => self.open().await,
                Ok(false) => return Err(NotOpen::Refused),
                Err(error) => Err(NotOpen::NotTried(self.fields().owned.fail(error))),
            };
            opened.inspect_err(|_| self.failed())
        }
    }

    /// Raises the fencing token and saves it: the next opening has a larger one, and an activation whose time is over cannot
    /// save.
    fn raise_fence(&mut self) -> impl Future<Output = Result<Opening>> + Send {
        async {
            let OwnerFields { fence, lineage, owned, .. } = self.fields();
            let next = owned.counter.next(**fence, **lineage)?;
            (**fence, **lineage) = next;
            match self.save().await {
                Ok(()) => Ok(self.opening(next.0)?.in_lineage(next.1)),
                Err(error) => Err(self.fields().owned.fail(error)),
            }
        }
    }

    /// Opens the resource with a token that is larger than all before.
    fn open(&mut self) -> impl Future<Output = Result<(), NotOpen>> + Send {
        async {
            let opening = self.raise_fence().await.map_err(NotOpen::NotTried)?;
            self.opens();
            let OwnerFields { resource, owned, .. } = self.fields();
            let opened = owned.holding.open(resource, opening, &owned.settings).await;
            opened.inspect_err(|error| owned.counter.hear(error)).map_err(NotOpen::Failed)
        }
    }

    /// Does a job on the open resource.
    fn run_job(&mut self, job: R::Job) -> impl Future<Output = Result<R::Reply>> + Send {
        async {
            let OwnerFields { resource, owned, .. } = self.fields();
            let done = owned.holding.run(resource, &owned.settings, job).await;
            done.inspect_err(|error| owned.counter.hear(error))
        }
    }

    /// Sets the timer that opens a resource again which a failure has closed.
    fn plan_to_reopen(&mut self) -> Result<()> {
        let OwnedResource { holding, planned, .. } = self.fields().owned;
        if holding.is_open() {
            return Ok(());
        }
        let (due, planned) = (holding.due(), *planned);
        let Some(due) = due.and_then(|due| self.reopens_at(due)).filter(|due| planned != Some(*due)) else {
            return Ok(());
        };
        let OwnerFields { owned, ctx, .. } = self.fields();
        ctx.set_timer(REOPEN, due.saturating_duration_since(Instant::now()), None, Self::reopen)?;
        owned.planned = Some(due);
        Ok(())
    }

    /// Opens the resource without a call, by a timer or a reminder.
    fn reopen(&mut self) -> impl Future<Output = Result<()>> + Send {
        async {
            let now = Instant::now();
            if self.reopens_at(now).is_some_and(|due| due <= now) {
                // What keeps it from being opened is logged where it is found, and the timer is set again.
                let _ = self.ensure_open().await;
            }
            self.plan_to_reopen()
        }
    }

    /// Checks the open resource, and closes one that is broken.
    fn check(&mut self) -> impl Future<Output = Result<()>> + Send {
        async {
            let OwnerFields { resource, owned, .. } = self.fields();
            if let Err(error) = owned.holding.check(resource, &owned.settings).await {
                owned.counter.hear(&error);
                self.failed();
            }
            self.plan_to_reopen()
        }
    }

    /// Closes the resource. False if something of it may be left.
    fn close(&mut self) -> impl Future<Output = bool> + Send {
        async {
            let OwnerFields { resource, owned, .. } = self.fields();
            owned.holding.close(resource, &owned.settings).await
        }
    }

    /// Closes the resource for good: it is not opened again without a call. False as for [`close`](OwnsResource::close).
    fn retire_resource(&mut self) -> impl Future<Output = Result<bool>> + Send {
        async {
            let is_gone = self.close().await;
            let OwnerFields { owned, ctx, .. } = self.fields();
            owned.holding.forgive();
            owned.planned = None;
            ctx.cancel_timer(REOPEN);
            ctx.cancel_reminder(STAY)?;
            Ok(is_gone)
        }
    }
}

impl<R: Resource> OwnedResource<R> {
    /// Counts an opening that has failed before it began, and gives its error back.
    fn fail(&mut self, error: Error) -> Error {
        self.holding.fail(&self.settings, &error);
        error
    }
}
