use std::fmt;
use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;

use mainstay_core::time::{self, Instant};
use parking_lot::Mutex;

/// What happened in a run, in order, with the simulated time of each event.
#[derive(Debug, Clone)]
pub struct Trace {
    start: Instant,
    shared: Arc<Mutex<Shared>>,
}

struct Shared {
    hasher: DefaultHasher,
    events: u64,
    line: String,
    sink: Option<Sink>,
}

/// Where the lines of a trace go, besides into its digest.
pub(crate) type Sink = Box<dyn FnMut(&str) + Send>;

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("events", &self.events).finish_non_exhaustive()
    }
}

impl Trace {
    /// A trace that starts now.
    pub fn new(sink: Option<Sink>) -> Self {
        // `DefaultHasher::new` has fixed keys: equal traces have equal digests.
        let shared = Shared { hasher: DefaultHasher::new(), events: 0, line: String::new(), sink };
        Self { start: time::now(), shared: Arc::new(Mutex::new(shared)) }
    }

    /// Notes an event.
    pub fn event(&self, what: fmt::Arguments<'_>) {
        use fmt::Write as _;
        let at = time::now() - self.start;
        let shared = &mut *self.shared.lock();
        shared.line.clear();
        // Writing to a string does not fail.
        let _ = write!(shared.line, "{:>11.6} {what}", at.as_secs_f64());
        shared.hasher.write(shared.line.as_bytes());
        shared.events += 1;
        if let Some(sink) = &mut shared.sink {
            sink(&shared.line);
        }
    }

    /// A number that two runs share only if all their events are the same.
    pub fn digest(&self) -> u64 {
        self.shared.lock().hasher.finish()
    }

    /// How many events there were.
    pub fn events(&self) -> u64 {
        self.shared.lock().events
    }
}

/// Notes an event in a trace, with the arguments of `format!`.
#[macro_export]
macro_rules! event {
    ($trace:expr, $($what:tt)*) => { $trace.event(format_args!($($what)*)) };
}
