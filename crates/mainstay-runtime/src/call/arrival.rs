use std::fmt;

use mainstay_core::time::{self, Duration, Instant};

use crate::actor::site::Site;
use crate::call::current::Current;
use crate::observe::trace::Trace;

/// A method of an interface, as messages and measurements name it. `#[interface]` writes one for each.
pub struct Method {
    interface: &'static str,
    name: &'static str,
    source: Source,
}

/// What a turn comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// Somebody calls the actor.
    Call,
    /// A timer of the actor.
    Timer,
    /// A reminder of the actor.
    Reminder,
    /// Something that the actor waited for outside of its turns.
    Continuation,
}

impl Source {
    /// True if it keeps an idle actor in memory. A timer does not: it would keep its actor there for ever.
    #[inline]
    pub(crate) fn counts_as_use(self) -> bool {
        self != Self::Timer
    }

    /// True if the mailbox limits how many may wait. What an actor does by itself has limits of its own, and nobody that
    /// could be told to slow down.
    pub(crate) fn is_limited_by_mailbox(self) -> bool {
        self == Self::Call
    }
}

impl Method {
    /// The method of an interface.
    pub const fn new(interface: &'static str, name: &'static str) -> Self {
        Self { interface, name, source: Source::Call }
    }

    /// What an actor does by itself.
    pub(crate) const fn own(name: &'static str, source: Source) -> Self {
        Self { interface: "Actor", name, source }
    }

    /// What its turns come from.
    #[inline]
    pub(crate) fn source(&self) -> Source {
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

/// A call on its way: what it carries beside its arguments.
pub struct Call {
    /// What becomes its turn.
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

    /// Something that an actor does by itself.
    pub(crate) fn own(method: &'static Method, site: &Site) -> Self {
        let mut call = Self::new(method, Deadline::never());
        call.current.arrived = site.hall.ledger.arrival(method);
        call.current.trace = Trace::of_actor(site, method);
        call
    }
}

/// When a call is to have ended.
///
/// Most calls end before anybody looks at a clock. So the limit is counted from when it is first asked for, a moment
/// after the call was made.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Deadline {
    /// What is yet to be counted.
    timeout: Option<Duration>,
    /// The moment, once it is counted; before, what the turn that makes the call has left.
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

    /// The moment; `None` if it is beyond what the clock can express, which is no limit.
    pub(crate) fn moment(&mut self) -> Option<Instant> {
        if let Some(timeout) = self.timeout.take() {
            let own = time::now().checked_add(timeout);
            self.moment = [own, self.moment].into_iter().flatten().min();
        }
        self.moment
    }
}
