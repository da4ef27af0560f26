//! What openraft tells, at a level that suits those who run a node: its information, warnings and errors at `DEBUG`, all else
//! at `TRACE`, with the target [`TARGET`]. What matters of it is told by this crate, in its own words.
//!
//! Openraft speaks to whichever subscriber is current, so that one of ours is while openraft runs. It passes on to the one
//! before whatever comes from elsewhere.

use std::cell::{Cell, RefCell};
use std::fmt::{self, Write as _};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::OnceLock;

use tracing::dispatcher::{self, Dispatch};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{Interest, NoSubscriber};
use tracing::{Event, Level, Metadata, Subscriber};

/// What openraft's events are found under.
const TARGET: &str = "mainstay::openraft";

/// What openraft's own targets start with.
const SOURCE: &str = "openraft";

/// How much is kept of what openraft tells in one go; the rest of that is left out.
const HEARD_MAX: usize = 256;

static QUIET: OnceLock<Dispatch> = OnceLock::new();

thread_local! {
    /// The subscriber that was current before ours, while ours is.
    static OUTER: RefCell<Option<Dispatch>> = const { RefCell::new(None) };
    /// Up to which level of openraft's events somebody wants to hear.
    static WANTED: Cell<LevelFilter> = const { Cell::new(LevelFilter::OFF) };
    static HEARD: RefCell<Vec<(Level, String)>> = const { RefCell::new(Vec::new()) };
}

/// Runs something of openraft's.
pub(crate) fn quietly<T>(run: impl FnOnce() -> T) -> T {
    // Nobody listens, as in most processes without a subscriber, or we do already.
    if LevelFilter::current() == LevelFilter::OFF || OUTER.with_borrow(Option::is_some) {
        return run();
    }
    let outer = dispatcher::get_default(Dispatch::clone);
    if outer.is::<NoSubscriber>() {
        return run();
    }
    WANTED.set(wanted());
    OUTER.set(Some(outer));
    let result = {
        // Also when it panics.
        let _end = End;
        dispatcher::with_default(QUIET.get_or_init(|| Dispatch::new(Quiet)), run)
    };
    for (level, text) in HEARD.take() {
        match level {
            Level::ERROR | Level::WARN | Level::INFO => tracing::debug!(target: TARGET, %level, "{text}"),
            _ => tracing::trace!(target: TARGET, %level, "{text}"),
        }
    }
    result
}

/// Runs a future of openraft's.
pub(crate) async fn quiet<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    poll_fn(|cx| quietly(|| future.as_mut().poll(cx))).await
}

fn wanted() -> LevelFilter {
    if LevelFilter::current() < LevelFilter::DEBUG {
        LevelFilter::OFF
    } else if tracing::enabled!(target: TARGET, Level::TRACE) {
        LevelFilter::TRACE
    } else if tracing::enabled!(target: TARGET, Level::DEBUG) {
        LevelFilter::INFO
    } else {
        LevelFilter::OFF
    }
}

struct End;

impl Drop for End {
    fn drop(&mut self) {
        OUTER.set(None);
    }
}

/// The subscriber that is current while openraft runs.
struct Quiet;

impl Quiet {
    fn outer<T>(&self, default: T, ask: impl FnOnce(&Dispatch) -> T) -> T {
        OUTER.with_borrow(|outer| match outer {
            Some(outer) => ask(outer),
            None => default,
        })
    }
}

impl Subscriber for Quiet {
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::sometimes()
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        // It wants nothing that nobody else wants.
        Some(LevelFilter::OFF)
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        // No span begins in here: it might end elsewhere, where the subscriber that it belongs to is not known.
        if !metadata.is_event() {
            return false;
        }
        match metadata.target().starts_with(SOURCE) {
            true => *metadata.level() <= WANTED.get(),
            false => self.outer(false, |outer| outer.enabled(metadata)),
        }
    }

    fn event(&self, event: &Event<'_>) {
        let metadata = event.metadata();
        if !metadata.target().starts_with(SOURCE) {
            return self.outer((), |outer| outer.event(event));
        }
        HEARD.with_borrow_mut(|heard| {
            if heard.len() < HEARD_MAX {
                let mut text = Text(String::new());
                event.record(&mut text);
                heard.push((*metadata.level(), text.0));
            }
        });
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        // None is enabled, so that nobody asks.
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// The message of an event and its fields, as one text.
struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let space = if self.0.is_empty() { "" } else { " " };
        // Writing to a string does not fail.
        _ = match field.name() {
            "message" => write!(self.0, "{space}{value:?}"),
            name => write!(self.0, "{space}{name}={value:?}"),
        };
    }
}
