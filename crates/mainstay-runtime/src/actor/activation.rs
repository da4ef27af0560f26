use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use mainstay_core::task::Scope;
use mainstay_core::time;
use mainstay_core::{Error, ErrorKind, Result};
use mainstay_state::CommitFaults;
use mainstay_state::actor::ActorStore;

use crate::actor::Actor;
use crate::actor::actor_table::{ActorPartition, ActorTable};
use crate::actor::alarm::Alarm;
use crate::actor::sweep::Sweeper;
use crate::service::activation::{Activation, PartitionContext, ScopeGuard};
use crate::slot::{OpenPartition, PartitionObjects};

/// How the actors of a type are run, in what is not for operators to set.
#[derive(Debug, Clone)]
pub struct ActorOptions {
    /// Whether the next turn of an actor may run while the commit of the one before is under way. Off only to measure what
    /// that brings.
    pub overlap: bool,
    /// What lets commits fail, in a test; those of services as well.
    pub faults: Option<Arc<CommitFaults>>,
}

impl Default for ActorOptions {
    fn default() -> Self {
        Self { overlap: true, faults: None }
    }
}

/// The actors of a partition while the partition is primary here, in one epoch.
pub(crate) struct ActorActivation<T: Actor> {
    table: Arc<ActorTable<T>>,
    opened: Arc<OpenPartition>,
    store: ActorStore,
    tasks: ScopeGuard,
    /// What fires reminders, and sweeps what has expired.
    clocks: ScopeGuard,
}

impl<T: Actor> ActorActivation<T> {
    pub(crate) async fn open(context: PartitionContext) -> Result<Box<dyn Activation>> {
        let scope = Scope::new();
        let tasks = ScopeGuard(scope.clone());
        let store = ActorStore::open(context.partition.clone()).await?;
        if store.epoch() != context.epoch {
            return Err(Error::new(ErrorKind::Retry, "the partition changed hands while it was opened"));
        }
        context.memory_budget.stray_fields.look_at_first(&store, T::NAME, T::FIELDS);
        let table =
            ActorTable::<T>::open(ActorPartition::new(context, store.clone(), scope.clone(), T::REMINDABLE.is_some()));
        let clocks = ScopeGuard(Scope::new());
        Alarm::start(&table, &clocks.0);
        Sweeper::start(&table, &clocks.0);
        let opened = Arc::new(OpenPartition::new(PartitionObjects::Actors(table.clone()), scope));
        Ok(Box::new(Self { table, opened, store, tasks, clocks }))
    }
}

impl<T: Actor> Activation for ActorActivation<T> {
    fn opened(&self) -> Arc<OpenPartition> {
        self.opened.clone()
    }

    fn ended(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let store = self.store.clone();
        Box::pin(async move { store.closed().await })
    }

    fn quiesce(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        // Nothing begins by itself any more. What is due stays in the store.
        self.clocks.0.stop();
        let (table, opened) = (self.table.clone(), self.opened.clone());
        Box::pin(async move {
            opened.all_ended().await;
            table.quiesce().await;
        })
    }

    fn close(self: Box<Self>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move {
            let Self { table, store, tasks, clocks, .. } = &*self;
            // Nothing begins any more. What is due stays in the store, and the turns that have begun go on.
            clocks.0.stop();
            clocks.0.ended().await;
            let grace = table.partition().settings.deactivation_grace;
            if time::timeout(grace, table.close()).await.is_err() {
                tracing::warn!(
                    service = %table.partition().address.service,
                    partition = %table.partition().address.partition,
                    grace_ms = grace.as_millis() as u64,
                    "turns have not ended within the grace period and are dropped"
                );
            }
            // Nothing is on its way any more when the next one opens.
            _ = time::timeout(grace, store.close()).await;
            tasks.0.stop();
            tasks.0.ended().await;
        })
    }
}

impl<T: Actor> Drop for ActorActivation<T> {
    fn drop(&mut self) {
        self.tasks.0.stop();
        self.table.abandon();
    }
}
