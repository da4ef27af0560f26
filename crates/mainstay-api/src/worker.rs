//! Pools of stateless workers.

/// The derive macro and the trait that it implements go by one name.
pub use mainstay_macros::Worker;
pub use mainstay_runtime::{PoolOptions, Worker, WorkerContext};
pub use mainstay_runtime::{
    WORKER_CALLS_WAITING_MAX_DEFAULT, WORKER_IDLE_TIME_DEFAULT, WORKERS_MAX_DEFAULT, WORKERS_MIN_DEFAULT,
};
