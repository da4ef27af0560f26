//! Fields that are opened by an expression of their author when their object is made: `#[open(..)]`.

use std::future::Future;
use std::pin::Pin;

use mainstay_core::{Error, Result};

use crate::actor::{ActorOpening, Context};
use crate::service::opening::AnyThread;
use crate::worker::context::WorkerContext;
use crate::worker::opening::WorkerOpening;

/// How the object of an actor is made.
pub enum OpenActor<T> {
    /// At once, from what is stored.
    Now(fn(&ActorOpening<'_>) -> Result<T>),
    /// When its fields with `#[open(..)]` were opened.
    Later(for<'s> fn(ActorOpening<'s>, Context) -> Pin<Box<dyn Future<Output = Result<T>> + Send + 's>>),
}

/// How an instance of a worker is made.
pub enum OpenWorker<T> {
    /// At once.
    Now(fn(&WorkerOpening<'_>) -> T),
    /// When its fields with `#[open(..)]` were opened.
    Later(fn(WorkerContext) -> Pin<Box<dyn Future<Output = Result<T>> + Send>>),
}

/// Opens one field, whose name is told if that fails.
///
/// # Errors
/// That of the expression.
pub async fn open_field<T, F>(field: &'static str, opening: F) -> Result<T>
where
    T: AnyThread,
    F: Future<Output = Result<T>>,
{
    opening.await.map_err(|error| {
        Error::new(error.kind(), format!("field `{field}` cannot be opened: {error}")).with_source(error)
    })
}
