use tracing::level_filters::LevelFilter;
use tracing::{Level, Span};

use crate::actor::site::Site;
use crate::call::arrival::Method;

/// The span that a turn runs in, wherever it is polled.
///
/// It is one of its own where spans of the target `mainstay::turn` are wanted at `DEBUG`, with that of the caller as its
/// parent; and else that of the caller, so that what a method logs belongs to it even when others carry the call out.
/// Without a subscriber it costs a look at one number.
#[derive(Debug, Default)]
pub(crate) struct Trace(Option<Box<Span>>);

impl Trace {
    /// Of a turn that begins or arrives here, with the fields that `span` gives it.
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

    /// Of a turn of an actor.
    pub(crate) fn of_actor(site: &Site, method: &'static Method) -> Self {
        Self::new(|| actor_span(&site.hall.address.service, &site.id, method))
    }

    /// True if there is nothing to run in.
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
