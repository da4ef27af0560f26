//! The compile error for a service whose attribute says `run` and that has no such method. Used by `#[derive(Service)]` alone.

use std::future::Future;

use mainstay_core::Result;

use crate::service::context::ServiceContext;

/// A fallback for a missing `run`: an inherent method of the type takes precedence over it.
pub trait WithoutRun {
    /// Returns a type that [`checked_run`] refuses.
    fn run(&self, context: ServiceContext) -> NoRun;
}

impl<T> WithoutRun for T {
    fn run(&self, context: ServiceContext) -> NoRun {
        drop(context);
        NoRun(())
    }
}

/// The return type of the fallback, which is not a future.
#[derive(Debug)]
pub struct NoRun(());

/// The return type of `run`.
#[diagnostic::on_unimplemented(
    message = "the attribute of the service says `run`, and there is no method that fits",
    label = "write `async fn run(&self, ctx: ServiceContext) -> Result<()>`, or remove this",
    note = "`run` takes `&self` and a `ServiceContext`, is async and returns `Result<()>`"
)]
pub trait RunFuture: Future<Output = Result<()>> + Send {}

#[diagnostic::do_not_recommend]
impl<F: Future<Output = Result<()>> + Send> RunFuture for F {}

/// Awaits the future that `run` returned; other return types are a compile error.
///
/// # Errors
/// Those of `run`.
pub async fn checked_run<F: RunFuture>(future: F) -> Result<()> {
    future.await
}
