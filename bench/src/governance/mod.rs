//! The goals of resource governance: what many callers get through few connections and files, beside a task that somebody
//! has written by hand for one table or one file, and beside one statement per call.

mod row;

mod callers;
mod ours;
mod peers;

mod csv;
mod postgres;

use std::time::Duration;

use crate::load::Load;
use crate::outcome::Outcome;
use crate::report::Report;
use crate::scratch::Scratch;
use crate::section::Bench;
use crate::settings::Settings;

/// What can be chosen with `--only`.
pub(crate) const BENCHES: &[Bench] = &[
    Bench {
        name: "postgres",
        about: "rows into PostgreSQL from 1 to 1,000 callers, beside a task and a pool of clients",
    },
    Bench {
        name: "csv",
        about: "rows into a synced CSV file from 1 to 1,000 callers, beside a thread written by hand",
    },
];

/// How many callers at once.
const CALLERS: [usize; 4] = [1, 10, 100, 1_000];

/// The most rows of a batch, for everybody.
const BATCH_ROWS_MAX: usize = 1_000;

/// How many rows may wait, for everybody.
const WAITING_ROWS_MAX: usize = 16_384;

/// Of what somebody writes by hand for the one purpose, so much is to be reached.
const SHARE_OF_BY_HAND: f64 = 0.8;

/// How long a contender is measured in a round.
const SPAN: Duration = Duration::from_secs(2);

/// How long a contender runs before anything counts.
const WARM_UP: Duration = Duration::from_secs(1);

/// Measures what the settings ask for.
///
/// # Errors
/// When something breaks, and without PostgreSQL.
pub(crate) fn run(settings: &Settings, report: &mut Report) -> Outcome<()> {
    let scratch = Scratch::below(&settings.dir)?;
    if scratch.is_memory() {
        report.note(format!("{} is in memory: syncs cost nothing there, use --dir", settings.dir.display()));
    }
    if settings.wants("postgres") {
        postgres::run(settings, &scratch, report)?;
    }
    if settings.wants("csv") {
        csv::run(settings, &scratch, report)?;
    }
    Ok(())
}

fn load(settings: &Settings, writers: usize) -> Load {
    Load { writers, warm_up: settings.span(WARM_UP), span: settings.span(SPAN) }
}

fn name(who: &str, callers: usize) -> String {
    format!("{who}, callers {callers}")
}

/// A runtime as a program would have it that speaks to servers.
fn runtime() -> Outcome<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().enable_all().build()?)
}
