//! The current turn: a thread-local that is set while a turn is polled, and so is right for all code that the turn calls.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use mainstay_core::time::Instant;
use mainstay_core::{Error, Result};
use mainstay_state::actor::ActorWrites;
use mainstay_state::{EpochLease, TransactionId};

use crate::actor::actor_shared::ActorShared;
use crate::actor::gate::{Hold, Output};
use crate::call::arrival::{Deadline, Method};
use crate::call::chain::{CHAIN_MAX, CallWaitGuard, Chain, HeldResource, Link};
use crate::call::foreign_runtime::ForeignCall;
use crate::call::idempotency::CallKey;
use crate::call::transactions::{TRANSACTIONS_KNOWN_MAX, TransactionTable, TurnTransaction};
use crate::observe::trace::Trace;

thread_local! {
    static CURRENT: RefCell<Option<Box<Current>>> = const { RefCell::new(None) };
    /// The box of an ended turn, reused by the next call on this thread.
    static SPARE: Cell<Option<Box<Current>>> = const { Cell::new(None) };
}

/// A [call](crate::call::arrival::Call) and the turn that it becomes. It is boxed, because it moves from the call to the
/// turn and is swapped into the thread-local at every poll.
pub(crate) struct Current {
    pub(crate) method: &'static Method,
    /// The chain of turns in which the call was made, if there is one.
    pub(crate) chain: Option<Chain>,
    pub(crate) deadline: Deadline,
    /// The arrival time, if the call is in the sample that is measured.
    pub(crate) arrived: Option<Instant>,
    /// The idempotency key, by which a repeated call is recognized.
    pub(crate) key: Option<Arc<CallKey>>,
    /// The tracing span.
    pub(crate) trace: Trace,
    /// The actor of the turn; `None` for a turn of a service or a worker, and before the turn begins.
    pub(crate) shared: Option<Arc<ActorShared>>,
    /// The resource of a service's or a worker's turn.
    pub(crate) resource: Option<Arc<dyn HeldResource>>,
    /// The node of the wait-for graph, once the turn makes a call.
    link: Option<Arc<Link>>,
    /// The most recent transactions of the turn.
    transactions: Vec<TurnTransaction>,
    /// The changes of the turn beside the fields of its actor.
    pub(crate) writes: Option<Box<ActorWrites>>,
    /// The effects that leave once the turn is durable.
    pub(crate) outputs: Vec<Output>,
    /// The generation of the actor's state that the turn sees: the number of failed commits before it was read.
    pub(crate) generation: u64,
    pub(crate) kind: TurnKind,
    /// True if fields have handed over changes that are not submitted: if the turn fails, these fields are reloaded from
    /// the store.
    pub(crate) has_handed_over: bool,
    /// True if the turn has done something that stays, whatever becomes of the rest: it has called others, or has committed.
    pub(crate) has_effects: bool,
}

/// The access of a turn to its actor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum TurnKind {
    /// Exclusive access.
    #[default]
    Exclusive,
    /// Shared access: other shared turns run concurrently.
    Shared,
    /// The actor is being activated.
    Activation,
    /// The actor is being deactivated, and its state must not change.
    Deactivation,
}

impl Current {
    /// A new call.
    #[inline]
    pub(crate) fn new(method: &'static Method, deadline: Deadline) -> Box<Self> {
        let mut current = SPARE.take().unwrap_or_else(|| Self::blank(method));
        current.method = method;
        current.deadline = deadline;
        current
    }

    #[cold]
    fn blank(method: &'static Method) -> Box<Self> {
        Box::new(Self {
            method,
            chain: None,
            deadline: Deadline::never(),
            arrived: None,
            key: None,
            trace: Trace::default(),
            shared: None,
            resource: None,
            link: None,
            transactions: Vec::new(),
            writes: None,
            outputs: Vec::new(),
            generation: 0,
            kind: TurnKind::Exclusive,
            has_handed_over: false,
            has_effects: false,
        })
    }

    /// Begins a turn of an actor whose state is of this generation.
    #[inline]
    pub(crate) fn begin(&mut self, shared: Arc<ActorShared>, kind: TurnKind, generation: u64) {
        self.shared = Some(shared);
        self.kind = kind;
        self.generation = generation;
    }

    /// The turn as a node of the wait-for graph; `None` for a turn that holds no resource.
    fn as_link(&mut self) -> Option<Arc<Link>> {
        if self.link.is_none() {
            let resource =
                self.shared.clone().map(|shared| shared as Arc<dyn HeldResource>).or_else(|| self.resource.clone())?;
            self.link = Some(Link::new(resource, self.method.name(), self.chain.clone()));
        }
        if let Some(link) = &self.link {
            self.transactions.iter().for_each(|begun| begun.waits(link));
        }
        self.link.clone()
    }

    /// True if the call needs nothing beside its method: no idempotency key, no span, no measurement.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.key.is_none() && self.trace.is_none() && self.arrived.is_none()
    }

    /// True if the turn has changed nothing but fields of its actor, and has no outputs.
    #[inline]
    pub(crate) fn is_quiet(&self) -> bool {
        self.writes.is_none() && self.outputs.is_empty()
    }

    /// Fixes the deadline of a call that is queued: it counts from the call and not from the start of the turn.
    pub(crate) fn count_deadline(&mut self) {
        let _ = self.deadline.moment();
    }

    /// Takes the span out, to be entered while a part of the turn runs.
    pub(crate) fn take_trace(current: &mut Option<Box<Self>>) -> Trace {
        current.as_mut().map(|current| std::mem::take(&mut current.trace)).unwrap_or_default()
    }

    /// Ends the turn. Returns its changes, its outputs and its actor.
    pub(crate) fn end(mut self: Box<Self>) -> EndedTurn {
        let (writes, outputs, generation) = (self.writes.take(), std::mem::take(&mut self.outputs), self.generation);
        let (key, has_handed_over) = (self.key.take(), std::mem::take(&mut self.has_handed_over));
        let has_effects = self.has_effects;
        EndedTurn { shared: self.end_quietly(), writes, outputs, generation, key, has_handed_over, has_effects }
    }

    /// Ends a turn that [is quiet](Current::is_quiet). Returns its actor.
    #[inline]
    pub(crate) fn end_quietly(mut self: Box<Self>) -> Option<Arc<ActorShared>> {
        if let Some(link) = self.link.take() {
            link.end();
        }
        if self.chain.is_some() {
            self.chain = None;
        }
        if self.resource.is_some() {
            self.resource = None;
        }
        if !self.transactions.is_empty() {
            self.transactions.drain(..).for_each(|begun| begun.end());
        }
        if !self.trace.is_none() {
            self.trace = Trace::default();
        }
        if self.key.is_some() {
            self.key = None;
        }
        self.has_effects = false;
        let shared = self.shared.take();
        // An error means that the thread is ending, and the box is just dropped.
        let _ = SPARE.try_with(|spare| spare.set(Some(self)));
        shared
    }

    /// Runs a part of the turn with the turn as the current one.
    #[inline]
    pub(crate) fn within<T>(slot: &mut Option<Box<Self>>, work: impl FnOnce() -> T) -> T {
        /// Restores the outer turn, also when the work panics.
        struct Back<'s> {
            slot: &'s mut Option<Box<Current>>,
            outer: Option<Box<Current>>,
        }
        impl Drop for Back<'_> {
            fn drop(&mut self) {
                *self.slot = swap(self.outer.take());
            }
        }
        let outer = swap(slot.take());
        let _back = Back { slot, outer };
        work()
    }
}

/// Replaces the current turn of this thread.
#[inline(always)]
fn swap(next: Option<Box<Current>>) -> Option<Box<Current>> {
    CURRENT.with(|current| std::mem::replace(&mut *current.borrow_mut(), next))
}

/// The results of an ended turn.
#[derive(Default)]
pub(crate) struct EndedTurn {
    pub(crate) shared: Option<Arc<ActorShared>>,
    pub(crate) writes: Option<Box<ActorWrites>>,
    pub(crate) outputs: Vec<Output>,
    pub(crate) generation: u64,
    pub(crate) key: Option<Arc<CallKey>>,
    pub(crate) has_handed_over: bool,
    pub(crate) has_effects: bool,
}

impl Drop for Current {
    fn drop(&mut self) {
        if let Some(link) = &self.link {
            link.end();
        }
        self.transactions.iter().for_each(TurnTransaction::end);
    }
}

/// The context that an outgoing call carries.
#[derive(Default)]
pub(crate) struct Outgoing {
    /// The edge of the wait-for graph from the enclosing turn.
    pub(crate) awaiting: Option<CallWaitGuard>,
    pub(crate) at_most: Option<Instant>,
    /// The commits that the call waits for: a call is an output of the turns before it.
    pub(crate) hold: Option<Hold>,
    /// The idempotency key.
    pub(crate) key: Option<Arc<CallKey>>,
    /// The record of the caller on another runtime, which is told when the call is queued.
    pub(crate) foreign_call: Option<Arc<ForeignCall>>,
    /// Whether the reply comes from a later turn of the callee.
    pub(crate) answers_later: bool,
}

/// True if the code on this thread is part of a turn.
#[inline]
pub(crate) fn is_in_turn() -> bool {
    CURRENT.with_borrow(Option::is_some)
}

/// The context for a call that is made here.
///
/// # Errors
/// `Conflict` if the chain has become too long.
pub(crate) fn outgoing() -> Result<Outgoing> {
    CURRENT.with_borrow_mut(|current| {
        let Some(current) = current else { return Ok(Outgoing::default()) };
        current.has_effects = true;
        let link = current.as_link();
        if let Some(chain) = &link
            && chain.depth() > CHAIN_MAX
        {
            return Err(Error::new(
                mainstay_core::ErrorKind::Conflict,
                format!(
                    "call refused: its chain has more than CHAIN_MAX = {CHAIN_MAX} turns ({}): let a turn end before the next call",
                    chain.ends()
                ),
            ));
        }
        let hold = current.shared.as_ref().and_then(|shared| shared.gate.hold(shared, current.generation));
        Ok(Outgoing {
            awaiting: link.map(|link| link.awaits()),
            at_most: current.deadline.moment(),
            hold,
            key: None,
            foreign_call: None,
            answers_later: false,
        })
    })
}

/// Registers a transaction that begins in this turn.
pub(crate) fn begin_transaction(turns: &Arc<TransactionTable>, transaction: TransactionId) {
    CURRENT.with_borrow_mut(|current| {
        let Some(current) = current else { return };
        if current.transactions.len() >= TRANSACTIONS_KNOWN_MAX {
            current.transactions.remove(0).end();
        }
        current.transactions.push(TurnTransaction { turns: turns.clone(), transaction });
    });
}

/// Adds an edge from this turn to a resource that is not called, such as a lock, until the guard is dropped; `None` outside
/// of a turn.
///
/// # Errors
/// `Conflict` if the edge would close a cycle.
pub(crate) fn wait_for(
    resource: impl FnOnce(&Arc<Link>) -> Arc<dyn HeldResource>,
) -> Result<Option<(CallWaitGuard, Arc<dyn HeldResource>)>> {
    CURRENT.with_borrow_mut(|current| {
        let Some(link) = current.as_mut().and_then(|current| current.as_link()) else { return Ok(None) };
        let (awaiting, resource) = (link.awaits(), resource(&link));
        awaiting.chain().wait_for(resource.clone(), None)?;
        Ok(Some((awaiting, resource)))
    })
}

/// Runs an output once the turn is durable; at once outside of an actor's turn.
pub(crate) fn leave(output: impl FnOnce(Result<()>) + Send + 'static) {
    let mut output = Some(output);
    CURRENT.with_borrow_mut(|current| {
        // Services and workers have no output gate.
        if let Some(current) = current
            && current.shared.is_some()
            && let Some(output) = output.take()
        {
            current.outputs.push(Box::new(output));
        }
    });
    if let Some(output) = output {
        output(Ok(()));
    }
}

/// The actor of the current turn.
pub(crate) fn shared() -> Option<Arc<ActorShared>> {
    CURRENT.with_borrow(|current| current.as_ref().and_then(|current| current.shared.clone()))
}

/// The lease without which the current turn gives no answer.
pub(crate) fn lease() -> Option<EpochLease> {
    CURRENT.with_borrow(|current| {
        let current = current.as_ref()?;
        match (&current.shared, &current.resource) {
            (Some(shared), _) => shared.partition.lease.clone(),
            (None, resource) => resource.as_ref()?.lease().cloned(),
        }
    })
}

/// Notes that the current turn has done something that stays, or may have.
pub(crate) fn note_effects() {
    CURRENT.with_borrow_mut(|current| {
        if let Some(current) = current {
            current.has_effects = true;
        }
    });
}

/// The generation of the state that the current turn sees.
pub(crate) fn generation() -> u64 {
    CURRENT.with_borrow(|current| current.as_ref().map_or(0, |current| current.generation))
}

/// Sets the generation of the current turn to the newest, after its state was reloaded.
pub(crate) fn refresh() {
    CURRENT.with_borrow_mut(|current| {
        if let Some(current) = current
            && let Some(shared) = &current.shared
        {
            current.generation = shared.gate.generation();
        }
    });
}

/// Adds changes to the writes of the current turn.
///
/// # Errors
/// `Invalid` outside of a turn, and the errors of the change itself.
pub(crate) fn change<R>(change: impl FnOnce(&mut ActorWrites) -> Result<R>) -> Result<R> {
    CURRENT.with_borrow_mut(|current| {
        let Some(current) = current else { return Err(not_in_turn()) };
        let Some(shared) = &current.shared else { return Err(not_in_turn()) };
        if current.kind == TurnKind::Deactivation {
            return Err(leaving(shared));
        }
        change(current.writes.get_or_insert_with(|| Box::new(ActorWrites::new(shared.id.clone()))))
    })
}

/// Reads the changes of the current turn so far, beside the fields of its actor.
pub(crate) fn changed<R>(look: impl FnOnce(&ActorWrites) -> Option<R>) -> Option<R> {
    CURRENT.with_borrow(|current| look(current.as_ref()?.writes.as_deref()?))
}

/// Takes the changes so far beside the fields of the actor, for a save within a turn.
pub(crate) fn take_writes() -> Option<Box<ActorWrites>> {
    CURRENT.with_borrow_mut(|current| current.as_mut()?.writes.take())
}

/// Returns the changes that a save took and did not submit, ahead of the changes made since. If the current turn is not one
/// of this actor, the object was lost, and the changes with it.
pub(crate) fn give_back(shared: &Arc<ActorShared>, writes: Option<Box<ActorWrites>>, outputs: Vec<Output>) {
    CURRENT.with_borrow_mut(|current| {
        let is_own = |current: &&mut Box<Current>| current.shared.as_ref().is_some_and(|own| Arc::ptr_eq(own, shared));
        let Some(current) = current.as_mut().filter(is_own) else { return };
        let later = std::mem::replace(&mut current.outputs, outputs);
        current.outputs.extend(later);
        let Some(mut writes) = writes else { return };
        current.has_handed_over = true;
        if let Some(later) = current.writes.take()
            && let Err(error) = writes.merge(*later)
        {
            // Writes that cannot be merged must not be stored in part: this generation makes the whole turn fail.
            tracing::warn!(actor = %shared, ?error, "a save was cancelled, and its changes cannot be merged with later ones: the turn is rolled back");
            current.generation = u64::MAX;
        }
        current.writes = Some(writes);
    });
}

/// The kind of the current turn of an actor.
pub(crate) fn kind() -> Option<TurnKind> {
    CURRENT
        .with_borrow(|current| current.as_ref().filter(|current| current.shared.is_some()).map(|current| current.kind))
}

/// The error for a change during deactivation.
pub(crate) fn leaving(shared: &ActorShared) -> Error {
    Error::invalid(format!(
        "{shared} is being deactivated, and its state cannot change any more: change and save it in an earlier turn"
    ))
}

fn not_in_turn() -> Error {
    Error::invalid("this is possible only in a turn of the actor: call it from a method, a timer or a reminder")
}

/// Takes the outputs so far, for a save within a turn.
pub(crate) fn take_outputs() -> Vec<Output> {
    CURRENT.with_borrow_mut(|current| {
        current.as_mut().map(|current| std::mem::take(&mut current.outputs)).unwrap_or_default()
    })
}
