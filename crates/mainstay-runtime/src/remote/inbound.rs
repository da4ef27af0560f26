use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use mainstay_core::task::{self, Gone, Home};
use mainstay_core::time::{self, Duration};
use mainstay_core::{Epoch, Error, ErrorKind, NodeId, Result};
use tracing::Instrument as _;

use crate::actor::enumeration;
use crate::actor::enumeration::elsewhere::{LIST, PARTITION_INTERFACE};
use crate::actor::event::lease::{EventLeases, POLL};
use crate::call::arrival::Deadline;
use crate::call::caller::Caller;
use crate::call::chain::{Link, TurnIdentity};
use crate::call::wire_call::WireCall;
use crate::call::wire_method::WireMethod;
use crate::directory::Directory;
use crate::interfaces::OfferedInterface;
use crate::observe::propagation;
use crate::registered_service::RegisteredService;
use crate::remote::reply::CallReply;
use crate::remote::request::CallRequest;
use crate::router::{Address, Route, Router, ServiceQuery};
use crate::service_type::ServiceKind;
use crate::slot::{Slot, SlotState};
use crate::worker::handle::WorkerHandle;
use mainstay_core::partitioning::PartitionKey;

/// The most calls of other processes that are under way on a node; the next is refused with `Overloaded`. Each holds its
/// arguments and a task.
pub const INBOUND_CALLS_MAX: usize = 16_384;

/// How long a call of another process waits here for a partition whose primary is not known. Then the caller may try another
/// node, which knows more.
const PRIMARY_WAIT_MAX: Duration = Duration::from_millis(250);

/// The calls of other processes to the objects of this node. Cheap to clone.
///
/// A call is made here or refused: it is never sent on. A node that is not the primary says which one is.
#[derive(Clone)]
pub struct Inbound {
    inner: Arc<InboundInner>,
}

struct InboundInner {
    directory: Arc<Directory>,
    /// The router of the calls: to objects of this node alone.
    router: Arc<dyn Router>,
    under_way: AtomicUsize,
    events: EventLeases,
}

impl fmt::Debug for Inbound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Inbound({} under way)", self.inner.under_way.load(Ordering::Relaxed))
    }
}

impl Inbound {
    /// The calls to the objects of a directory.
    pub fn new(directory: Arc<Directory>) -> Self {
        let router = Arc::new(ThisNode(directory.clone()));
        Self {
            inner: Arc::new(InboundInner {
                directory,
                router,
                under_way: AtomicUsize::new(0),
                events: EventLeases::default(),
            }),
        }
    }

    /// Makes a call that has come from another process, and returns the bytes of the answer. Dropping the future gives up a call
    /// that has not begun; one that has runs to its end.
    ///
    /// # Errors
    /// `Overloaded` if too many calls are under way; `Corrupt`, `TooLarge` and `UnknownVersion` for bytes that are no call. Nothing
    /// happened then. What becomes of the call itself is in the answer.
    pub fn receive(&self, from: NodeId, request: Bytes, remaining: Duration) -> BoxFuture<'static, Result<Bytes>> {
        let inbound = self.clone();
        let home = self.inner.directory.home().clone();
        Box::pin(async move {
            let answering = async move {
                let _count = InboundCount::new(&inbound.inner)?;
                let request = CallRequest::decode(&request)?;
                let span = propagation::span_of(from, request.traceparent);
                Ok(inbound.answer(from, &request, remaining).instrument(span).await.encode())
            };
            home.run(answering).await.unwrap_or_else(|Gone| {
                Err(Error::new(ErrorKind::Retry, "the node has stopped: nothing happened, call another one"))
            })
        })
    }

    async fn answer(&self, from: NodeId, request: &CallRequest<'_>, remaining: Duration) -> CallReply {
        let mut epoch = None;
        let outcome = self.make(from, request, remaining, &mut epoch).await;
        CallReply { epoch, outcome }
    }

    async fn make(
        &self,
        from: NodeId,
        request: &CallRequest<'_>,
        remaining: Duration,
        epoch: &mut Option<Epoch>,
    ) -> Result<Bytes> {
        let (service, slot) = self.inner.find(request)?;
        let deadline = time::now().checked_add(remaining);
        *epoch = self.inner.admit(&service, &slot, request, remaining).await?;
        match (request.interface, &request.actor) {
            (PARTITION_INTERFACE, None) if request.method == LIST.name() => {
                return list(&slot, request, remaining).await;
            }
            (name, Some(actor)) if name == POLL.interface() && request.method == POLL.name() => {
                return self.inner.events.poll(from, &slot, actor, &request.arguments, remaining).await;
            }
            _ => {}
        }
        let method = find_method(&service, request)?;
        let caller = Caller::new(self.inner.router.clone(), slot.address().clone(), request.actor.clone());
        let left = deadline.map_or(remaining, |deadline| deadline.saturating_duration_since(time::now()));
        let turns = request.chain.iter().map(|turn| {
            let identity = TurnIdentity { service: turn.service.into(), actor: turn.actor.clone() };
            (identity, turn.method.to_owned())
        });
        let call = WireCall {
            arguments: request.arguments.clone(),
            key: request.key.clone(),
            chain: Link::of_turns_elsewhere(turns),
        };
        method.answer(caller.with_timeout(left), call).await
    }
}

impl InboundInner {
    /// The partition that a call is for.
    fn find(&self, request: &CallRequest<'_>) -> Result<(Arc<RegisteredService>, Arc<Slot>)> {
        let CallRequest { service: name, partition, .. } = request;
        let service = self.directory.known(name).map_err(|error| {
            Error::new(ErrorKind::NotPrimary { hint: None }, format!("service {name} is not known here yet"))
                .with_source(error)
        })?;
        let is_of_actors = request.actor.is_some() || request.interface == PARTITION_INTERFACE;
        let expected = if is_of_actors { ServiceKind::Actors } else { ServiceKind::Stateful };
        if service.known.kind != expected {
            return Err(Error::invalid(format!("{name} is {}: nothing happened", service.known.kind.way())));
        }
        let slot = service.slots().find(|slot| slot.address().partition == *partition).ok_or_else(|| {
            Error::invalid(format!("{name} has no partition {partition}: nothing happened, make a new proxy"))
        })?;
        if let Some(actor) = &request.actor {
            let index = service.known.partitioning.partition_of(&actor.partition_key())?;
            if index != slot.address().index {
                return Err(Error::invalid(format!(
                    "{name}({actor}) is not in partition {partition}: nothing happened"
                )));
            }
        }
        Ok((service, slot))
    }

    /// Refuses a call to a partition whose primary is not here, with the node that is, where known. The epoch of the primary.
    async fn admit(
        &self,
        service: &RegisteredService,
        slot: &Arc<Slot>,
        request: &CallRequest<'_>,
        remaining: Duration,
    ) -> Result<Option<Epoch>> {
        let address = slot.address();
        let not_here = |hint: Option<NodeId>, why: &str| {
            Error::new(ErrorKind::NotPrimary { hint }, format!("{address} is not served by this node: {why}"))
        };
        let Some(partition) = service.partition(address.index) else {
            let hint = self.directory.remote().and_then(|remote| remote.calls.route(address).node);
            return Err(not_here(hint, "it has no replica here"));
        };
        if matches!(slot.state(), SlotState::NoPrimary) {
            // An election is soon over; what it says is said by the slot below.
            let _ = time::timeout(PRIMARY_WAIT_MAX.min(remaining), slot.wait()).await;
            if matches!(slot.state(), SlotState::NoPrimary) {
                return Err(not_here(None, "its primary is not known here"));
            }
        }
        let epoch = partition.role_state().epoch;
        match request.epoch {
            Some(known) if known > epoch => {
                Err(not_here(None, &format!("the caller knows of epoch {known}, and this node is in {epoch}")))
            }
            _ => Ok(Some(epoch)),
        }
    }
}

/// A page of the actors of a partition.
async fn list(slot: &Arc<Slot>, request: &CallRequest<'_>, remaining: Duration) -> Result<Bytes> {
    let admitted = slot.admit(LIST.name(), &mut Deadline::new(remaining, None)).await?;
    let (actors, arguments) = (admitted.actors()?, request.arguments.clone());
    // It may be from disk, and much.
    task::blocking(move || enumeration::elsewhere::list(&*actors, &arguments)).await
}

/// The method that a call is for.
fn find_method(service: &RegisteredService, request: &CallRequest<'_>) -> Result<WireMethod> {
    let CallRequest { interface: name, method, .. } = request;
    let unsupported = |what: String| {
        Error::new(
            ErrorKind::Unsupported,
            format!("{what}: nothing happened; the caller runs another version of the program"),
        )
    };
    if request.actor.is_some() && *name == Caller::ACTOR_INTERFACE {
        let found = Caller::ACTOR_METHODS.iter().find(|known| known.name() == *method);
        return found.copied().ok_or_else(|| unsupported(format!("actors have no method `{method}` of their own")));
    }
    let service_name = &service.known.name;
    if service.service.is_none() {
        return Err(Error::new(
            ErrorKind::NotPrimary { hint: None },
            format!("{service_name} is known here, and not served: this program does not have the type"),
        ));
    }
    let Some(interface) = service.interface(name) else {
        return Err(unsupported(format!("{service_name} does not implement an interface {name:?} on this node")));
    };
    let found = interface.methods.iter().find(|known| known.name() == *method);
    found.copied().ok_or_else(|| {
        unsupported(format!("interface {name:?} of {service_name} has no method {method:?} on this node"))
    })
}

/// The objects of this node as a router: calls that have come from elsewhere are not sent on.
#[derive(Debug)]
struct ThisNode(Arc<Directory>);

impl Router for ThisNode {
    fn resolve(&self, query: &ServiceQuery<'_>, key: &PartitionKey) -> Result<Arc<Address>> {
        self.0.resolve(query, key)
    }

    fn actor_partitions(&self, service: &str) -> Result<Vec<Arc<Address>>> {
        self.0.actor_partitions(service)
    }

    fn route(&self, address: &Address) -> Result<Route> {
        let slot = self.0.known(&address.service)?.slot(address.index);
        slot.map(Route::Local).ok_or_else(|| Error::new(ErrorKind::NotFound, format!("{address} is not on this node")))
    }

    fn home(&self) -> &Home {
        self.0.home()
    }

    fn worker(&self, name: Option<&str>, interface: OfferedInterface) -> Result<Arc<WorkerHandle>> {
        self.0.worker(name, interface)
    }
}

/// One call, counted against [`INBOUND_CALLS_MAX`] until this is dropped.
struct InboundCount(Arc<InboundInner>);

impl InboundCount {
    fn new(inner: &Arc<InboundInner>) -> Result<Self> {
        let before = inner.under_way.fetch_add(1, Ordering::Relaxed);
        let count = Self(inner.clone());
        if before < INBOUND_CALLS_MAX {
            return Ok(count);
        }
        Err(Error::new(
            ErrorKind::Overloaded,
            format!(
                "{INBOUND_CALLS_MAX} calls of other processes are under way (INBOUND_CALLS_MAX): slow down and retry"
            ),
        ))
    }
}

impl Drop for InboundCount {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}
