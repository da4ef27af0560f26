use mainstay::service::Services;
use mainstay::{Context, Node, ServiceContext, WorkerContext};

/// From where what this crate offers can be reached: a node, or within it an actor, a service or a worker. What is opened by
/// it does not keep the node alive.
pub trait Reach {
    /// The way to all services.
    fn services(&self) -> &Services;
}

impl Reach for Node {
    fn services(&self) -> &Services {
        self.services()
    }
}

impl Reach for Context {
    fn services(&self) -> &Services {
        self.services()
    }
}

impl Reach for ServiceContext {
    fn services(&self) -> &Services {
        self.services()
    }
}

impl Reach for WorkerContext {
    fn services(&self) -> &Services {
        self.services()
    }
}

impl Reach for Services {
    fn services(&self) -> &Services {
        self
    }
}
