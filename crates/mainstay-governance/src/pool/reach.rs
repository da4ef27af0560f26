use mainstay::service::Services;
use mainstay::{Context, Node, ServiceContext, WorkerContext};

/// From where a pool can be reached: a node, or within it an actor, a service or a worker.
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
