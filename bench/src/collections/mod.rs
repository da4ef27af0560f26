//! The goals of transactions and collections: what a change costs durably, in memory, and beside an enumeration.

mod node;
mod record;

mod durable;
mod peers;

mod breakdown;
mod in_memory;

mod enumeration;

pub(crate) use durable::change;
pub(crate) use record::{Record, keys};

use std::time::Duration;

use crate::load::Load;
use crate::outcome::Outcome;
use crate::report::Report;
use crate::scratch::Scratch;
use crate::section::Bench;
use crate::settings::Settings;

/// What can be chosen with `--only`.
pub(crate) const BENCHES: &[Bench] = &[
    Bench { name: "durable", about: "durable transactions of one key, 1 and 64 callers, beside embedded databases" },
    Bench { name: "none", about: "transactions of level none, 1 and 64 callers, beside a sharded map; a breakdown" },
    Bench { name: "volatile", about: "volatile transactions of one caller, against durable ones" },
    Bench { name: "snapshot", about: "durable transactions of 64 callers while 1,000,000 entries are enumerated" },
];

/// How long a contender is measured in a round.
const SPAN: Duration = Duration::from_secs(3);

/// How long a contender runs before anything counts.
const WARM_UP: Duration = Duration::from_millis(1500);

/// Measures what the settings ask for.
///
/// # Errors
/// When something breaks.
pub(crate) fn run(settings: &Settings, report: &mut Report) -> Outcome<()> {
    let scratch = Scratch::below(&settings.dir)?;
    if scratch.is_memory() {
        report.note(format!("{} is in memory: syncs cost nothing there, use --dir", settings.dir.display()));
    }
    if settings.wants("durable") {
        durable::run(settings, &scratch, report)?;
    }
    if settings.wants("none") {
        in_memory::none(settings, &scratch, report)?;
    }
    if settings.wants("volatile") {
        in_memory::volatile(settings, &scratch, report)?;
    }
    if settings.wants("snapshot") {
        enumeration::run(settings, &scratch, report)?;
    }
    Ok(())
}

fn load(settings: &Settings, writers: usize) -> Load {
    Load { writers, warm_up: settings.span(WARM_UP), span: settings.span(SPAN) }
}
