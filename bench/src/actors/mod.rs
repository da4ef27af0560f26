//! The goals of actors: what an ask, an activation and a durable call may cost, beside other actor libraries.

mod counter;
mod ours;
mod peers;

mod activate;
mod ask;
mod durable;

use std::path::Path;

use crate::outcome::Outcome;
use crate::report::Report;
use crate::scratch::Scratch;
use crate::section::Bench;
use crate::settings::Settings;

/// What can be chosen with `--only`.
pub(crate) const BENCHES: &[Bench] = &[
    Bench { name: "ask-1", about: "asks of one caller to an idle actor, beside actor libraries" },
    Bench { name: "ask-64-1", about: "asks of 64 callers to one actor, beside actor libraries" },
    Bench { name: "ask-64-1000", about: "asks of 64 callers to 1,000 actors, beside actor libraries" },
    Bench { name: "activate-1m", about: "time and memory of 1,000,000 actors, beside actor libraries" },
    Bench { name: "durable-64-1000", about: "durable calls of 64 callers to 1,000 actors, beside bare transactions" },
    Bench {
        name: "durable-hot-1",
        about: "durable calls of 64 callers to one actor, whose turns wait for syncs or not",
    },
];

/// Measures what the settings ask for.
///
/// # Errors
/// When something breaks.
pub(crate) fn run(settings: &Settings, report: &mut Report) -> Outcome<()> {
    let scratch = Scratch::below(&settings.dir)?;
    if scratch.is_memory() {
        report.note(format!("{} is in memory: syncs cost nothing there, use --dir", settings.dir.display()));
    }
    ask::run(settings, &scratch, report)?;
    if settings.wants("activate-1m") {
        activate::run(settings, &scratch, report)?;
    }
    if settings.wants("durable-64-1000") {
        durable::many(settings, &scratch, report)?;
    }
    if settings.wants("durable-hot-1") {
        durable::hot(settings, &scratch, report)?;
    }
    Ok(())
}

/// What a fresh copy of this program does for one measurement.
///
/// # Errors
/// When something breaks, or the words are not ours.
pub(crate) fn child(words: &[&str]) -> Outcome<Vec<f64>> {
    match *words {
        ["activate", name, folder, count] => activate::measure(name, Path::new(folder), count.parse()?),
        _ => Err(format!("there is no measurement {words:?}").into()),
    }
}
