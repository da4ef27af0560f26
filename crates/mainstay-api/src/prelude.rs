//! What nearly every file of an application imports.

pub use crate::actor::{
    Actor, ActorId, Context, Deferred, Event, Lifecycle, Paged, Provided, Received, Remindable, Reminder, Responder,
    State,
};
pub use crate::collections::{ConcurrentQueue, Dictionary, Queue, StateManager, Transaction};
pub use crate::{Error, ErrorKind, Level, OrError, Result};
pub use crate::{Node, PartitionKey, Proxy, Service, ServiceContext, Worker, WorkerContext, interface};
