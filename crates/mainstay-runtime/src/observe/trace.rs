use tracing::level_filters::LevelFilter;
use tracing::{Level, Span};

use crate::actor::actor_shared::ActorShared;
use crate::call::arrival::Method;

/// The tracing span of a turn, entered on whichever thread polls the turn.
///
/// If the subscriber enables the target `mainstay::turn` at `DEBUG`, the turn has a span of its own, a child of the caller's.
/// Otherwise the turn runs in the caller's span, so that the log lines of a method belong to the caller even when another task
/// runs the turn. Without a subscriber the cost is one load of the level filter.
#[derive(Debug, Default)]
pub(crate) struct Trace(Option<Box<Span>>);

impl Trace {
    /// The span of a turn that begins or a call that is made here, with the fields of `span`.
    #[inline]
    pub(crate) fn new(span: impl FnOnce() -> Span) -> Self {
        if LevelFilter::current() == LevelFilter::OFF {
            return Self(None);
        }
        Self::chosen(span())
    }

    #[cold]
    fn chosen(span: Span) -> Self {
        let span = if span.is_disabled() { Span::current() } else { span };
        Self((!span.is_disabled()).then(|| Box::new(span)))
    }

    /// The span of an actor's turn.
    pub(crate) fn of_actor(shared: &ActorShared, method: &'static Method) -> Self {
        Self::new(|| actor_span(&shared.partition.address.service, &shared.id, method))
    }

    /// True if there is no span to enter.
    #[inline]
    pub(crate) fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// Runs a part of the turn.
    #[inline]
    pub(crate) fn within<R>(&self, work: impl FnOnce() -> R) -> R {
        match &self.0 {
            None => work(),
            Some(span) => span.in_scope(work),
        }
    }
}

/// The span of a turn of an actor.
pub(crate) fn actor_span(actor: &str, id: &dyn std::fmt::Display, method: &'static Method) -> Span {
    tracing::span!(target: "mainstay::turn", Level::DEBUG, "turn", actor, %id, method = method.name())
}

/// The span of a call to a service or a worker.
pub(crate) fn call_span(whom: &dyn std::fmt::Display, method: &'static Method) -> Span {
    tracing::span!(target: "mainstay::turn", Level::DEBUG, "call", %whom, method = method.name())
}
