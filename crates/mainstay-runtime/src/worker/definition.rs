use crate::interfaces::Interfaces;
use crate::opened::OpenWorker;
use crate::worker::host::WorkerPool;
use crate::worker::options::PoolOptions;

/// A stateless worker: as many instances as there is work for, each with one call at a time. Implemented by
/// `#[derive(Worker)]`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a worker",
    label = "this is not a worker",
    note = "add `#[derive(Worker)]` to `{Self}`"
)]
pub trait Worker: Send + Sync + Sized + 'static {
    /// Its name, by which it can be called where several implement one interface.
    const NAME: &'static str;

    /// Between which bounds its pool grows and shrinks.
    fn options() -> PoolOptions;

    /// Lists the interfaces that it can be called by.
    fn interfaces(interfaces: &mut Interfaces<WorkerPool<Self>>);

    /// How an instance is made. One that is made later is so by the first call that needs it, and not before.
    const OPEN: OpenWorker<Self>;
}
