//! What is logged on this thread, as text.

use std::cell::RefCell;
use std::fmt::{self, Write as _};
use std::sync::Once;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::set_global_default;
use tracing::{Event, Level, Metadata, Subscriber};

thread_local! {
    /// The lines of the test that runs on this thread, if it asks for them.
    static LINES: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

/// The warnings and errors of this thread since it was made, while it is there.
pub(crate) struct Log {}

impl Log {
    pub(crate) fn start() -> Self {
        // One for all threads: whether something is to be logged is remembered for all of them together.
        static COLLECTING: Once = Once::new();
        COLLECTING.call_once(|| set_global_default(Collector).unwrap());
        LINES.set(Some(Vec::new()));
        Self {}
    }

    /// The lines that have all of these parts.
    pub(crate) fn matching(&self, parts: &[&str]) -> usize {
        LINES.with_borrow(|lines| {
            let matches = |line: &&String| parts.iter().all(|part| line.contains(part));
            lines.iter().flatten().filter(matches).count()
        })
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        LINES.set(None);
    }
}

struct Collector;

impl Subscriber for Collector {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        LINES.with_borrow_mut(|lines| {
            let Some(lines) = lines else { return };
            let mut line = Line(event.metadata().level().to_string());
            event.record(&mut line);
            lines.push(line.0);
        });
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        write!(self.0, " {}={value:?}", field.name()).unwrap();
    }
}
