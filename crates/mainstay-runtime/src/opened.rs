//! Fields that are opened by an expression of their author when their object is made: `#[open(..)]`.

use std::future::Future;
use std::pin::Pin;

use mainstay_core::Result;

use crate::actor::{ActorOpening, Context};
use crate::service::opening::AnyThread;
use crate::worker::context::WorkerContext;
use crate::worker::opening::WorkerOpening;

/// An object that is made when its fields were opened.
type Opening<'o, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'o>>;

/// How the object of an actor is made.
pub enum OpenActor<T> {
    /// At once, from what is stored.
    Now(fn(&ActorOpening<'_>) -> Result<T>),
    /// When its fields with `#[open(..)]` were opened.
    Later(for<'s> fn(ActorOpening<'s>, Context) -> Opening<'s, T>),
}

/// How an instance of a worker is made.
pub enum OpenWorker<T> {
    /// At once.
    Now(fn(&WorkerOpening<'_>) -> T),
    /// When its fields with `#[open(..)]` were opened.
    Later(fn(WorkerContext) -> Opening<'static, T>),
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
    opening.await.map_err(|error| error.about(format_args!("field `{field}` cannot be opened")))
}
