//! Fields that an async expression of the author initializes when the object is constructed: `#[open(..)]`.

use std::future::Future;
use std::pin::Pin;

use mainstay_core::Result;

use crate::actor::{ActorOpening, Context};
use crate::service::opening::AnyThread;
use crate::worker::context::WorkerContext;
use crate::worker::opening::WorkerOpening;

/// The construction of an object whose fields have to be opened first.
type OpenFuture<'o, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'o>>;

/// The constructor of an actor's object.
pub enum OpenActor<T> {
    /// Synchronous, from the stored state.
    Now(fn(&ActorOpening<'_>) -> Result<T>),
    /// Async, for a type with `#[open(..)]` fields.
    Later(for<'s> fn(ActorOpening<'s>, Context) -> OpenFuture<'s, T>),
}

/// The constructor of a worker's instance.
pub enum OpenWorker<T> {
    /// Synchronous.
    Now(fn(&WorkerOpening<'_>) -> T),
    /// Async, for a type with `#[open(..)]` fields.
    Later(fn(WorkerContext) -> OpenFuture<'static, T>),
}

/// Opens one field; an error names the field.
///
/// # Errors
/// That of the expression.
pub async fn open_field<T, F>(field: &'static str, opening: F) -> Result<T>
where
    T: AnyThread,
    F: Future<Output = Result<T>>,
{
    opening.await.map_err(|error| error.about(format_args!("field `{field}` cannot be opened")))
}
