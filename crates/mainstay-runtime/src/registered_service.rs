use std::sync::Arc;

use arc_swap::ArcSwap;
use mainstay_core::task::Scope;
use mainstay_core::{Error, Result};
use mainstay_state::Partition;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::actor::memory_budget::MemoryBudget;
use crate::interfaces::OfferedInterface;
use crate::known_service::KnownService;
use crate::observe::counters::ActorCounters;
use crate::role_follower::{ServedPartition, follow_role};
use crate::router::{Address, ServiceQuery, Services};
use crate::service_type::ServiceType;
use crate::slot::Slot;
use mainstay_core::NodeId;

/// A service that a directory knows, with a slot for each of its partitions, whether or not the partition is on this node.
#[derive(Debug)]
pub(crate) struct RegisteredService {
    pub(crate) known: KnownService,
    /// The type, if this node has it.
    pub(crate) service: Option<ServiceType>,
    pub(crate) counters: Arc<ActorCounters>,
    memory_budget: Option<Arc<MemoryBudget>>,
    slots: Vec<ArcSwap<Slot>>,
    attached: Vec<Mutex<Option<AttachedPartition>>>,
}

/// A partition that is on this node, with the task that follows its role.
#[derive(Debug)]
struct AttachedPartition {
    partition: Partition,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl RegisteredService {
    pub(crate) fn new(known: KnownService, service: Option<ServiceType>) -> Result<Self> {
        known.check()?;
        let name: Arc<str> = known.name.as_str().into();
        let slots = (0..).zip(&known.partitions).filter_map(|(index, partition)| {
            let share = known.partitioning.share(index)?;
            let (service, partition, call_timeout) = (name.clone(), *partition, known.call_timeout);
            Some(ArcSwap::from_pointee(Slot::new(Arc::new(Address { service, index, partition, share, call_timeout }))))
        });
        let slots: Vec<_> = slots.collect();
        let attached = slots.iter().map(|_| Mutex::new(None)).collect();
        let memory_budget = service.as_ref().map(|service| Arc::new(MemoryBudget::new(&service.settings)));
        Ok(Self { known, service, counters: Arc::default(), memory_budget, slots, attached })
    }

    /// True if it implements the interface of a query: by the type where that is here, and else by the name.
    pub(crate) fn offers(&self, query: &ServiceQuery<'_>) -> bool {
        match &self.service {
            Some(service) => service.interfaces.iter().any(|interface| interface.object == query.object),
            None => self.known.interfaces.iter().any(|interface| interface == query.interface),
        }
    }

    /// An interface of the type, by its name.
    pub(crate) fn interface(&self, name: &str) -> Option<&OfferedInterface> {
        self.service.as_ref()?.interfaces.iter().find(|interface| interface.name == name)
    }

    /// The slot of a partition by its number.
    pub(crate) fn slot(&self, index: u32) -> Option<Arc<Slot>> {
        self.slots.get(index as usize).map(ArcSwap::load_full)
    }

    /// All slots, in the order of the partitions.
    pub(crate) fn slots(&self) -> impl Iterator<Item = Arc<Slot>> + '_ {
        self.slots.iter().map(ArcSwap::load_full)
    }

    /// The handle of a partition that is on this node.
    pub(crate) fn partition(&self, index: u32) -> Option<Partition> {
        self.attached.get(index as usize)?.lock().as_ref().map(|attached| attached.partition.clone())
    }

    /// True if a partition is on this node.
    pub(crate) fn is_attached(&self, index: u32) -> bool {
        self.attached.get(index as usize).is_some_and(|attached| attached.lock().is_some())
    }

    /// Starts to follow the role of a partition that has come to this node.
    pub(crate) fn attach(
        &self,
        index: u32,
        partition: Partition,
        node: NodeId,
        services: Services,
        scope: &Scope,
    ) -> Result<()> {
        let name = &self.known.name;
        let Some((service, memory_budget)) = self.service.as_ref().zip(self.memory_budget.as_ref()) else {
            return Err(Error::invalid(format!(
                "partition {index} of {name} cannot be served: this program does not have the type, add it to the node's builder"
            )));
        };
        let (Some(slot), Some(attached)) = (self.slot(index), self.attached.get(index as usize)) else {
            return Err(Error::invalid(format!("{name} has no partition {index}: it has {}", self.slots.len())));
        };
        if slot.address().partition != partition.id() {
            return Err(Error::invalid(format!(
                "partition {index} of {name} is {}, and was given the handle of {}",
                slot.address().partition,
                partition.id()
            )));
        }
        let mut attached = attached.lock();
        if attached.is_some() {
            return Ok(());
        }
        let (stop, stopped) = watch::channel(false);
        let served = ServedPartition {
            node,
            partition: partition.clone(),
            slot,
            services,
            memory_budget: memory_budget.clone(),
            counters: self.counters.clone(),
            stop: stopped,
        };
        let (options, settings, state) = (service.options.clone(), service.settings.clone(), service.state.clone());
        let task = scope.spawn(follow_role(served, service.open, options, settings, state));
        *attached = Some(AttachedPartition { partition, stop, task });
        Ok(())
    }

    /// Lets go of a partition that leaves this node: its objects are closed, and calls that wait for it look elsewhere.
    pub(crate) async fn detach(&self, index: u32) {
        let Some(place) = self.attached.get(index as usize) else { return };
        let Some(attached) = place.lock().take() else { return };
        if let Some(slot) = self.slots.get(index as usize) {
            let former = slot.load_full();
            former.detach();
            slot.store(Arc::new(former.successor()));
        }
        attached.stop.send_replace(true);
        // An error means that the task was cancelled, and the objects were dropped with it.
        let _ = attached.task.await;
    }

    /// Lets go of the handles of all partitions when the node has stopped: proxies outlive it and hold this, and the data folder
    /// is free once nothing holds a partition.
    pub(crate) fn release(&self) {
        self.attached.iter().for_each(|attached| drop(attached.lock().take()));
    }

    /// Tells all partitions on this node that the node stops.
    pub(crate) fn stop(&self) {
        for attached in &self.attached {
            if let Some(attached) = &*attached.lock() {
                attached.stop.send_replace(true);
            }
        }
    }
}
