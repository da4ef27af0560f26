//! An actor without a node, for the unit tests of its methods.

use std::sync::{Arc, Weak};

use mainstay_core::partitioning::{PartitionKey, Share};
use mainstay_core::task::Home;
use mainstay_core::{ActorId, PartitionId, Result};

use crate::actor::Context;
use crate::actor::activation_tasks::ActivationTasks;
use crate::actor::actor_shared::ActorShared;
use crate::actor::actor_table::{ActorPartition, without_node};
use crate::actor::cell::removal::Removable;
use crate::actor::dynamic::Pages;
use crate::actor::event::Listeners;
use crate::actor::settings::ActorSettings;
use crate::interfaces::OfferedInterface;
use crate::router::{Address, Route, Router, ServiceQuery, Services};
use crate::worker::handle::WorkerHandle;

/// What the actor's type is called in messages.
const SERVICE: &str = "test";

impl Context {
    /// A context without a node, for a unit test that makes an actor by hand and calls its methods.
    ///
    /// It knows its id, and keeps [state by name](Context::state) in memory for as long as it lives. Whatever needs a node is
    /// refused with `Invalid`: calls to others, timers, reminders, continuations, events, what the node provides. A test of those
    /// starts a `TestNode`.
    pub fn for_tests(id: impl Into<ActorId>) -> Self {
        Self {
            shared: detached(id.into()),
            stay: ActivationTasks::default(),
            pages: Pages::default(),
            listeners: Listeners::default(),
        }
    }
}

/// An actor of no node.
pub(crate) fn detached(id: ActorId) -> Arc<ActorShared> {
    let settings = ActorSettings::default();
    let address = Address {
        service: SERVICE.into(),
        index: 0,
        partition: PartitionId(0),
        share: Share::Whole,
        call_timeout: settings.call_timeout,
    };
    let services = Services::new(Arc::new(NoNode(Home::current())));
    let partition = Arc::new(ActorPartition::detached(address, services, settings));
    Arc::new(ActorShared::new(id, partition, Weak::<NoCell>::new()))
}

/// A router to nothing.
#[derive(Debug)]
struct NoNode(Home);

impl Router for NoNode {
    fn resolve(&self, query: &ServiceQuery<'_>, _: &PartitionKey) -> Result<Arc<Address>> {
        Err(without_node(format_args!("a proxy of `{}`", query.interface)))
    }

    fn actor_partitions(&self, service: &str) -> Result<Vec<Arc<Address>>> {
        Err(without_node(format_args!("a listing of {service}")))
    }

    fn route(&self, address: &Address) -> Result<Route> {
        Err(without_node(format_args!("a call to {address}")))
    }

    fn home(&self) -> &Home {
        &self.0
    }

    fn worker(&self, _: Option<&str>, interface: OfferedInterface) -> Result<Arc<WorkerHandle>> {
        Err(without_node(format_args!("a proxy of `{}`", interface.name)))
    }
}

/// The cell of an actor that has none.
struct NoCell;

impl Removable for NoCell {
    fn depart(self: Arc<Self>) {}

    fn shed(self: Arc<Self>) {}
}
