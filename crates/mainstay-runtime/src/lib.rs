//! Services and actors: objects that own state, and the calls that reach them.
//!
//! The path of a call: a proxy, written by `#[interface]`, hands the arguments to its [`Caller`] → the [`Router`] says
//! where the partition is → its [`Slot`] waits while the partition is being opened → the object's [`Host`] admits the call
//! and makes a turn of it, or lets it wait in line → the turn is polled on the caller's task and moves to one of its
//! own if it has to wait → what it changed is committed → the result, or an error that says what happened. A proxy to an
//! actor remembers where the actor is, and goes there directly.
//!
//! The life of an object: [`Directory::serve`] starts a task per partition, which follows the partition's role. Where it is
//! primary, the state is opened and shown in the slot: one object of a [`Service`], or all actors of an [`Actor`] type
//! whose ids belong there. When the role ends, the slot is emptied first, and then what is left is ended.
//!
//! | folder | holds |
//! |---|---|
//! | `call` | proxies, arguments and results, call chains, the current turn, carrying a turn out |
//! | `actor` | what authors of actors use, and the turns, state and output gate behind it |
//! | `service` | stateful services: one object per partition |
//! | `observe` | what is counted, timed, reported and traced of actors |
//! | `worker` | worker pools: instances without state or identity, as many as there is work for |
//!
//! This room does not know sockets, configuration files or the cluster.

mod actor;
mod call;
mod observe;
mod service;
mod worker;

pub mod metric;

mod backoff;
mod directory;
mod interfaces;
mod lifecycle;
mod opened;
mod provisions;
mod router;
mod slot;

pub use actor::activation::ActorOptions;
pub use actor::cell::ActorCell;
pub use actor::enumeration::{
    ActorInfo, ActorReminder, Actors, Continuation, Listed, Listing, PAGE_DEFAULT, PAGE_MAX, Page,
};
pub use actor::settings::{ActorSettings, ReminderSettings};
pub use actor::{
    Actor, ActorOpening, CONTINUATIONS_PER_ACTOR_MAX, Context, ContinuationMethod, DYNAMIC_NAME_BYTES_MAX,
    DynamicState, DynamicStateMut, Event, EventMethod, Events, Kept, Lifecycle, LifecycleHooks, NoLifecycle,
    NotRemindable, Paged, Probe, Received, Remind, RemindHook, Remindable, Seal, State, StateValue,
    TIMERS_PER_ACTOR_MAX, Timer, TimerMethod, TurnInfo,
};
pub use call::arrival::{Call, Method};
pub use call::caller::{CALL_TIMEOUT_DEFAULT, Caller};
pub use call::contract::{Contract, Outcome, Reply};
pub use call::deferred::{Deferred, Responder, deferred};
pub use call::finished::Finished;
pub use call::host::{ExclusiveHost, ExclusiveMethod, Host, Queued, SharedMethod, Start, Turn};
pub use call::idempotency::{Arguments, add_argument};
pub use call::proxy::{Offered, Proxy, SharedInterface};
pub use directory::{Directory, ServiceKind, ServiceType, Serving};
pub use interfaces::{Interfaces, OfferedInterface};
/// How the collections of a service are kept; here for those who see services and no state.
pub use mainstay_state::{CommitFault, CommitFaults, StateOptions};
pub use opened::{OpenActor, OpenWorker, open_field};
pub use provisions::{Provided, Provisions};
pub use router::{Address, Route, Router, Services, Wanted};
pub use service::context::ServiceContext;
pub use service::definition::{SERVICE_NAME_BYTES_MAX, Service};
pub use service::missing_run::{NoRun, RunFuture, WithoutRun, checked_run};
pub use service::opening::{AnyThread, Opening, PlainField};
pub use service::served::Served;
pub use slot::{CALLS_PER_PARTITION_MAX, Slot};
pub use worker::context::WorkerContext;
pub use worker::definition::Worker;
pub use worker::desk::{Desk, WorkerType};
pub use worker::host::WorkerPool;
pub use worker::opening::WorkerOpening;
pub use worker::options::{
    PoolOptions, WORKER_CALLS_WAITING_MAX_DEFAULT, WORKER_IDLE_TIME_DEFAULT, WORKERS_MAX_DEFAULT, WORKERS_MIN_DEFAULT,
};
