//! Services and actors: objects that own state, and the calls that reach them.
//!
//! The path of a call: a proxy, written by `#[interface]`, hands the arguments to its [`Caller`] → the [`Router`] resolves the
//! partition → the [`Slot`] of the partition admits the call, once the partition is open → the object's [`ObjectHost`] makes a turn
//! of the call, or puts it into the mailbox → the turn is polled on the caller's task, and moves to a task of its own if it has
//! to wait → the changes of the turn are committed → the reply goes back, or an error that says what happened. A proxy to an
//! actor caches the route and goes to the actor directly.
//!
//! The life of an object: [`Directory::serve`] starts a task per partition, which follows the partition's role. On the
//! primary, the state is opened and published in the slot: one object of a [`Service`], or all actors of an [`Actor`] type
//! whose ids belong to the partition. When the role ends, the slot is emptied first, so that no call can begin, and then the
//! objects are closed.
//!
//! | folder | holds |
//! |---|---|
//! | `call` | proxies, arguments and results, call chains with deadlock detection, the current turn, polling a turn |
//! | `actor` | the API for authors of actors; turns, state and the output gate behind it |
//! | `service` | stateful services: one object per partition |
//! | `observe` | metrics, slow-turn reports and traces of actors |
//! | `remote` | calls between processes: their bytes, retries, exactly-once, and what is received |
//! | `worker` | worker pools: stateless instances without identity, scaled by demand |
//!
//! This room does not know sockets, configuration files or the cluster.

mod actor;
mod call;
mod observe;
mod service;
mod worker;

pub mod metric;

mod directory;
mod interfaces;
mod known_service;
mod open_field;
mod provisions;
mod registered_service;
mod remote;
mod role_follower;
mod router;
mod service_type;
mod slot;

pub use actor::activation::ActorOptions;
pub use actor::cell::ActorCell;
pub use actor::enumeration::{
    ActorInfo, ActorReminder, Actors, Listed, Listing, PAGE_DEFAULT, PAGE_MAX, Page, PageToken,
};
pub use actor::settings::{ActorSettings, ReminderSettings};
pub use actor::{
    Actor, ActorOpening, CONTINUATIONS_PER_ACTOR_MAX, Context, ContinuationMethod, DYNAMIC_NAME_BYTES_MAX,
    DynamicState, DynamicStateMut, Event, EventMethod, Events, Kept, Lifecycle, LifecycleHooks, NoLifecycle,
    NotRemindable, Paged, Probe, Received, Remind, RemindHook, Remindable, Seal, State, StateValue,
    TIMERS_PER_ACTOR_MAX, Timer, TimerMethod, TurnInfo,
};
pub use call::arguments::{ArgumentReader, ArgumentSink, Arguments, add_argument, take_argument, take_argument_or};
pub use call::arrival::{Call, Method};
pub use call::caller::{CALL_TIMEOUT_DEFAULT, Caller};
pub use call::contract::{Contract, MethodResult, Reply};
pub use call::deferred::{Deferred, Responder, deferred};
pub use call::finished::Finished;
pub use call::object_host::{ExclusiveHost, ExclusiveMethod, ObjectHost, Queued, SharedMethod, Start, Turn};
pub use call::proxy::{Offered, Proxy, SharedInterface};
pub use call::wire_call::WireCall;
pub use call::wire_method::WireMethod;
pub use directory::Directory;
pub use interfaces::{Interfaces, OfferedInterface};
pub use known_service::KnownService;
/// The options of a service's collections, re-exported for crates that use services without `mainstay-state`.
pub use mainstay_state::{CommitFault, CommitFaults, StateOptions};
pub use observe::propagation::{TracePropagation, set_trace_propagation};
pub use open_field::{OpenActor, OpenWorker, open_field};
pub use provisions::{Provided, Provisions};
pub use remote::lanes::RemoteSession;
pub use remote::{
    CallReply, CallRequest, INBOUND_CALLS_MAX, Inbound, REQUEST_BYTES_MAX, Redirect, RemoteCalls, RemoteRoute,
};
pub use router::{Address, Route, Router, ServiceQuery, Services};
pub use service::context::ServiceContext;
pub use service::definition::{SERVICE_NAME_BYTES_MAX, Service};
pub use service::host::ServiceHost;
pub use service::missing_run::{NoRun, RunFuture, WithoutRun, checked_run};
pub use service::opening::{AnyThread, PlainField, ServiceOpening};
pub use service_type::{ServiceKind, ServiceType, Serving};
pub use slot::{CALLS_PER_PARTITION_MAX, Slot};
pub use worker::context::WorkerContext;
pub use worker::definition::Worker;
pub use worker::handle::{WorkerHandle, WorkerType};
pub use worker::opening::WorkerOpening;
pub use worker::options::{
    PoolOptions, WORKER_CALLS_WAITING_MAX_DEFAULT, WORKER_IDLE_TIME_DEFAULT, WORKERS_MAX_DEFAULT, WORKERS_MIN_DEFAULT,
};
pub use worker::worker_pool::WorkerPool;
