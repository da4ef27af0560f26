use std::any::type_name;
use std::future::Future;
use std::sync::Arc;

use mainstay_core::{Error, ErrorKind, Result};

use crate::actor::activation_tasks::{Ending, TaskTable};
use crate::actor::actor_shared::ActorShared;
use crate::actor::cell::ActorCell;
use crate::actor::internal::run_turn;
use crate::actor::keep_alive::KeepAlive;
use crate::actor::{Actor, Context};
use crate::call::arrival::{Method, TurnSource};
use crate::call::current;
use crate::call::turn::catching;

/// How many continuations an actor may wait for at a time. Each is a task.
pub const CONTINUATIONS_PER_ACTOR_MAX: usize = 256;

static THEN: Method = Method::own("then", TurnSource::Continuation);

/// What an actor does with what it has waited for: an async method that takes it, or an async closure that is given the
/// actor and it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not what `{T}` can do with a `{O}`",
    label = "this is not an async method of `{T}` that takes a `{O}`",
    note = "pass `{T}::method` for an `async fn method(&mut self, output: {O}) -> Result<()>`, or \
            `async move |actor: &mut {T}, output: {O}| {{ .. Ok(()) }}`, whose future can be sent to other threads"
)]
pub trait ContinuationMethod<'a, T: 'a, O>: Send {
    /// What it takes to run it.
    type Running: Future<Output = Result<()>> + Send + 'a;

    /// Runs it.
    fn run(self, actor: &'a mut T, output: O) -> Self::Running;
}

impl<'a, T: 'a, O, F, Running> ContinuationMethod<'a, T, O> for F
where
    F: FnOnce(&'a mut T, O) -> Running + Send,
    Running: Future<Output = Result<()>> + Send + 'a,
{
    type Running = Running;

    fn run(self, actor: &'a mut T, output: O) -> Running {
        self(actor, output)
    }
}

impl Context {
    /// Waits for something outside of the turns of this actor, which is free meanwhile, and then runs a method with what
    /// came of it, as an exclusive turn.
    ///
    /// The future is begun when what this turn has changed is durable, and not at all if the turn fails. It belongs to the
    /// activation: it is dropped, and the method does not run, when the actor is deactivated or reset. An error of the
    /// method is logged. An actor that waits like this is in use, and is not collected as an idle one.
    ///
    /// # Errors
    /// `Invalid` if `T` is not the type of this actor; `Overloaded` if it waits for [`CONTINUATIONS_PER_ACTOR_MAX`] already.
    pub fn then<T, O, W, F>(&self, future: W, method: F) -> Result<()>
    where
        T: Actor,
        O: Send + 'static,
        W: Future<Output = O> + Send + 'static,
        F: for<'a> ContinuationMethod<'a, T, O> + 'static,
    {
        let shared = &self.shared;
        if shared.cell::<ActorCell<T>>().is_none() {
            shared.partition.check_attached(format_args!("a continuation of {shared}"))?;
            let strange = type_name::<T>();
            return Err(Error::invalid(format!(
                "a continuation of {shared} is for {strange}, which that is not: pass a method of the actor that waits"
            )));
        }
        let (ending, plans) = (Arc::<Ending>::default(), self.stay.plans().clone());
        let number = plans
            .add_continuation(&ending)
            .map_err(|error| error.about(format_args!("a continuation of {shared} cannot begin")))?;
        let entry = Entry { plans, number, _engagement: KeepAlive::new(shared.clone()) };
        let begun = shared.clone();
        current::leave(move |turn| {
            if turn.is_ok() && !ending.is_over() {
                let scope = begun.partition.scope.clone();
                drop(scope.spawn(carry_on(begun, entry, ending, future, method)));
            }
        });
        Ok(())
    }
}

/// A continuation among those of its actor, until it ends in whatever way.
struct Entry {
    plans: Arc<TaskTable>,
    number: u64,
    _engagement: KeepAlive,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.plans.forget_continuation(self.number);
    }
}

async fn carry_on<T, O, W, F>(shared: Arc<ActorShared>, entry: Entry, ending: Arc<Ending>, future: W, method: F)
where
    T: Actor,
    O: Send + 'static,
    W: Future<Output = O> + Send + 'static,
    F: for<'a> ContinuationMethod<'a, T, O> + 'static,
{
    let waited = tokio::select! {
        biased;
        () = ending.ended() => return,
        waited = catching("a continuation", async { Ok(future.await) }) => waited,
    };
    let output = match waited {
        Ok(output) => output,
        Err(error) => return tracing::error!(actor = %shared, ?error, "what an actor has waited for has panicked"),
    };
    let Some(cell) = shared.cell::<ActorCell<T>>() else { return };
    // It belongs to an activation, and so not to one that is yet to be.
    cell.shed();
    if ending.is_over() {
        return;
    }
    let over = ending.clone();
    let result = run_turn(&cell, &THEN, move |actor: &mut T| {
        Box::pin(async move { if over.is_over() { Ok(()) } else { method.run(actor, output).await } })
    })
    .await;
    drop(entry);
    let Err(error) = result else { return };
    let has_left = ending.is_over()
        && matches!(error.kind(), ErrorKind::Retry | ErrorKind::NotFound | ErrorKind::NotPrimary { .. });
    if !has_left {
        tracing::warn!(actor = %shared, ?error, "a continuation has failed");
    }
}
