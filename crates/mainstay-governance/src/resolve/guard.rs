use std::fmt;
use std::sync::Arc;

use mainstay::Result;

use super::moved::Moved;
use super::resolution::Ticket;
use super::sight::Pass;
use super::view::View;

/// The side of a resource: lets in only calls whose senders know where the entity is now. Cheap to clone; made by
/// [`Resolver::guard`](super::Resolver::guard), by whoever owns the resource, on whatever node that is.
///
/// A move waits for the guards as it does for all other holders. So when it has returned, no guard lets in a call that was
/// resolved before it, however long the call was on its way.
#[derive(Clone)]
pub struct Guard {
    view: Arc<View>,
    resource: String,
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Guard({:?})", self.resource)
    }
}

impl Guard {
    pub(super) fn new(view: Arc<View>, resource: String) -> Self {
        Self { view, resource }
    }

    /// The name of the resource.
    pub fn resource(&self) -> &str {
        &self.resource
    }

    /// Lets a call in, which counts as under way until the pass is dropped. Nobody is asked, unless the ticket is of a later
    /// version than this process has heard of.
    ///
    /// # Errors
    /// [`Moved`] if the entity is not here, or may not have been here all the time since the ticket was made; `Retry` and
    /// those of a call if that cannot be found out.
    pub async fn enter(&self, ticket: &Ticket) -> Result<Pass> {
        let pass = self.view.begin(ticket, &self.resource).await?;
        pass.ok_or_else(|| Moved::new(ticket.entity.clone(), ticket.version).into_error(&self.resource))
    }
}
