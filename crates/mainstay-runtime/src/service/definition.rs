use std::future::Future;

use mainstay_core::partitioning::Partitioning;
use mainstay_core::{Error, Level, Result};

use crate::interfaces::Interfaces;
use crate::service::context::ServiceContext;
use crate::service::host::ServiceHost;
use crate::service::opening::ServiceOpening;

/// The maximum length of a service's name.
pub const SERVICE_NAME_BYTES_MAX: usize = 256;

/// A stateful service: one object per partition, alive where the partition is primary. Implemented by
/// `#[derive(Service)]`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a service",
    label = "this is not a service",
    note = "add `#[derive(Service)]` to `{Self}`"
)]
pub trait Service: Send + Sync + Sized + 'static {
    /// The name under which the service's data is stored.
    const NAME: &'static str;

    /// The level of its partitions.
    const LEVEL: Level;

    /// True if [`execute`](Service::execute) has to be called.
    const RUNS: bool = false;

    /// The names of the collections that are fields.
    const COLLECTIONS: &'static [&'static str] = &[];

    /// Its partitions.
    fn partitioning() -> Partitioning;

    /// Lists the interfaces that callers can use.
    fn interfaces(interfaces: &mut Interfaces<ServiceHost<Self>>);

    /// Constructs the object of a partition when this node has become its primary.
    ///
    /// # Errors
    /// The error of a collection that cannot be opened.
    fn open(opening: &mut ServiceOpening<'_>) -> impl Future<Output = Result<Self>> + Send;

    /// The background work of the partition while this node is primary.
    ///
    /// # Errors
    /// An error is logged, and `execute` is called again after a backoff.
    fn execute(&self, context: ServiceContext) -> impl Future<Output = Result<()>> + Send {
        drop(context);
        async { Ok(()) }
    }
}

/// Refuses names that cannot be stored.
pub(crate) fn check_name(name: &str) -> Result<()> {
    if name.is_empty() || name.len() > SERVICE_NAME_BYTES_MAX {
        return Err(Error::invalid(format!(
            "service name {name:?} has {} bytes: use a name of 1 to SERVICE_NAME_BYTES_MAX = {SERVICE_NAME_BYTES_MAX}",
            name.len()
        )));
    }
    Ok(())
}
