use mainstay::node::NodeBuilder;
use mainstay::prelude::*;
use tokio::time::Instant;

use crate::owner::counter::Counter;
use crate::owner::holding::Holding;
use crate::owner::settings::owner_settings;
use crate::owner::{Fence, Holder, Life, Opening, Owner, OwnerSettings, OwnerStatus, Resource};
use crate::settings::OWNERS;

/// The name of the timer that checks an open resource.
const CHECK: &str = "check";
/// The name of the timer that opens a resource again.
const REOPEN: &str = "reopen";
/// The name of the reminder that keeps an unused resource open.
const STAY: &str = "stay open";

/// The one owner of a resource: an actor that alone holds the real thing.
///
/// There is one activation of an actor in a cluster, and so one owner. It opens the resource when it is activated and closes
/// it when it leaves memory; [the page of this module](crate::owner) says what happens in between.
#[derive(Actor)]
#[actor(implements(Owner<R>), name = R::NAME)]
pub struct ResourceOwner<R: Resource> {
    /// The token of the last opening. Raised and saved before each.
    fence: State<Fence>,
    /// The line of tokens that it belongs to.
    life: State<Life>,
    /// What is known of tokens that are not on record.
    counter: Counter,
    resource: Provided<R>,
    holding: Holding<R>,
    settings: OwnerSettings,
    /// When it is opened again by a timer that was set.
    planned: Option<Instant>,
    ctx: Context,
}

impl<R: Resource> ResourceOwner<R> {
    /// Adds the owners of a kind of resource to a node, which provides it to them. Operators can set how they behave in
    /// `[governance.owners.NAME]`, by the name of the resource.
    pub fn serve(node: NodeBuilder, resource: R) -> NodeBuilder {
        let node = resource.sections(node).section_named(OWNERS, R::NAME, resource.owner_settings());
        node.provide(resource).actor::<Self>()
    }

    /// The same for a resource that the node was given already, because it has other uses as well.
    pub fn serve_provided(node: NodeBuilder) -> NodeBuilder {
        node.sections(OWNERS).actor::<Self>()
    }

    fn key(&self) -> Result<String> {
        let id = self.ctx.id();
        id.as_text().map(str::to_owned).ok_or_else(|| {
            Error::invalid(format!(
                "{}({id}) is no owner: the id of an owner is the key of its resource, a text",
                R::NAME
            ))
        })
    }

    /// Opens it, unless it is open or rests.
    async fn ensure_open(&mut self) -> Result<()> {
        if self.holding.is_open() {
            return Ok(());
        }
        let key = self.key()?;
        if let Some((left, cause)) = self.holding.resting(Instant::now()) {
            return Err(Error::new(
                ErrorKind::Retry,
                format!("{key} cannot be used: {cause}; it is opened again in {left:?}, call again then"),
            ));
        }
        (*self.fence, *self.life) = self.counter.next(*self.fence, *self.life)?;
        // Saved before it is used: whoever opens it next has a larger one, and an owner whose time is over gets none.
        if let Err(error) = self.save().await {
            self.holding.fail(&self.settings, &error);
            return Err(error);
        }
        let text = format!("{key} cannot be opened: call again later");
        let holder = Holder::actor(R::NAME, self.ctx.id());
        let opening = Opening::new(key, *self.fence).held_by(holder).in_life(*self.life);
        self.holding.open(&self.resource, opening, &self.settings).await.map_err(|error| {
            self.counter.hear(&error);
            Error::new(ErrorKind::Retry, text).with_source(error)
        })
    }

    /// Sees to it that a resource that was closed by a failure is opened again without being called.
    fn plan(&mut self) -> Result<()> {
        if self.holding.is_open() {
            return Ok(());
        }
        let Some(due) = self.holding.due().filter(|due| self.planned != Some(*due)) else { return Ok(()) };
        self.ctx.set_timer(REOPEN, due.saturating_duration_since(Instant::now()), None, Self::reopen)?;
        self.planned = Some(due);
        Ok(())
    }

    async fn reopen(&mut self) -> Result<()> {
        // What keeps it from being opened is logged where it is found, and it comes here again.
        let _ = self.ensure_open().await;
        self.plan()
    }

    async fn look_after(&mut self) -> Result<()> {
        if let Err(error) = self.holding.check(&self.resource, &self.settings).await {
            self.counter.hear(&error);
        }
        self.plan()
    }

    /// Has the owner woken now and then, if it is to stay.
    fn plan_to_stay(&self) -> Result<()> {
        match self.settings.stay_open {
            Some(period) => self.ctx.remind(STAY).after(period).every(period).set().map(drop),
            None => self.ctx.cancel_reminder(STAY).map(drop),
        }
    }
}

impl<R: Resource> Lifecycle for ResourceOwner<R> {
    async fn activate(&mut self) -> Result<()> {
        self.settings = owner_settings(&*self.resource, self.ctx.services())?;
        self.holding.recall(Opening::new(self.key()?, *self.fence));
        self.plan_to_stay()?;
        let is_saved = self.fence.next()?;
        let opened = self.ensure_open().await;
        // An owner whose token was not saved has not begun to own. One that cannot open has: it goes on trying.
        if *self.fence != is_saved {
            opened?;
        }
        if let Some(period) = self.settings.check_interval {
            self.ctx.set_timer(CHECK, period, Some(period), Self::look_after)?;
        }
        self.plan()
    }

    async fn deactivate(&mut self) {
        self.holding.close(&self.resource, &self.settings).await;
    }
}

impl<R: Resource> Remindable for ResourceOwner<R> {
    async fn remind(&mut self, _: Reminder) -> Result<()> {
        self.reopen().await
    }
}

impl<R: Resource> Owner<R> for ResourceOwner<R> {
    async fn run(&mut self, job: R::Job) -> Result<R::Reply> {
        let outcome = match self.ensure_open().await {
            Ok(()) => self.holding.run(&self.resource, &self.settings, job).await,
            Err(error) => Err(error),
        };
        if let Err(error) = &outcome {
            self.counter.hear(error);
        }
        self.plan()?;
        outcome
    }

    async fn status(&self) -> Result<OwnerStatus> {
        let Holding { jobs, openings, .. } = self.holding;
        Ok(OwnerStatus { state: self.holding.state(), fence: *self.fence, jobs, openings })
    }
}
