use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use mainstay_core::task::{JoinHandle, Scope};
use mainstay_core::time::{self, Duration};
use mainstay_core::{Epoch, Error, ErrorKind, Result};
use mainstay_state::{Closing, Partition, StateManager, StateOptions};

use crate::actor::activation::ActorOptions;
use crate::actor::event::audience::Audience;
use crate::actor::population::Population;
use crate::actor::settings::ActorSettings;
use crate::call::transactions::TransactionTurns;
use crate::call::turn::catching;
use crate::interfaces::Interfaces;
use crate::observe::ledger::Ledger;
use crate::router::{Address, Services};
use crate::service::context::{Cancellation, ServiceContext};
use crate::service::definition::Service;
use crate::service::opening::Opening;
use crate::service::run::keep_running;
use crate::service::served::Served;
use crate::slot::{Opened, Tenant};

/// How long `run` and the calls under way may take to end when a partition is closed; then they are dropped where they
/// stand. Whatever they commit is refused by then, unless the node stops in order.
pub(crate) const CLOSE_GRACE: Duration = Duration::from_secs(5);

/// A partition's object while the partition is primary here, in one epoch.
pub(crate) struct ServiceActivation {
    address: Arc<Address>,
    opened: Arc<Opened>,
    run: Option<JoinHandle<()>>,
    cancellation: Cancellation,
    tasks: Tasks,
    /// No more of the state, which goes with the object.
    closing: Closing,
}

/// What runs for an object. It ends with the activation, also with one that is dropped where it stands.
pub(crate) struct Tasks(pub(crate) Scope);

impl Drop for Tasks {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// What is in a partition while the partition is primary here, in one epoch.
pub(crate) trait Activation: Send + Sync {
    /// What calls see of it.
    fn opened(&self) -> Arc<Opened>;

    /// Waits until its state has closed by itself, because nobody knows whether a commit has happened: then it has to be opened
    /// again, also where the partition goes on as the primary in the same epoch.
    fn ended(&self) -> Pin<Box<dyn Future<Output = ()> + Send>>;

    /// Ends it. To be called when no call can find it any more.
    fn close(self: Box<Self>) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

/// Makes what is in a partition.
pub(crate) type Open = fn(Place) -> Pin<Box<dyn Future<Output = Result<Box<dyn Activation>>> + Send>>;

/// Where something is activated.
pub(crate) struct Place {
    pub(crate) address: Arc<Address>,
    pub(crate) partition: Partition,
    pub(crate) epoch: Epoch,
    pub(crate) services: Services,
    /// How it is run, if it consists of actors.
    pub(crate) options: ActorOptions,
    /// Their settings.
    pub(crate) settings: ActorSettings,
    /// How its collections are kept, if it is a service.
    pub(crate) state: StateOptions,
    /// All of them on this node, if it consists of actors.
    pub(crate) population: Arc<Population>,
    /// Who listens to what actors publish there.
    pub(crate) audience: Arc<Audience>,
    /// What is counted of it, if it consists of actors.
    pub(crate) ledger: Arc<Ledger>,
}

impl ServiceActivation {
    /// Opens the state and makes the object from it.
    pub(crate) async fn open<T: Service>(place: Place) -> Result<Box<dyn Activation>> {
        let Place { address, partition, epoch, services, options, state, .. } = place;
        let (context, cancellation) = ServiceContext::new(address.clone(), partition.level(), epoch, services);
        let scope = Scope::new();
        let tasks = Tasks(scope.clone());
        let make = make::<T>(&address, &partition, state, &options, &context);
        let (object, closing) = scope.enter(catching("opening", make)).await?;
        if partition.check()? != epoch {
            closing.close().await;
            return Err(Error::new(ErrorKind::Retry, "the partition changed hands while it was opened"));
        }
        let served = Arc::new(Served::new(object));
        let run = T::RUNS.then(|| scope.spawn(keep_running(served.clone(), context)));
        let tenant = Tenant::Service(Interfaces::<Served<T>>::of_service().objects(&served));
        let opened = Arc::new(Opened { tenant, scope });
        Ok(Box::new(Self { address, opened, run, cancellation, tasks, closing }))
    }
}

impl Activation for ServiceActivation {
    fn opened(&self) -> Arc<Opened> {
        self.opened.clone()
    }

    fn ended(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let closing = self.closing.clone();
        Box::pin(async move { closing.closed().await })
    }

    fn close(self: Box<Self>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move {
            let Self { address, opened, run, cancellation, tasks, closing } = *self;
            cancellation.cancel();
            // The slot has let go of it, and so the last one to hold the object is whoever still runs.
            drop(opened);
            let all_ended = time::timeout(CLOSE_GRACE, tasks.0.ended()).await.is_ok();
            if !all_ended {
                let run_goes_on = run.is_some_and(|run| !run.is_finished());
                tracing::warn!(
                    service = %address.service,
                    partition = %address.partition,
                    run_goes_on,
                    grace_ms = CLOSE_GRACE.as_millis() as u64,
                    "run or calls have not ended within the grace period and are dropped: end run when its context is cancelled"
                );
            }
            // Whoever has kept a handle of it is not in the way of the next opening, and nothing is on its way any more by then:
            // that is known soon, unless somebody has begun a commit and does not wait for it.
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
        let object = T::open(&mut Opening { state: &state, transaction: &mut transaction, context }).await?;
        transaction.commit().await?;
        // From here on: what opens a partition is no commit of the application.
        if let Some(faults) = &options.faults {
            state.use_faults(faults.clone());
        }
        if address.index == 0 {
            // All partitions have the same collections, and one warning is enough.
            warn_of_strays::<T>(&before);
        }
        Ok(object)
    };
    match made.await {
        Ok(object) => Ok((object, state.closing())),
        Err(error) => {
            // Whoever has kept a handle of it is not in the way of the next try.
            state.close().await;
            Err(error)
        }
    }
}

/// Warns of a collection that was stored and that no field has, if there was none for a field: then one was renamed, and starts
/// empty. One without a field is no mistake by itself, because a service may open collections by name.
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
            "{service} has a collection stored as {name:?} and no field of that name: it is kept, and not read. If the field was \
             renamed, write `#[service(name = {name:?})]` on it"
        );
    }
}
