use crate::interfaces::Interfaces;
use crate::open_field::OpenWorker;
use crate::worker::options::PoolOptions;
use crate::worker::worker_pool::WorkerPool;

/// A stateless worker: a pool of instances that grows with the load, each serving one call at a time. Implemented by
/// `#[derive(Worker)]`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a worker",
    label = "this is not a worker",
    note = "add `#[derive(Worker)]` to `{Self}`"
)]
pub trait Worker: Send + Sync + Sized + 'static {
    /// The name, by which callers choose among several workers that implement one interface.
    const NAME: &'static str;

    /// The bounds of its pool.
    fn options() -> PoolOptions;

    /// Lists the interfaces that callers can use.
    fn interfaces(interfaces: &mut Interfaces<WorkerPool<Self>>);

    /// The constructor of an instance. An async one runs in the first call that needs the instance, and not before.
    const OPEN: OpenWorker<Self>;
}
