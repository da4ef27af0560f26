//! Keeps what is traced on this thread: the spans with their parents, and the events with their spans.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, Once};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;

/// What was traced.
#[derive(Clone, Default)]
pub(crate) struct Captured(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    spans: BTreeMap<u64, String>,
    /// Every span, with those that it is in: the outermost first.
    paths: Vec<String>,
    events: Vec<Seen>,
}

/// An event.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) level: Level,
    pub(crate) fields: BTreeMap<String, String>,
    /// The spans that it is in.
    pub(crate) path: String,
}

impl Seen {
    pub(crate) fn message(&self) -> &str {
        self.field("message")
    }

    pub(crate) fn field(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", String::as_str)
    }
}

impl Captured {
    /// Captures until the guard is dropped, what is at this level or above.
    pub(crate) fn start(level: Level) -> (Self, tracing::subscriber::DefaultGuard) {
        static EVERYTHING: Once = Once::new();
        // Whether anybody wants an event or a span is found out when it first happens, by whoever listens on that thread if
        // there is one listener only: a thread of the tests beside this one would answer for it.
        EVERYTHING.call_once(|| tracing::subscriber::set_global_default(tracing_subscriber::registry()).unwrap());
        let captured = Self::default();
        let filter = tracing_subscriber::filter::LevelFilter::from_level(level);
        let subscriber = tracing_subscriber::registry().with(filter).with(captured.clone());
        let guard = tracing::subscriber::set_default(subscriber);
        (captured, guard)
    }

    /// Every span with those that it is in.
    pub(crate) fn paths(&self) -> Vec<String> {
        self.0.lock().unwrap().paths.clone()
    }

    /// The events so far that say something.
    pub(crate) fn saying(&self, text: &str) -> Vec<Seen> {
        self.0.lock().unwrap().events.iter().filter(|event| event.message().contains(text)).cloned().collect()
    }
}

#[derive(Default)]
struct Fields(BTreeMap<String, String>);

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}"));
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Captured {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        let own = match fields.0.get("actor") {
            Some(actor) => format!("{actor}({}).{}", fields.0["id"], fields.0["method"]),
            None => match fields.0.get("whom") {
                Some(whom) => format!("{whom}.{}", fields.0["method"]),
                None => attributes.metadata().name().to_owned(),
            },
        };
        let span = context.span(id).unwrap();
        let mut inner = self.0.lock().unwrap();
        let path = match span.parent().and_then(|parent| inner.spans.get(&parent.id().into_u64()).cloned()) {
            Some(parent) => format!("{parent} > {own}"),
            None => own,
        };
        inner.spans.insert(id.into_u64(), path.clone());
        inner.paths.push(path);
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let span = context.event_span(event).map(|span| span.id().into_u64());
        let mut inner = self.0.lock().unwrap();
        let path = span.and_then(|span| inner.spans.get(&span).cloned()).unwrap_or_default();
        inner.events.push(Seen { level: *event.metadata().level(), fields: fields.0, path });
    }
}
