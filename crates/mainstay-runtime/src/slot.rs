use std::any::{Any, TypeId};
use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use mainstay_core::task::Scope;
use mainstay_core::time;
use mainstay_core::{ActorId, Error, ErrorKind, NodeId, Result};
use tokio::sync::{Notify, watch};

use crate::actor::actor_table::AnyActorTable;
use crate::actor::event::audience::Audience;
use crate::actor::route_cache::CachedRoute;
use crate::call::arrival::Deadline;
use crate::call::current;
use crate::router::Address;

/// The bound on calls at a partition: those that run, for a service, and those that wait until the partition is open, for any
/// partition. The next call is refused with `Overloaded`, because each call holds its arguments and mostly a task. A call that has
/// reached an actor is bounded by the actor's settings `mailbox` and `calls_max` instead.
pub const CALLS_PER_PARTITION_MAX: usize = 16_384;

/// The entry point of a partition on this node. The slot outlives the partition's objects: calls wait at the slot while the
/// partition is opened, and fail there when the primary is elsewhere.
pub struct Slot {
    address: Arc<Address>,
    state: watch::Sender<SlotState>,
    calls: AtomicUsize,
    /// True once the partition has left the node: calls look elsewhere.
    is_detached: AtomicBool,
    /// The event subscriptions to the partition's actors. They are kept here because they outlive a role.
    audience: Arc<Audience>,
}

/// The state of a partition on this node, as calls see it.
#[derive(Clone)]
pub(crate) enum SlotState {
    /// No primary is known; calls wait.
    NoPrimary,
    /// The primary is on another node; calls are refused with its id.
    PrimaryElsewhere(NodeId),
    /// This node is primary and is opening the state; calls wait.
    Opening,
    /// Opening has failed and is retried; calls are refused.
    Failed { kind: ErrorKind, why: Arc<str> },
    /// Calls are admitted.
    Open(Arc<OpenPartition>),
    /// The role is about to be handed over: the calls under way end, with what they call themselves, and others wait.
    HandingOver(Arc<OpenPartition>),
    /// The node has stopped. This state is final.
    Stopped,
}

/// An open partition as calls see it.
pub(crate) struct OpenPartition {
    pub(crate) objects: PartitionObjects,
    /// The task scope of its calls.
    pub(crate) scope: Scope,
    /// How many calls have been admitted and have not ended. Those of actors are counted until they have reached the actor.
    running: AtomicUsize,
    /// Told when the last of them has ended.
    ended: Notify,
}

impl OpenPartition {
    pub(crate) fn new(objects: PartitionObjects, scope: Scope) -> Self {
        Self { objects, scope, running: AtomicUsize::new(0), ended: Notify::new() }
    }

    /// Waits until no call is under way. None may be admitted any more, or it may never return.
    pub(crate) async fn all_ended(&self) {
        loop {
            // Listens before it looks, so that the last one cannot end in between.
            let mut ended = pin!(self.ended.notified());
            ended.as_mut().enable();
            if self.running.load(Ordering::SeqCst) == 0 {
                return;
            }
            ended.await;
        }
    }
}

/// The objects of an open partition.
pub(crate) enum PartitionObjects {
    /// The one object of a service, once per interface, each as an `Arc` of the interface's own type.
    Service(Vec<(TypeId, Box<dyn Any + Send + Sync>)>),
    /// Actors, found by id.
    Actors(Arc<dyn AnyActorTable>),
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &*self.state.borrow() {
            SlotState::NoPrimary => "no primary",
            SlotState::PrimaryElsewhere(_) => "primary elsewhere",
            SlotState::Opening => "opening",
            SlotState::Failed { .. } => "failed",
            SlotState::Open(_) => "open",
            SlotState::HandingOver(_) => "handing over",
            SlotState::Stopped => "stopped",
        };
        write!(f, "Slot({}, {state}, {} calls)", self.address, self.calls.load(Ordering::Relaxed))
    }
}

impl Slot {
    pub(crate) fn new(address: Arc<Address>) -> Self {
        let state = watch::Sender::new(SlotState::NoPrimary);
        Self {
            address,
            state,
            calls: AtomicUsize::new(0),
            is_detached: AtomicBool::new(false),
            audience: Arc::default(),
        }
    }

    /// The address of the partition.
    pub fn address(&self) -> &Arc<Address> {
        &self.address
    }

    /// The event subscriptions to the partition's actors.
    pub(crate) fn audience(&self) -> &Arc<Audience> {
        &self.audience
    }

    /// The current state.
    pub(crate) fn state(&self) -> SlotState {
        self.state.borrow().clone()
    }

    /// The number of actors in memory in this partition.
    pub(crate) fn active_actors(&self) -> u64 {
        match &*self.state.borrow() {
            SlotState::Open(opened) | SlotState::HandingOver(opened) => match &opened.objects {
                PartitionObjects::Actors(actors) => actors.active(),
                PartitionObjects::Service(_) => 0,
            },
            _ => 0,
        }
    }

    /// Changes the state. `Stopped` is final: later changes are ignored.
    pub(crate) fn put(&self, state: SlotState) {
        let is_stopped = matches!(state, SlotState::Stopped);
        self.state.send_if_modified(|current| {
            if matches!(current, SlotState::Stopped) {
                return false;
            }
            *current = state;
            true
        });
        // The subscriptions of a partition that has left the node go on.
        if is_stopped && !self.is_detached() {
            self.audience.stop();
        }
    }

    /// Admits a call, waiting until the deadline for the partition to be open.
    pub(crate) async fn admit(self: &Arc<Self>, method: &'static str, deadline: &mut Deadline) -> Result<AdmittedCall> {
        let count = CallCount::new(self)?;
        let ready = self.settled(&self.state.borrow());
        let opened = match ready {
            Some(settled) => settled?,
            None => match deadline.moment() {
                None => self.wait().await?,
                Some(deadline) => match time::timeout_at(deadline, self.wait()).await {
                    Ok(settled) => settled?,
                    Err(time::Elapsed) => return Err(self.late(method)),
                },
            },
        };
        Ok(AdmittedCall { running: opened, _count: count })
    }

    /// Waits until calls are admitted or refused for good.
    pub(crate) async fn wait(&self) -> Result<RunningCall> {
        let mut state = self.state.subscribe();
        loop {
            if let Some(settled) = self.settled(&state.borrow_and_update()) {
                return settled;
            }
            if state.changed().await.is_err() {
                return Err(self.stopped());
            }
        }
    }

    /// The result that a call gets in this state; `None` if the call has to wait.
    fn settled(&self, state: &SlotState) -> Option<Result<RunningCall>> {
        match state {
            // Counted while the state cannot change: whoever changes it and then looks sees the call.
            SlotState::Open(opened) => Some(Ok(RunningCall::new(opened))),
            // A call that is made in a turn is part of what is under way.
            SlotState::HandingOver(opened) if current::is_in_turn() => Some(Ok(RunningCall::new(opened))),
            SlotState::NoPrimary | SlotState::Opening | SlotState::HandingOver(_) => None,
            SlotState::PrimaryElsewhere(node) => Some(Err(Error::new(
                ErrorKind::NotPrimary { hint: Some(*node) },
                format!("{} is not on this node: its primary is on node {node}, call it there", self.address),
            ))),
            SlotState::Failed { kind, why } => {
                Some(Err(Error::new(*kind, format!("{} cannot be opened: {why}; opening is retried", self.address))))
            }
            SlotState::Stopped => Some(Err(self.stopped())),
        }
    }

    /// Notes that the partition leaves the node. Another slot takes the place of this one.
    pub(crate) fn detach(&self) {
        self.is_detached.store(true, Ordering::Release);
    }

    /// The slot that takes the place of this one, with its subscriptions.
    pub(crate) fn successor(&self) -> Self {
        Self { audience: self.audience.clone(), ..Self::new(self.address.clone()) }
    }

    /// Waits until another node is known to be primary, or nothing comes here any more.
    pub(crate) async fn elsewhere(&self) {
        let is_elsewhere = |state: &SlotState| matches!(state, SlotState::PrimaryElsewhere(_) | SlotState::Stopped);
        // An error is impossible while this holds the sender.
        let _ = self.state.subscribe().wait_for(is_elsewhere).await;
    }

    /// True if the partition has left the node.
    pub(crate) fn is_detached(&self) -> bool {
        self.is_detached.load(Ordering::Acquire)
    }

    pub(crate) fn stopped(&self) -> Error {
        if self.is_detached() {
            let text = format!("{} has left this node: call it on another one", self.address);
            return Error::new(ErrorKind::NotPrimary { hint: None }, text);
        }
        Error::fatal(format!("{} is gone, because its node has stopped: start the node again", self.address))
    }

    fn late(&self, method: &str) -> Error {
        let (kind, why) = match &*self.state.borrow() {
            SlotState::NoPrimary => (ErrorKind::NotPrimary { hint: None }, "no node is known to be its primary"),
            SlotState::HandingOver(_) => (ErrorKind::Timeout, "the partition is being handed over to another node"),
            _ => (ErrorKind::Timeout, "the partition is still being opened"),
        };
        Error::new(kind, format!("`{method}` of {} was not begun within the time limit: {why}; retry", self.address))
    }
}

/// The permit of an admitted call. It keeps the partition's objects alive and is counted against the slot's bound until it is
/// dropped.
pub(crate) struct AdmittedCall {
    running: RunningCall,
    _count: CallCount,
}

/// A call that was admitted to an open partition, counted until it ends.
pub(crate) struct RunningCall {
    opened: Arc<OpenPartition>,
}

impl RunningCall {
    fn new(opened: &Arc<OpenPartition>) -> Self {
        opened.running.fetch_add(1, Ordering::SeqCst);
        Self { opened: opened.clone() }
    }
}

impl Drop for RunningCall {
    fn drop(&mut self) {
        if self.opened.running.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.opened.ended.notify_waiters();
        }
    }
}

impl AdmittedCall {
    /// The object of a service behind an interface.
    pub(crate) fn object<O: ?Sized + Send + Sync + 'static>(&self) -> Option<Arc<O>> {
        let PartitionObjects::Service(interfaces) = &self.running.opened.objects else { return None };
        let (_, object) = interfaces.iter().find(|(interface, _)| *interface == TypeId::of::<O>())?;
        object.downcast_ref::<Arc<O>>().cloned()
    }

    /// The route to an actor by an interface; `None` if the partition was closed meanwhile.
    pub(crate) fn route(&self, id: &ActorId, interface: TypeId, method: &'static str) -> Result<Option<CachedRoute>> {
        self.actors()?.route(id, interface, method)
    }

    /// The actors of the partition.
    pub(crate) fn actors(&self) -> Result<Arc<dyn AnyActorTable>> {
        match &self.running.opened.objects {
            PartitionObjects::Actors(actors) => Ok(actors.clone()),
            PartitionObjects::Service(_) => {
                Err(Error::invalid("this is a service, and has no actors: call it by `service`"))
            }
        }
    }

    /// The task scope in which the call runs.
    pub(crate) fn scope(&self) -> &Scope {
        &self.running.opened.scope
    }
}

/// One call, counted against [`CALLS_PER_PARTITION_MAX`] until this is dropped.
struct CallCount {
    slot: Arc<Slot>,
}

impl CallCount {
    fn new(slot: &Arc<Slot>) -> Result<Self> {
        let before = slot.calls.fetch_add(1, Ordering::Relaxed);
        let count = Self { slot: slot.clone() };
        if before < CALLS_PER_PARTITION_MAX {
            return Ok(count);
        }
        Err(Error::new(
            ErrorKind::Overloaded,
            format!(
                "{} has {CALLS_PER_PARTITION_MAX} calls already (CALLS_PER_PARTITION_MAX): slow down and retry",
                slot.address
            ),
        ))
    }
}

impl Drop for CallCount {
    fn drop(&mut self) {
        self.slot.calls.fetch_sub(1, Ordering::Relaxed);
    }
}
