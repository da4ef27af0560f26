use std::sync::Arc;

use mainstay::service::Services;
use mainstay::{Context, Node, ServiceContext, WorkerContext};

/// From where what this crate offers can be reached: a node, or within it an actor, a service or a worker. What is opened by
/// it does not keep the node alive.
pub trait AsServices {
    /// The way to all services.
    fn services(&self) -> &Services;

    /// True within an actor, a service or a worker: they are many, and share what there is to be one of for the node.
    fn is_inside(&self) -> bool {
        false
    }
}

impl AsServices for Node {
    fn services(&self) -> &Services {
        self.services()
    }
}

impl AsServices for Context {
    fn services(&self) -> &Services {
        self.services()
    }

    fn is_inside(&self) -> bool {
        true
    }
}

impl AsServices for ServiceContext {
    fn services(&self) -> &Services {
        self.services()
    }

    fn is_inside(&self) -> bool {
        true
    }
}

impl AsServices for WorkerContext {
    fn services(&self) -> &Services {
        self.services()
    }

    fn is_inside(&self) -> bool {
        true
    }
}

impl AsServices for Services {
    fn services(&self) -> &Services {
        self
    }
}

impl<R: AsServices> AsServices for Arc<R> {
    fn services(&self) -> &Services {
        R::services(self)
    }

    fn is_inside(&self) -> bool {
        R::is_inside(self)
    }
}

#[cfg(feature = "testkit")]
impl AsServices for mainstay::testkit::TestNode {
    fn services(&self) -> &Services {
        Node::services(self)
    }
}
