//! What the macros write. Nobody else is to use it.

pub use mainstay_core::contract::Fingerprinter;
pub use mainstay_core::partitioning::Partitioning;
pub use mainstay_runtime::{
    Actor, ActorCell, ActorOpening, Event, Kept, LifecycleHooks, NoLifecycle, NotRemindable, Probe, RemindHook, Seal,
};
pub use mainstay_runtime::{
    Arguments, Call, Caller, ExclusiveHost, ExclusiveMethod, Interfaces, Method, MethodResult, ObjectHost, Offered,
    Proxy, Service, ServiceContext, ServiceHost, ServiceOpening, SharedInterface, SharedMethod, Start, WithoutRun,
    add_argument, checked_run,
};
pub use mainstay_runtime::{OpenActor, OpenWorker, open_field};
pub use mainstay_runtime::{PoolOptions, Worker, WorkerContext, WorkerOpening, WorkerPool};
