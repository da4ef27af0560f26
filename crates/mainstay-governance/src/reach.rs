use mainstay::actor::ActorId;
use mainstay::{Context, Node, Proxy, Result, WorkerContext};

/// Where proxies come from: a node, or what an actor or a worker knows of the one that it runs on. What is opened by it
/// does not keep the node alive.
pub trait Reach {
    /// A proxy to an actor, of the one type that implements the interface.
    ///
    /// # Errors
    /// As [`Node::actor`].
    fn reach<P: Proxy>(&self, id: ActorId) -> Result<P>;
}

impl Reach for Node {
    fn reach<P: Proxy>(&self, id: ActorId) -> Result<P> {
        self.actor(id)
    }
}

impl Reach for Context {
    fn reach<P: Proxy>(&self, id: ActorId) -> Result<P> {
        self.actor(id)
    }
}

impl Reach for WorkerContext {
    fn reach<P: Proxy>(&self, id: ActorId) -> Result<P> {
        self.actor(id)
    }
}
