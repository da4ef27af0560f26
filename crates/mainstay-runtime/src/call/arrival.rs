use std::fmt;

use mainstay_core::time::{self, Duration, Instant};

use crate::actor::actor_shared::ActorShared;
use crate::call::current::Current;
use crate::observe::trace::Trace;

/// A method of an interface, as error texts and metrics name it. `#[interface]` writes one static for each.
pub struct Method {
    interface: &'static str,
    name: &'static str,
    source: TurnSource,
    is_exclusive: bool,
    is_repeatable: bool,
}

/// The origin of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TurnSource {
    /// A call.
    Call,
    /// A timer of the actor.
    Timer,
    /// A reminder of the actor.
    Reminder,
    /// A future that the actor awaits outside of its turns.
    Continuation,
}

impl TurnSource {
    /// True if the turn counts as use of an idle actor. A timer does not, because it would keep its actor in memory for
    /// ever.
    #[inline]
    pub(crate) fn counts_as_use(self) -> bool {
        self != Self::Timer
    }

    /// True if the mailbox limit applies. Turns that an actor starts itself have limits of their own, and no caller that
    /// could slow down.
    pub(crate) fn is_limited_by_mailbox(self) -> bool {
        self == Self::Call
    }
}

impl Method {
    /// The method of an interface.
    pub const fn new(interface: &'static str, name: &'static str) -> Self {
        Self { interface, name, source: TurnSource::Call, is_exclusive: false, is_repeatable: false }
    }

    /// The same method, one that takes `&mut self`.
    #[must_use]
    pub const fn exclusive(mut self) -> Self {
        self.is_exclusive = true;
        self
    }

    /// The same method, one that may be carried out twice without harm.
    #[must_use]
    pub const fn repeatable(mut self) -> Self {
        self.is_repeatable = true;
        self
    }

    /// A turn that an actor starts itself.
    pub(crate) const fn own(name: &'static str, source: TurnSource) -> Self {
        Self { interface: "Actor", name, source, is_exclusive: false, is_repeatable: false }
    }

    /// True if it takes `&mut self`.
    pub(crate) fn is_exclusive(&self) -> bool {
        self.is_exclusive
    }

    /// True if it may be carried out twice without harm, by what its author says.
    pub(crate) fn is_repeatable(&self) -> bool {
        self.is_repeatable
    }

    /// The origin of its turns.
    #[inline]
    pub(crate) fn source(&self) -> TurnSource {
        self.source
    }

    /// The name of the interface.
    pub fn interface(&self) -> &'static str {
        self.interface
    }

    /// The name of the method.
    pub fn name(&self) -> &'static str {
        self.name
    }
}

impl fmt::Debug for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}::{}", self.interface, self.name)
    }
}

/// A call under way, without its arguments.
pub struct Call {
    /// The data of the call, which becomes the current turn.
    pub(crate) current: Box<Current>,
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a call of {:?}", self.current.method)
    }
}

impl Call {
    #[inline]
    pub(crate) fn new(method: &'static Method, deadline: Deadline) -> Self {
        Self { current: Current::new(method, deadline) }
    }

    /// A call that an actor makes to itself, such as a timer.
    pub(crate) fn own(method: &'static Method, shared: &ActorShared) -> Self {
        let mut call = Self::new(method, Deadline::never());
        call.current.arrived = shared.partition.counters.arrival(method);
        call.current.trace = Trace::of_actor(shared, method);
        call
    }
}

/// The deadline of a call.
///
/// Most calls end before their deadline is needed. So the timeout is converted to a deadline when that is first asked for,
/// a moment after the call was made, which saves reading the clock.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Deadline {
    /// The timeout, until it is converted.
    timeout: Option<Duration>,
    /// The deadline, once converted; before, the deadline of the enclosing turn.
    moment: Option<Instant>,
}

impl Deadline {
    #[inline]
    pub(crate) fn new(timeout: Duration, at_most: Option<Instant>) -> Self {
        Self { timeout: Some(timeout), moment: at_most }
    }

    /// No limit.
    pub(crate) fn never() -> Self {
        Self::default()
    }

    /// The deadline; `None` if there is none, or it is beyond the range of the clock.
    pub(crate) fn moment(&mut self) -> Option<Instant> {
        if let Some(timeout) = self.timeout.take() {
            let own = time::now().checked_add(timeout);
            self.moment = [own, self.moment].into_iter().flatten().min();
        }
        self.moment
    }
}
