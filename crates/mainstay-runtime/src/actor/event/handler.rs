use std::future::Future;

use mainstay_core::Result;

use crate::actor::event::received::Received;

/// What an actor does with the events that it listens to: an async method that takes one, or an async closure that is given the
/// actor and one. What a closure captures is cloned for each event.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not what `{T}` can do with a `Received<{E}>`",
    label = "this is not an async method of `{T}` that takes a `Received<{E}>`",
    note = "pass `{T}::method` for an `async fn method(&mut self, event: Received<{E}>) -> Result<()>`, or \
            `async |actor: &mut {T}, event: Received<{E}>| {{ .. Ok(()) }}`, whose future can be sent to other threads"
)]
pub trait EventMethod<'a, T: 'a, E>: Clone + Send {
    /// What it takes to run it.
    type Running: Future<Output = Result<()>> + Send + 'a;

    /// Runs it.
    fn run(self, actor: &'a mut T, event: Received<E>) -> Self::Running;
}

impl<'a, T: 'a, E, F, Running> EventMethod<'a, T, E> for F
where
    F: FnOnce(&'a mut T, Received<E>) -> Running + Clone + Send,
    Running: Future<Output = Result<()>> + Send + 'a,
{
    type Running = Running;

    fn run(self, actor: &'a mut T, event: Received<E>) -> Running {
        self(actor, event)
    }
}
