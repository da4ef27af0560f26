//! Services: objects that own the state of a partition, and the calls that reach them.
//!
//! The path of a call: a proxy, written by `#[interface]`, hands the arguments to its [`Caller`] → the [`Router`] says
//! where the partition is → its [`Slot`] admits the call, waiting while the object is being opened → the object's [`Host`]
//! makes a [`Turn`] of it → the turn is polled on the caller's task and moves to one of its own if it has to wait → the
//! result, or an error that says what happened.
//!
//! The life of an object: [`Directory::serve`] starts a task per partition, which follows the partition's role. Where it is
//! primary, the state is opened, the object is made from it ([`Service::open`]) and shown in the slot, and `run` is
//! started. When the role ends, the slot is emptied first, then `run` is cancelled, then what is left is dropped.
//!
//! This room does not know sockets, configuration files or the cluster. Actors will be another [`Host`] beside that of
//! services, on the same interfaces, proxies and routes.

mod contract;
mod host;
mod proxy;

mod caller;
mod router;
mod slot;
mod turn;

mod context;
mod interfaces;
mod missing_run;
mod opening;
mod service;

mod activation;
mod backoff;
mod directory;
mod lifecycle;
mod run;
mod served;

mod worker;

pub use caller::{CALL_TIMEOUT_DEFAULT, Caller};
pub use context::ServiceContext;
pub use contract::{Contract, Outcome, assert_contract};
pub use directory::{Directory, ServiceType, Serving};
pub use host::{ExclusiveHost, ExclusiveMethod, Host, SharedMethod, Turn};
pub use interfaces::{Interfaces, OfferedInterface};
pub use missing_run::{NoRun, RunFuture, WithoutRun, checked_run};
pub use opening::{Opening, PlainField};
pub use proxy::{Offered, Proxy, SharedInterface};
pub use router::{Address, Route, Router, Services, Wanted};
pub use service::{SERVICE_NAME_BYTES_MAX, Service};
pub use slot::{CALLS_PER_PARTITION_MAX, Slot};
