//! What is seen while it runs: a bar and a line of figures in a terminal, plain lines elsewhere.

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use mainstay::prelude::*;

use crate::traffic::Traffic;
use crate::writer::EventWriterRef;

/// How often the bar is drawn.
const DRAW: Duration = Duration::from_millis(200);

/// How often a plain line is printed.
const PRINT: Duration = Duration::from_secs(1);

/// The display.
#[derive(Debug)]
pub struct Progress {
    /// `None` where there is no terminal.
    bar: Option<ProgressBar>,
}

/// What the writers have done, added up.
#[derive(Debug, Clone, Copy, Default)]
pub struct Written {
    /// How many events are in the files.
    pub events: u64,
    /// In how many batches.
    pub batches: u64,
}

impl Written {
    /// Asks all writers.
    ///
    /// # Errors
    /// Those of the calls.
    pub async fn ask(writers: &[EventWriterRef]) -> Result<Self> {
        let mut written = Self::default();
        for writer in writers {
            let status = writer.status().await?;
            written.events += status.next - status.waiting;
            written.batches += status.batches;
        }
        Ok(written)
    }

    /// What was done since an earlier time.
    pub fn since(self, earlier: Self) -> Self {
        Self { events: self.events - earlier.events, batches: self.batches - earlier.batches }
    }

    /// How many events a batch has.
    pub fn per_batch(self) -> u64 {
        self.events / self.batches.max(1)
    }
}

impl Progress {
    /// A display of so many events.
    pub fn new(events: u64) -> Self {
        if !std::io::stdout().is_terminal() {
            return Self { bar: None };
        }
        let bar = ProgressBar::with_draw_target(Some(events), indicatif::ProgressDrawTarget::stdout());
        let style = ProgressStyle::with_template("{bar:30} {pos} of {len} events acknowledged\n{msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Self { bar: Some(bar) }
    }

    /// Says something that has happened.
    pub fn note(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.println(format!("  {text}")),
            None => println!("  {text}"),
        }
    }

    /// Shows how far it has come, until it is dropped.
    ///
    /// # Errors
    /// Those of the calls to the writers.
    pub async fn keep_showing(&self, traffic: &Traffic, writers: &[EventWriterRef], before: Written) -> Result<()> {
        let mut printed = Instant::now();
        loop {
            tokio::time::sleep(DRAW).await;
            let is_due = self.bar.is_some() || printed.elapsed() >= PRINT;
            if !is_due {
                continue;
            }
            printed = Instant::now();
            let written = Written::ask(writers).await?.since(before);
            let line = line(traffic, written);
            match &self.bar {
                Some(bar) => {
                    bar.set_position(traffic.acknowledged());
                    bar.set_message(line);
                }
                None => println!("{line}"),
            }
        }
    }

    /// Takes the bar away.
    pub fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn line(traffic: &Traffic, written: Written) -> String {
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
