//! What is said on the standard output. Whoever reads it may go away, as `head` does: then the demo ends in order, in silence.

use std::io::{ErrorKind, Write as _};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use indicatif::ProgressBar;

use crate::stop::Stop;

/// The standard output.
#[derive(Debug, Default)]
pub struct Output {
    /// Asked for when nobody reads any more.
    pub stop: Stop,
    /// What is drawn below the lines, in a terminal.
    pub(crate) bar: OnceLock<ProgressBar>,
    is_closed: AtomicBool,
}

impl Output {
    /// Prints a line.
    pub fn say(&self, line: impl AsRef<str>) {
        if self.is_closed.load(Ordering::Relaxed) {
            return;
        }
        let said = writeln!(std::io::stdout(), "{}", line.as_ref());
        if said.is_err_and(|error| error.kind() == ErrorKind::BrokenPipe) {
            self.is_closed.store(true, Ordering::Relaxed);
            self.stop.ask();
        }
    }

    /// Says something that has happened, above what is drawn.
    pub fn note(&self, text: &str) {
        match self.bar.get() {
            Some(bar) if !bar.is_finished() => bar.println(format!("  {text}")),
            _ => self.say(format!("  {text}")),
        }
    }
}
