//! What nearly every file of an application imports: `use mainstay::prelude::*;`.
//!
//! Kept short on purpose, because every name in it is taken from the application. It shadows the two-parameter
//! `Result` of the standard library with one whose error defaults to [`Error`], and so stays compatible with it.

pub use crate::actor::{
    Actor, ActorId, Context, Deferred, Event, Lifecycle, Paged, Provided, Received, Remindable, Reminder, Responder,
    State,
};
pub use crate::collections::{ConcurrentQueue, Dictionary, Queue, StateManager, Transaction};
pub use crate::{Error, ErrorKind, Level, OrError, Result};
pub use crate::{Node, PartitionKey, Proxy, Service, ServiceContext, Worker, WorkerContext, interface};
