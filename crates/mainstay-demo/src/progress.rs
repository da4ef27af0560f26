//! What is seen while it runs: a bar and a line of figures in a terminal, plain lines elsewhere.

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use mainstay::prelude::*;

use crate::output::Output;
use crate::traffic::Traffic;
use crate::writer::EventWriterRef;

/// How often the bar is drawn.
const DRAW: Duration = Duration::from_millis(200);

/// How often a plain line is printed.
const PRINT: Duration = Duration::from_secs(1);

/// The display.
#[derive(Debug)]
pub struct Progress<'a> {
    output: &'a Output,
}

/// What the writers have done, added up.
#[derive(Debug, Clone, Default)]
pub struct Written {
    /// How many events are in the files.
    pub events: u64,
    /// In how many batches.
    pub batches: u64,
    /// How many wait to be written.
    pub waiting: u64,
    /// Which writer cannot write, and what keeps it from doing so.
    pub trouble: Option<String>,
    /// The same if that does not pass by itself, such as a file that is damaged.
    pub stuck: Option<String>,
}

impl Written {
    /// Asks all writers.
    ///
    /// # Errors
    /// Those of the calls.
    pub async fn ask(writers: &[(String, EventWriterRef)]) -> Result<Self> {
        let mut written = Self::default();
        for (id, writer) in writers {
            let status = writer.status().await?;
            written.events += status.next - status.waiting;
            written.batches += status.batches;
            written.waiting += status.waiting;
            let trouble = status.last_error.map(|error| format!("{id}: {error}"));
            if status.is_stuck {
                written.stuck = written.stuck.or_else(|| trouble.clone());
            }
            written.trouble = written.trouble.or(trouble);
        }
        Ok(written)
    }

    /// What was done since an earlier time.
    pub fn since(self, earlier: &Self) -> Self {
        Self { events: self.events - earlier.events, batches: self.batches - earlier.batches, ..self }
    }

    /// How many events a batch has.
    pub fn per_batch(&self) -> u64 {
        self.events / self.batches.max(1)
    }

    /// An error if a writer waits for something that it would wait for for ever.
    ///
    /// # Errors
    /// `Fatal`, with what that is and what to do.
    pub fn refuse_stuck(&self) -> Result<()> {
        match &self.stuck {
            Some(stuck) => Err(self.unwritten(ErrorKind::Fatal, stuck)),
            None => Ok(()),
        }
    }

    /// What is said of events that are not in the files when it ends.
    pub fn unwritten(&self, kind: ErrorKind, trouble: &str) -> Error {
        let text = format!(
            "{} events are acknowledged and not in the files yet, because a writer cannot write: {trouble}; they are stored, \
             and written by the next start that can",
            self.waiting
        );
        Error::new(kind, text)
    }

    /// Says what keeps a writer from writing, if that is another than was said before.
    pub fn tell_trouble(&self, told: &mut Option<String>, output: &Output) {
        if *told == self.trouble {
            return;
        }
        match &self.trouble {
            Some(trouble) => output.note(&format!("a writer cannot write, and tries again: {trouble}")),
            None => output.note("all writers write again"),
        }
        told.clone_from(&self.trouble);
    }
}

impl<'a> Progress<'a> {
    /// A display of so many events.
    pub fn new(events: u64, output: &'a Output) -> Self {
        if std::io::stdout().is_terminal() {
            let bar = ProgressBar::with_draw_target(Some(events), ProgressDrawTarget::stdout());
            let style = ProgressStyle::with_template("{bar:30} {pos} of {len} events acknowledged\n{msg}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            // There is one display only.
            let _ = output.bar.set(bar);
        }
        Self { output }
    }

    /// Shows how far it has come, until it is dropped.
    ///
    /// # Errors
    /// Those of the calls to the writers.
    pub async fn keep_showing(
        &self,
        traffic: &Traffic,
        writers: &[(String, EventWriterRef)],
        before: &Written,
    ) -> Result<()> {
        let (mut printed, mut told) = (Instant::now(), None);
        loop {
            tokio::time::sleep(DRAW).await;
            let bar = self.output.bar.get();
            if bar.is_none() && printed.elapsed() < PRINT {
                continue;
            }
            printed = Instant::now();
            let written = Written::ask(writers).await?.since(before);
            written.tell_trouble(&mut told, self.output);
            written.refuse_stuck()?;
            let line = line(traffic, &written);
            match bar {
                Some(bar) => {
                    bar.set_position(traffic.acknowledged());
                    bar.set_message(line);
                }
                None => self.output.say(line),
            }
        }
    }

    /// Takes the bar away.
    pub fn end(&self) {
        if let Some(bar) = self.output.bar.get() {
            bar.finish_and_clear();
        }
    }
}

fn line(traffic: &Traffic, written: &Written) -> String {
    format!(
        "{} in, {} acknowledged, {} written, {} rows per batch, latency p50 {:.1?} p90 {:.1?} p99 {:.1?}",
        traffic.sent(),
        traffic.acknowledged(),
        written.events,
        written.per_batch(),
        traffic.latency.percentile(50.0),
        traffic.latency.percentile(90.0),
        traffic.latency.percentile(99.0),
    )
}
