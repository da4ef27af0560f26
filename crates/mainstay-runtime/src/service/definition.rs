use std::future::Future;

use mainstay_core::partitioning::Partitioning;
use mainstay_core::{Error, Level, Result};

use crate::interfaces::Interfaces;
use crate::service::context::ServiceContext;
use crate::service::opening::Opening;
use crate::service::served::Served;

/// The longest name of a service.
pub const SERVICE_NAME_BYTES_MAX: usize = 256;

/// A stateful service: one object per partition, alive where the partition is primary. Implemented by
/// `#[derive(Service)]`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a service",
    label = "this is not a service",
    note = "add `#[derive(Service)]` to `{Self}`"
)]
pub trait Service: Send + Sync + Sized + 'static {
    /// Its name, by which it is recorded with its data.
    const NAME: &'static str;

    /// How the state of its partitions is kept.
    const LEVEL: Level;

    /// True if [`execute`](Service::execute) is to be called.
    const RUNS: bool = false;

    /// The names of the collections that are fields of it.
    const COLLECTIONS: &'static [&'static str] = &[];

    /// How it is cut into partitions.
    fn partitioning() -> Partitioning;

    /// Lists the interfaces that it can be called by.
    fn interfaces(interfaces: &mut Interfaces<Served<Self>>);

    /// Makes the object of a partition that has become primary here.
    ///
    /// # Errors
    /// Whatever keeps a collection from being opened.
    fn open(opening: &mut Opening<'_>) -> impl Future<Output = Result<Self>> + Send;

    /// What the partition does by itself while it is primary here.
    ///
    /// # Errors
    /// An error is reported, and `execute` is called again after a while.
    fn execute(&self, context: ServiceContext) -> impl Future<Output = Result<()>> + Send {
        drop(context);
        async { Ok(()) }
    }
}

/// Refuses names that cannot be recorded.
pub(crate) fn check_name(name: &str) -> Result<()> {
    if name.is_empty() || name.len() > SERVICE_NAME_BYTES_MAX {
        return Err(Error::invalid(format!(
            "service name {name:?} has {} bytes: a name has 1 to {SERVICE_NAME_BYTES_MAX}",
            name.len()
        )));
    }
    Ok(())
}
