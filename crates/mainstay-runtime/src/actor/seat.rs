use std::any::Any;
use std::sync::Arc;

use crate::actor::site::Site;

/// The place of an actor, as a proxy remembers it.
pub(crate) struct Seat {
    pub(crate) site: Arc<Site>,
    /// The actor behind an interface: an `Arc` of the interface's own type.
    pub(crate) object: Box<dyn Any + Send + Sync>,
}

impl Seat {
    #[inline]
    pub(crate) fn object<O: ?Sized + Send + Sync + 'static>(&self) -> Option<Arc<O>> {
        self.object.downcast_ref::<Arc<O>>().cloned()
    }
}
