//! The turn that the code on this thread is part of. Set while a turn is polled, and so right for whatever it calls.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use mainstay_core::time::Instant;
use mainstay_core::{Error, Result};
use mainstay_state::TransactionId;
use mainstay_state::actor::ActorWrites;

use crate::actor::gate::{Hold, Output};
use crate::actor::site::Site;
use crate::call::arrival::{Deadline, Method};
use crate::call::chain::{Awaiting, CHAIN_MAX, Chain, Line, Link};
use crate::call::elsewhere::Elsewhere;
use crate::call::idempotency::CallKey;
use crate::call::transactions::{Begun, TRANSACTIONS_KNOWN_MAX, Turns};
use crate::observe::trace::Trace;

thread_local! {
    static CURRENT: RefCell<Option<Box<Current>>> = const { RefCell::new(None) };
    /// One that has ended, for the next call on this thread.
    static SPARE: Cell<Option<Box<Current>>> = const { Cell::new(None) };
}

/// A [call](crate::call::arrival::Call) and the turn that it becomes. It is handed from one to the next, and swapped in and
/// out with every poll, and so lives in a box.
pub(crate) struct Current {
    pub(crate) method: &'static Method,
    /// What led to it: the turns in which it was made, if it was made in one.
    pub(crate) chain: Option<Chain>,
    pub(crate) deadline: Deadline,
    /// When it arrived, if it is one of those that are measured.
    pub(crate) arrived: Option<Instant>,
    /// What makes a repeated call the same one.
    pub(crate) key: Option<Arc<CallKey>>,
    /// What it is traced by.
    pub(crate) trace: Trace,
    /// The actor whose turn it is; `None` for that of a service or a worker, and before it has one.
    pub(crate) site: Option<Arc<Site>>,
    /// What it holds, or runs in, if it is a turn of a service or a worker.
    pub(crate) line: Option<Arc<dyn Line>>,
    /// The turn itself as part of the chain, once it makes a call.
    link: Option<Arc<Link>>,
    /// The transactions that it has begun, the last ones.
    transactions: Vec<Begun>,
    /// What it changes beside the fields of its actor.
    pub(crate) writes: Option<Box<ActorWrites>>,
    /// What leaves when it is durable.
    pub(crate) outputs: Vec<Output>,
    /// How many commits of the actor had failed when what the turn sees was read.
    pub(crate) failures: u64,
    pub(crate) kind: TurnKind,
    /// True if fields have handed over to it what is not submitted: if it fails, they go back to what is stored.
    pub(crate) has_handed_over: bool,
}

/// What a turn may do to its actor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum TurnKind {
    /// Anything.
    #[default]
    Exclusive,
    /// Others run beside it.
    Shared,
    /// The actor is being made.
    Activation,
    /// The actor leaves memory, and nothing of it is changed any more.
    Deactivation,
}

impl Current {
    /// A call that is being made.
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
            site: None,
            line: None,
            link: None,
            transactions: Vec::new(),
            writes: None,
            outputs: Vec::new(),
            failures: 0,
            kind: TurnKind::Exclusive,
            has_handed_over: false,
        })
    }

    /// Begins a turn of an actor that sees it as it was when this many commits had failed.
    #[inline]
    pub(crate) fn begin(&mut self, site: Arc<Site>, kind: TurnKind, failures: u64) {
        self.site = Some(site);
        self.kind = kind;
        self.failures = failures;
    }

    /// The turn as part of the chain that leads to what it calls; `None` for one that nobody can wait for.
    fn as_link(&mut self) -> Option<Arc<Link>> {
        if self.link.is_none() {
            let line = self.site.clone().map(|site| site as Arc<dyn Line>).or_else(|| self.line.clone())?;
            self.link = Some(Link::new(line, self.method.name(), self.chain.clone()));
        }
        if let Some(link) = &self.link {
            self.transactions.iter().for_each(|begun| begun.waits(link));
        }
        self.link.clone()
    }

    /// True if there is nothing to do for it beside its method.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.key.is_none() && self.trace.is_none() && self.arrived.is_none()
    }

    /// True if the turn has changed nothing but its actor, and sends nothing.
    #[inline]
    pub(crate) fn is_quiet(&self) -> bool {
        self.writes.is_none() && self.outputs.is_empty()
    }

    /// Sees to it that the time limit of a turn that waits is not counted from when it goes on.
    pub(crate) fn count_deadline(&mut self) {
        let _ = self.deadline.moment();
    }

    /// What it is traced by, for as long as a part of it runs.
    pub(crate) fn take_trace(current: &mut Option<Box<Self>>) -> Trace {
        current.as_mut().map(|current| std::mem::take(&mut current.trace)).unwrap_or_default()
    }

    /// Ends the turn. Returns what it has left, and the actor that it was one of.
    pub(crate) fn end(mut self: Box<Self>) -> Remains {
        let (writes, outputs, failures) = (self.writes.take(), std::mem::take(&mut self.outputs), self.failures);
        let (key, has_handed_over) = (self.key.take(), std::mem::take(&mut self.has_handed_over));
        Remains { site: self.end_quietly(), writes, outputs, failures, key, has_handed_over }
    }

    /// Ends a turn that [has left nothing](Current::is_quiet). Returns the actor that it was one of.
    #[inline]
    pub(crate) fn end_quietly(mut self: Box<Self>) -> Option<Arc<Site>> {
        if let Some(link) = self.link.take() {
            link.end();
        }
        if self.chain.is_some() {
            self.chain = None;
        }
        if self.line.is_some() {
            self.line = None;
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
        let site = self.site.take();
        // Where a thread ends, nobody needs it any more.
        let _ = SPARE.try_with(|spare| spare.set(Some(self)));
        site
    }

    /// Runs a part of the turn.
    #[inline]
    pub(crate) fn within<T>(slot: &mut Option<Box<Self>>, work: impl FnOnce() -> T) -> T {
        /// Puts things back, also when the work panics.
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

/// Puts another turn in the place of the one that runs on this thread.
#[inline(always)]
fn swap(next: Option<Box<Current>>) -> Option<Box<Current>> {
    CURRENT.with(|current| std::mem::replace(&mut *current.borrow_mut(), next))
}

/// What is left of a turn that has ended.
#[derive(Default)]
pub(crate) struct Remains {
    pub(crate) site: Option<Arc<Site>>,
    pub(crate) writes: Option<Box<ActorWrites>>,
    pub(crate) outputs: Vec<Output>,
    pub(crate) failures: u64,
    pub(crate) key: Option<Arc<CallKey>>,
    pub(crate) has_handed_over: bool,
}

impl Drop for Current {
    fn drop(&mut self) {
        if let Some(link) = &self.link {
            link.end();
        }
        self.transactions.iter().for_each(Begun::end);
    }
}

/// What a call that is made here takes with it.
#[derive(Default)]
pub(crate) struct Outgoing {
    /// That the turn waits for it, if it is made in one.
    pub(crate) awaiting: Option<Awaiting>,
    pub(crate) at_most: Option<Instant>,
    /// What it waits behind: a call is an effect of the turns before it.
    pub(crate) hold: Option<Hold>,
    /// What makes it the same one if it is repeated.
    pub(crate) key: Option<Arc<CallKey>>,
    /// Where it is told that it stands in line, if whoever gives it up is elsewhere.
    pub(crate) elsewhere: Option<Arc<Elsewhere>>,
}

/// True if the code on this thread is part of a turn.
#[inline]
pub(crate) fn is_in_turn() -> bool {
    CURRENT.with_borrow(Option::is_some)
}

/// What a call that is made here takes with it.
///
/// # Errors
/// `Conflict` if the chain has become too long.
pub(crate) fn outgoing() -> Result<Outgoing> {
    CURRENT.with_borrow_mut(|current| {
        let Some(current) = current else { return Ok(Outgoing::default()) };
        let link = current.as_link();
        if let Some(chain) = &link
            && chain.depth() > CHAIN_MAX
        {
            return Err(Error::new(
                mainstay_core::ErrorKind::Conflict,
                format!("the chain of calls is longer than CHAIN_MAX of {CHAIN_MAX}: {}", chain.ends()),
            ));
        }
        let hold = current.site.as_ref().and_then(|site| site.gate.hold(site, current.failures));
        Ok(Outgoing {
            awaiting: link.map(|link| link.awaits()),
            at_most: current.deadline.moment(),
            hold,
            key: None,
            elsewhere: None,
        })
    })
}

/// Notes that a transaction is begun in this turn.
pub(crate) fn begin_transaction(turns: &Arc<Turns>, transaction: TransactionId) {
    CURRENT.with_borrow_mut(|current| {
        let Some(current) = current else { return };
        if current.transactions.len() >= TRANSACTIONS_KNOWN_MAX {
            current.transactions.remove(0).end();
        }
        current.transactions.push(Begun { turns: turns.clone(), transaction });
    });
}

/// Has this turn stand in line for something that is no call, until what is returned is dropped; `None` if this is no turn.
///
/// # Errors
/// `Conflict` if it would wait for itself.
pub(crate) fn stand_in_line(
    line: impl FnOnce(&Arc<Link>) -> Arc<dyn Line>,
) -> Result<Option<(Awaiting, Arc<dyn Line>)>> {
    CURRENT.with_borrow_mut(|current| {
        let Some(link) = current.as_mut().and_then(|current| current.as_link()) else { return Ok(None) };
        let (awaiting, line) = (link.awaits(), line(&link));
        awaiting.chain().stand_in_line(line.clone(), None)?;
        Ok(Some((awaiting, line)))
    })
}

/// Lets something leave the actor when the turn is durable; at once if this is no turn of an actor.
pub(crate) fn leave(output: impl FnOnce(Result<()>) + Send + 'static) {
    let mut output = Some(output);
    CURRENT.with_borrow_mut(|current| {
        // What a service or a worker does is no effect of an actor.
        if let Some(current) = current
            && current.site.is_some()
            && let Some(output) = output.take()
        {
            current.outputs.push(Box::new(output));
        }
    });
    if let Some(output) = output {
        output(Ok(()));
    }
}

/// The actor whose turn this is.
pub(crate) fn site() -> Option<Arc<Site>> {
    CURRENT.with_borrow(|current| current.as_ref().and_then(|current| current.site.clone()))
}

/// How many commits had failed when what the turn sees was read.
pub(crate) fn failures() -> u64 {
    CURRENT.with_borrow(|current| current.as_ref().map_or(0, |current| current.failures))
}

/// Notes that what the turn sees was read anew.
pub(crate) fn refresh() {
    CURRENT.with_borrow_mut(|current| {
        if let Some(current) = current
            && let Some(site) = &current.site
        {
            current.failures = site.gate.failures();
        }
    });
}

/// Changes what is stored of the actor with the turn.
///
/// # Errors
/// `Invalid` outside of a turn, and what the change itself says.
pub(crate) fn change<R>(change: impl FnOnce(&mut ActorWrites) -> Result<R>) -> Result<R> {
    CURRENT.with_borrow_mut(|current| {
        let Some(current) = current else { return Err(not_in_turn()) };
        let Some(site) = &current.site else { return Err(not_in_turn()) };
        if current.kind == TurnKind::Deactivation {
            return Err(leaving(site));
        }
        change(current.writes.get_or_insert_with(|| Box::new(ActorWrites::new(site.id.clone()))))
    })
}

/// Looks at what the turn has changed so far beside the fields of its actor.
pub(crate) fn changed<R>(look: impl FnOnce(&ActorWrites) -> Option<R>) -> Option<R> {
    CURRENT.with_borrow(|current| look(current.as_ref()?.writes.as_deref()?))
}

/// Takes what was changed so far beside the fields of the actor, for a save in the middle of a turn.
pub(crate) fn take_writes() -> Option<Box<ActorWrites>> {
    CURRENT.with_borrow_mut(|current| current.as_mut()?.writes.take())
}

/// Gives back what a save has taken, and has not submitted. What was changed since comes after it. Where the turn of this
/// actor does not run any more, its object is lost with all that it has handed over.
pub(crate) fn give_back(site: &Arc<Site>, writes: Option<Box<ActorWrites>>, outputs: Vec<Output>) {
    CURRENT.with_borrow_mut(|current| {
        let is_own = |current: &&mut Box<Current>| current.site.as_ref().is_some_and(|own| Arc::ptr_eq(own, site));
        let Some(current) = current.as_mut().filter(is_own) else { return };
        let later = std::mem::replace(&mut current.outputs, outputs);
        current.outputs.extend(later);
        let Some(mut writes) = writes else { return };
        current.has_handed_over = true;
        if let Some(later) = current.writes.take()
            && let Err(error) = writes.merge(*later)
        {
            // What cannot be put together is not to be stored in part: nothing of the turn happens.
            tracing::warn!(actor = %site, ?error, "a save was given up, and what was changed since does not go with it");
            current.failures = u64::MAX;
        }
        current.writes = Some(writes);
    });
}

/// What kind of turn of an actor this is.
pub(crate) fn kind() -> Option<TurnKind> {
    CURRENT.with_borrow(|current| current.as_ref().filter(|current| current.site.is_some()).map(|current| current.kind))
}

/// What an actor is told that is to be changed while it is deactivated.
pub(crate) fn leaving(site: &Site) -> Error {
    Error::invalid(format!(
        "{site} is being deactivated, and nothing of it is saved any more: change and save it in a turn before"
    ))
}

fn not_in_turn() -> Error {
    Error::invalid("this is only possible in a turn of the actor: call it from a method, a timer or a reminder")
}

/// Takes what was to leave so far, for a save in the middle of a turn.
pub(crate) fn take_outputs() -> Vec<Output> {
    CURRENT.with_borrow_mut(|current| {
        current.as_mut().map(|current| std::mem::take(&mut current.outputs)).unwrap_or_default()
    })
}
