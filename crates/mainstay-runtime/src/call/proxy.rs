use std::fmt::Debug;
use std::future::Future;
use std::sync::Arc;

use mainstay_core::partitioning::PartitionKey;
use mainstay_core::time::Duration;
use mainstay_core::{ActorId, Result};

use crate::actor::cell::removal::Removal;
use crate::actor::{Event, Events};
use crate::call::caller::Caller;
use crate::call::wire_method::WireMethod;
use crate::router::Services;

/// What all proxies have in common. Implemented by `#[interface]`, which refuses methods of these names in an interface: what
/// is added here is added to its list.
pub trait Proxy: Clone + Debug + Send + Sync + Sized + 'static {
    /// The methods of the interface, on an object of unknown type.
    #[doc(hidden)]
    type Object: ?Sized + Send + Sync + 'static;

    /// The name of the interface.
    const INTERFACE: &'static str;

    /// The methods, as other processes call them.
    #[doc(hidden)]
    const METHODS: &'static [WireMethod];

    /// The call that adds what implements it to a node, where the interface says so: `#[interface(served_by = "..")]`.
    const SERVED_BY: Option<&'static str> = None;

    #[doc(hidden)]
    fn from_caller(caller: Caller) -> Self;

    #[doc(hidden)]
    fn caller(&self) -> &Caller;

    /// A proxy to an actor, of the one type that implements the interface: `CounterRef::of(&node, "alice")`. It is made from a
    /// node, from the context of an actor, service or worker, or from [`Services`], and is the same as by their `actor`.
    ///
    /// # Errors
    /// As [`Services::actor`].
    fn of(from: &impl AsRef<Services>, id: impl Into<ActorId>) -> Result<Self> {
        from.as_ref().actor(id)
    }

    /// A proxy to the partition of a key, of the one service that implements the interface:
    /// `InventoryRef::of_service(&node, "alice")`. It is the same as by `service` of a node or of a context.
    ///
    /// # Errors
    /// As [`Services::service`].
    fn of_service(from: &impl AsRef<Services>, key: impl Into<PartitionKey>) -> Result<Self>
    where
        Self: SharedInterface,
    {
        from.as_ref().service(key)
    }

    /// A proxy to the one worker that implements the interface: `ShoutingRef::of_worker(&node)`. It is the same as by `worker`
    /// of a node or of a context.
    ///
    /// # Errors
    /// As [`Services::worker`].
    fn of_worker(from: &impl AsRef<Services>) -> Result<Self> {
        from.as_ref().worker()
    }

    /// The same proxy with another time limit for its calls.
    ///
    /// A call that has not begun by then fails with `Timeout`, and nothing has happened. One that is under way fails with
    /// `OutcomeUnknown`: nobody waits for it any more, and it runs to its end.
    #[must_use]
    fn with_timeout(&self, timeout: Duration) -> Self {
        Self::from_caller(self.caller().with_timeout(timeout))
    }

    /// The same proxy with an idempotency key for its calls: a call that succeeds is answered the same when it is repeated
    /// with the same key, and is not carried out again, after a restart or a failover too. The answer is kept with what the
    /// call has changed, for as long as the actor's settings say (a day unless told otherwise).
    ///
    /// For methods of actors that take `&mut self`. One that takes `&self` is just called: what it publishes, sets or calls
    /// happens again with every retry. A call that fails leaves no record and is tried again, although what it has saved in its
    /// midst stays. A method that answers later is refused with `Invalid` before it runs.
    #[must_use]
    fn idempotent(&self, key: impl AsRef<str>) -> Self {
        Self::from_caller(self.caller().idempotent(key.as_ref()))
    }

    /// The same proxy, whose calls are sent to another node at most once. When the connection breaks on the way, the caller
    /// gets `OutcomeUnknown`, and the actor keeps no answers for calls that are sent again.
    ///
    /// Without this, such calls are sent again where that is safe, and a method that takes `&mut self` is carried out exactly
    /// once. It makes no difference to calls within a node.
    #[must_use]
    fn at_most_once(&self) -> Self {
        Self::from_caller(self.caller().at_most_once())
    }

    /// Deletes the actor: its state, its reminders, the answers that are kept for idempotency keys and the subscriptions to
    /// its events, all at once. One that does not exist is fine, and none of its code runs unless it is in memory.
    ///
    /// It waits for its turn behind the calls that came before, and is done when it is durable. Calls that wait behind it
    /// get `NotFound`; one that is made later finds a new actor. An actor deletes itself by
    /// [`Context::delete`](crate::Context::delete).
    ///
    /// # Errors
    /// `Invalid` for a service; those of a call and of a commit, and then nothing was deleted unless it is
    /// `OutcomeUnknown`.
    fn delete_actor(&self) -> impl Future<Output = Result<()>> + Send {
        self.caller().remove(Removal::Delete)
    }

    /// Subscribes to events of a type that the actor publishes from now on. The actor need not be active: this neither
    /// activates it nor waits for its turn, and the actor does not know.
    ///
    /// Events come in the order of the actor's turns, each when its turn is durable. The subscription lasts until it is
    /// dropped, whatever becomes of the actor: see [`Events`].
    ///
    /// # Errors
    /// `Invalid` for a service, which has no events; `Fatal` once the node has stopped; `Overloaded` if there are too many
    /// subscriptions to actors of the partition.
    fn events<E: Event>(&self) -> Result<Events<E>> {
        self.caller().events()
    }
}

/// An interface that a host can offer. Implemented by `#[interface]` for all hosts whose object implements the trait.
pub trait Offered<H>: Proxy {
    /// The host behind the methods of the interface.
    fn object(host: Arc<H>) -> Arc<Self::Object>;
}

/// An interface whose methods all take `&self`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` belongs to an interface with a method that takes `&mut self`, which a service cannot have",
    label = "this interface has a method that takes `&mut self`",
    note = "calls to a service run beside each other: take `&self` in every method and keep what changes in collections",
    note = "if each call must have the object to itself, it is an actor"
)]
pub trait SharedInterface: Proxy {}
