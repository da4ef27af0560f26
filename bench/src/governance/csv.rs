//! Rows into a CSV file, synced after each batch.

use std::io::{BufRead as _, BufReader};
use std::path::Path;

use super::callers::Written;
use super::peers::by_hand;
use super::{CALLERS, SHARE_OF_BY_HAND, load, name, ours, runtime};
use crate::contest::Contest;
use crate::goal::Target;
use crate::measurement::Unit;
use crate::outcome::Outcome;
use crate::report::Report;
use crate::scratch::Scratch;
use crate::settings::Settings;

const OURS: &str = "owner";
const BY_HAND: &str = "one thread by hand";

pub(super) fn run(settings: &Settings, scratch: &Scratch, report: &mut Report) -> Outcome<()> {
    let mut contest = Contest::new();
    for callers in CALLERS {
        let load = load(settings, callers);
        contest.enter(&name(OURS, callers), Unit::PerSecond, move |folder| {
            let files = folder.join("files");
            let written = runtime()?.block_on(ours::csv(&folder.join("node"), load, &files))?;
            checked(&written, &files)
        });
        contest.enter(&name(BY_HAND, callers), Unit::PerSecond, move |folder| {
            let written = runtime()?.block_on(by_hand::csv(load, &folder.join("events.csv")))?;
            checked(&written, folder)
        });
    }
    let results = contest.run(settings.rounds(), scratch)?;
    for callers in CALLERS {
        let goal = format!("csv-{callers}-vs-by-hand");
        let ratio = results.ratio(&name(OURS, callers), &name(BY_HAND, callers), &goal);
        report.goal(ratio, Target::AtLeast(SHARE_OF_BY_HAND));
    }
    report
        .group("rows per second into a CSV file, each durable before its caller goes on", results.into_measurements());
    Ok(())
}

/// The rate, if the files of a folder have as many rows as were acknowledged.
fn checked(written: &Written, folder: &Path) -> Outcome<f64> {
    let mut rows = 0;
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "csv") {
            // Without the line of column names; no text of an event has a line break.
            rows += BufReader::new(std::fs::File::open(path)?).lines().count().saturating_sub(1) as u64;
        }
    }
    if rows != written.rows {
        return Err(format!("the files have {rows} rows of {} that were acknowledged", written.rows).into());
    }
    Ok(written.rate)
}
