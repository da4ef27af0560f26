use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use mainstay_core::task::{JoinHandle, Scope};
use mainstay_core::time::{self, Duration};
use mainstay_core::{Epoch, Error, ErrorKind, Result};
use mainstay_state::{Closing, Partition, StateManager, StateOptions};

use crate::actor::activation::ActorOptions;
use crate::actor::event::audience::Audience;
use crate::actor::memory_budget::MemoryBudget;
use crate::actor::settings::ActorSettings;
use crate::call::transactions::TransactionTurns;
use crate::call::turn::catching;
use crate::interfaces::Interfaces;
use crate::observe::counters::ActorCounters;
use crate::router::{Address, Services};
use crate::service::context::{Cancellation, ServiceContext};
use crate::service::definition::Service;
use crate::service::host::ServiceHost;
use crate::service::opening::ServiceOpening;
use crate::service::run::keep_running;
use crate::slot::{OpenPartition, PartitionObjects};

/// The grace period of `run` and of the calls under way when a partition is closed; then their tasks are dropped. Unless
/// the node stops gracefully, their commits are already refused during that time.
pub(crate) const CLOSE_GRACE: Duration = Duration::from_secs(5);

/// The object of a service's partition while this node is primary, in one epoch.
pub(crate) struct ServiceActivation {
    address: Arc<Address>,
    opened: Arc<OpenPartition>,
    run: Option<JoinHandle<()>>,
    cancellation: Cancellation,
    tasks: ScopeGuard,
    /// The way to close the state. Not a handle to the state itself, which is dropped with the object.
    closing: Closing,
}

/// The task scope of an activation, which is stopped when the guard is dropped.
pub(crate) struct ScopeGuard(pub(crate) Scope);

impl Drop for ScopeGuard {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// The open objects of a partition while this node is primary, in one epoch.
pub(crate) trait Activation: Send + Sync {
    /// The part that calls see.
    fn opened(&self) -> Arc<OpenPartition>;

    /// Waits until the state closes itself, which it does after a commit with an unknown outcome. The partition then has to be
    /// reopened, even if this node stays primary in the same epoch.
    fn ended(&self) -> Pin<Box<dyn Future<Output = ()> + Send>>;

    /// Lets the calls under way end, when the slot admits no others: the role is about to be handed over.
    fn quiesce(&self) -> Pin<Box<dyn Future<Output = ()> + Send>>;

    /// Closes the objects. To be called after the slot was emptied, so that no call can reach them.
    fn close(self: Box<Self>) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

/// Opens the objects of a partition.
pub(crate) type OpenFn = fn(PartitionContext) -> Pin<Box<dyn Future<Output = Result<Box<dyn Activation>>> + Send>>;

/// The inputs of an activation: the partition, its role, and the dependencies of its objects.
pub(crate) struct PartitionContext {
    pub(crate) address: Arc<Address>,
    pub(crate) partition: Partition,
    pub(crate) epoch: Epoch,
    pub(crate) services: Services,
    /// Runtime options of actors.
    pub(crate) options: ActorOptions,
    /// Settings of actors.
    pub(crate) settings: ActorSettings,
    /// Options of a service's collections.
    pub(crate) state: StateOptions,
    /// The memory budget of the type's actors on this node.
    pub(crate) memory_budget: Arc<MemoryBudget>,
    /// The event subscriptions to the partition's actors.
    pub(crate) audience: Arc<Audience>,
    /// The metrics of the type's actors on this node.
    pub(crate) counters: Arc<ActorCounters>,
}

impl ServiceActivation {
    /// Opens the state and constructs the object from it.
    pub(crate) async fn open<T: Service>(partition_context: PartitionContext) -> Result<Box<dyn Activation>> {
        let PartitionContext { address, partition, epoch, services, options, state, .. } = partition_context;
        let (context, cancellation) = ServiceContext::new(address.clone(), partition.level(), epoch, services);
        let scope = Scope::new();
        let tasks = ScopeGuard(scope.clone());
        let make = make::<T>(&address, &partition, state, &options, &context);
        let (object, closing) = scope.enter(catching("opening", make)).await?;
        if partition.check()? != epoch {
            closing.close().await;
            return Err(Error::new(
                ErrorKind::Retry,
                "the primary of the partition changed while it was opened: retry",
            ));
        }
        let served = Arc::new(ServiceHost::new(object, partition.lease(epoch)));
        let run = T::RUNS.then(|| scope.spawn(keep_running(served.clone(), context)));
        let objects = PartitionObjects::Service(Interfaces::<ServiceHost<T>>::of_service().objects(&served));
        let opened = Arc::new(OpenPartition::new(objects, scope));
        Ok(Box::new(Self { address, opened, run, cancellation, tasks, closing }))
    }
}

impl Activation for ServiceActivation {
    fn opened(&self) -> Arc<OpenPartition> {
        self.opened.clone()
    }

    fn ended(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let closing = self.closing.clone();
        Box::pin(async move { closing.closed().await })
    }

    fn quiesce(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let opened = self.opened.clone();
        Box::pin(async move { opened.all_ended().await })
    }

    fn close(self: Box<Self>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move {
            let Self { address, opened, run, cancellation, tasks, closing } = *self;
            cancellation.cancel();
            // The slot is empty by now: after this, only calls under way hold the object.
            drop(opened);
            let all_ended = time::timeout(CLOSE_GRACE, tasks.0.ended()).await.is_ok();
            if !all_ended {
                let run_goes_on = run.is_some_and(|run| !run.is_finished());
                tracing::warn!(
                    service = %address.service,
                    partition = %address.partition,
                    run_goes_on,
                    grace_ms = CLOSE_GRACE.as_millis() as u64,
                    "run or calls did not end within the grace period and are dropped: return from run when its context is cancelled"
                );
            }
            // Closing invalidates handles that leaked, and waits for the commits under way, so that the next opening sees their
            // outcome. That is quick, unless a task has started a commit and does not await it: hence the time limit.
            _ = time::timeout(CLOSE_GRACE, closing.close()).await;
            tasks.0.stop();
            tasks.0.ended().await;
        })
    }
}

async fn make<T: Service>(
    address: &Address,
    partition: &Partition,
    state: StateOptions,
    options: &ActorOptions,
    context: &ServiceContext,
) -> Result<(T, Closing)> {
    let calls = Arc::new(TransactionTurns::default());
    let state = StateManager::open_within(partition.clone(), state, Some(calls)).await?;
    let made = async {
        let before: Vec<_> = state.collections()?.into_iter().map(|info| info.name).collect();
        let mut transaction = state.begin();
        let object = T::open(&mut ServiceOpening { state: &state, transaction: &mut transaction, context }).await?;
        transaction.commit().await?;
        // Injected faults apply from here on: the commit that opens a partition is not one of the application.
        if let Some(faults) = &options.faults {
            state.use_faults(faults.clone());
        }
        if address.index == 0 {
            // All partitions have the same collections, so one warning is enough.
            warn_of_strays::<T>(&before);
        }
        Ok(object)
    };
    match made.await {
        Ok(object) => Ok((object, state.closing())),
        Err(error) => {
            // A handle that leaked must not block the next attempt.
            state.close().await;
            Err(error)
        }
    }
}

/// Warns of a stored collection without a field, if there is also a field without a stored collection: the field was probably
/// renamed, and starts empty. A collection without a field alone is fine, because a service may open collections by name.
fn warn_of_strays<T: Service>(before: &[String]) {
    let is_new = |field: &&str| !before.iter().any(|name| name == field);
    if !T::COLLECTIONS.iter().any(is_new) {
        return;
    }
    for name in before.iter().filter(|name| !T::COLLECTIONS.contains(&name.as_str())) {
        let service = T::NAME;
        tracing::warn!(
            service,
            collection = name,
            "{service} has a collection stored as {name:?} and no field of that name: the collection is kept, and not read. If the \
             field was renamed, write `#[service(name = {name:?})]` on it"
        );
    }
}
