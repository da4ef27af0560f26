//! What a check prints between the output of the tools that it runs.

use std::time::{Duration, Instant};

use crate::command::Outcome;
use crate::stage::Stage;

/// The stages that have run so far.
#[derive(Debug, Default)]
pub(crate) struct Report {
    lines: Vec<Line>,
}

#[derive(Debug)]
struct Line {
    stage: Stage,
    passed: bool,
    elapsed: Duration,
}

impl Report {
    /// Runs a stage under its heading and remembers how it went.
    pub(crate) fn stage(&mut self, stage: Stage, run: impl FnOnce() -> Outcome) -> Outcome {
        println!("\n=== {} ===", stage.title());
        let start = now();
        let outcome = run();
        self.lines.push(Line { stage, passed: outcome.is_ok(), elapsed: now() - start });
        outcome.map_err(|cause| {
            format!(
                "{} failed: {cause}\n  remedy: {}\n  this stage alone: cargo xtask check --only {stage}",
                stage.title(),
                stage.remedy()
            )
        })
    }

    /// True if the stage has run.
    pub(crate) fn has(&self, stage: Stage) -> bool {
        self.lines.iter().any(|line| line.stage == stage)
    }

    /// Prints one line per stage that ran.
    pub(crate) fn print_summary(&self) {
        println!("\n=== summary ===");
        for line in &self.lines {
            let verdict = if line.passed { "ok" } else { "FAILED" };
            println!("{:<18} {verdict:<7} {:>6.1} s", line.stage.title(), line.elapsed.as_secs_f64());
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "a chore runs in real time, never in simulation")]
fn now() -> Instant {
    Instant::now()
}
