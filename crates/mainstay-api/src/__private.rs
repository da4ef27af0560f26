//! What the macros write. Nobody else is to use it.

pub use mainstay_core::partitioning::Partitioning;
pub use mainstay_runtime::{
    Actor, ActorCell, ActorOpening, Event, Kept, LifecycleHooks, NoLifecycle, NotRemindable, Probe, RemindHook, Seal,
};
pub use mainstay_runtime::{
    ArgumentReader, ArgumentSink, Arguments, Call, Caller, ExclusiveHost, ExclusiveMethod, Interfaces, Method,
    MethodResult, ObjectHost, Offered, Proxy, Service, ServiceContext, ServiceHost, ServiceOpening, SharedInterface,
    SharedMethod, Start, WireMethod, WithoutRun, add_argument, checked_run, take_argument, take_argument_or,
};
pub use mainstay_runtime::{OpenActor, OpenWorker, open_field};
pub use mainstay_runtime::{PoolOptions, Worker, WorkerContext, WorkerOpening, WorkerPool};
