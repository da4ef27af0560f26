//! The trace that calls to other processes belong to, as W3C Trace Context writes it.

use std::sync::OnceLock;

use tracing::Span;

/// How the trace of a call travels with it. The program has one if it exports traces.
#[derive(Debug, Clone, Copy)]
pub struct TracePropagation {
    /// The `traceparent` of a span; `None` if it is not traced.
    pub inject: fn(&Span) -> Option<String>,
    /// Makes a span a child of a `traceparent`.
    pub extract: fn(&Span, &str),
}

static PROPAGATION: OnceLock<TracePropagation> = OnceLock::new();

/// The longest `traceparent` that travels.
const TRACEPARENT_BYTES_MAX: usize = 128;

/// Sets how the traces of this process go on in others: once, before the first call. A second one is ignored.
pub fn set_trace_propagation(propagation: TracePropagation) {
    let _ = PROPAGATION.set(propagation);
}

/// The `traceparent` of the code that runs here.
pub(crate) fn current() -> Option<String> {
    let traceparent = (PROPAGATION.get()?.inject)(&Span::current())?;
    (traceparent.len() <= TRACEPARENT_BYTES_MAX).then_some(traceparent)
}

/// The span of a call that has come from another process.
pub(crate) fn span_of(from: mainstay_core::NodeId, traceparent: Option<&str>) -> Span {
    let span = tracing::span!(target: "mainstay::turn", tracing::Level::DEBUG, "remote_call", %from, traceparent);
    if let Some((propagation, traceparent)) = PROPAGATION.get().zip(traceparent) {
        (propagation.extract)(&span, traceparent);
    }
    span
}
