use mainstay::node::NodeBuilder;
use mainstay::prelude::*;

use crate::owner::holding::Holding;
use crate::owner::owned::{NotOpen, OwnedResource, OwnerFields, OwnsResource};
use crate::owner::{Fence, FenceLineage, Holder, Opening, Owner, OwnerStatus, Resource};
use crate::settings::OWNERS;

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
    #[actor(name = "life")]
    lineage: State<FenceLineage>,
    resource: Provided<R>,
    owned: OwnedResource<R>,
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

    /// Opens the resource, or says what a caller is told.
    async fn open_for_job(&mut self) -> Result<()> {
        let Err(not_open) = self.ensure_open().await else { return Ok(()) };
        let key = self.key()?;
        Err(match not_open {
            NotOpen::Resting { left, cause } => {
                let text = format!("{key} cannot be used: {cause}; it is opened again in {left:?}, call again then");
                Error::new(ErrorKind::Retry, text)
            }
            NotOpen::Refused => Error::new(ErrorKind::Retry, format!("{key} may not be opened yet: call again later")),
            NotOpen::NotTried(error) => error,
            NotOpen::Failed(error) => {
                Error::new(ErrorKind::Retry, format!("{key} cannot be opened: call again later")).with_source(error)
            }
        })
    }
}

impl<R: Resource> OwnsResource<R> for ResourceOwner<R> {
    fn fields(&mut self) -> OwnerFields<'_, R> {
        let Self { fence, lineage, resource, owned, ctx } = self;
        OwnerFields { fence, lineage, resource, owned, ctx }
    }

    fn opening(&self, fence: Fence) -> Result<Opening> {
        Ok(Opening::new(self.key()?, fence).held_by(Holder::actor(R::NAME, self.ctx.id())))
    }
}

impl<R: Resource> Lifecycle for ResourceOwner<R> {
    async fn activate(&mut self) -> Result<()> {
        self.begin_owning()?;
        let before = *self.fence;
        let opened = self.open_for_job().await;
        // An owner whose token was not saved has not begun to own. One that cannot open has: it goes on trying.
        if *self.fence <= before {
            opened?;
        }
        self.plan_to_reopen()
    }

    async fn deactivate(&mut self) {
        self.close().await;
    }
}

impl<R: Resource> Remindable for ResourceOwner<R> {
    async fn remind(&mut self, _: Reminder) -> Result<()> {
        self.reopen().await
    }
}

impl<R: Resource> Owner<R> for ResourceOwner<R> {
    async fn run(&mut self, job: R::Job) -> Result<R::Reply> {
        let done = match self.open_for_job().await {
            Ok(()) => self.run_job(job).await,
            Err(error) => Err(error),
        };
        self.plan_to_reopen()?;
        done
    }

    async fn status(&self) -> Result<OwnerStatus> {
        let Holding { jobs, openings, .. } = self.owned.holding;
        Ok(OwnerStatus { state: self.owned.holding.state(), fence: *self.fence, jobs, openings })
    }
}
