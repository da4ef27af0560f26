//! What a service reads whose attribute says `run` and that has none. Used by `#[derive(Service)]` alone.

use std::future::Future;

use mainstay_core::Result;

use crate::service::context::ServiceContext;

/// Stands in for a `run` that is missing: a method of the type itself goes before it.
pub trait WithoutRun {
    /// Not what a service runs.
    fn run(&self, context: ServiceContext) -> NoRun;
}

impl<T> WithoutRun for T {
    fn run(&self, context: ServiceContext) -> NoRun {
        drop(context);
        NoRun(())
    }
}

/// What is there instead of a run.
#[derive(Debug)]
pub struct NoRun(());

/// What `run` returns.
#[diagnostic::on_unimplemented(
    message = "the attribute of the service says `run`, and there is no method that fits",
    label = "write `async fn run(&self, ctx: ServiceContext) -> Result<()>`, or remove this",
    note = "`run` takes `&self` and a `ServiceContext`, is async and returns `Result<()>`"
)]
pub trait RunFuture: Future<Output = Result<()>> + Send {}

#[diagnostic::do_not_recommend]
impl<F: Future<Output = Result<()>> + Send> RunFuture for F {}

/// Runs what `run` returned, if it is what it should be.
///
/// # Errors
/// Those of `run`.
pub async fn checked_run<F: RunFuture>(future: F) -> Result<()> {
    future.await
}
