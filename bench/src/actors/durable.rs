//! Durable calls: what is left of the rate of bare transactions when actors stand in front of them.

use std::sync::Arc;
use std::time::Duration;

use mainstay_core::Level;

use super::ours::{self, Overlap};
use crate::collections;
use crate::contest::Contest;
use crate::goal::Target;
use crate::load::Load;
use crate::measurement::Unit;
use crate::outcome::Outcome;
use crate::report::Report;
use crate::scratch::Scratch;
use crate::settings::Settings;

/// How many callers at once.
const CALLERS: usize = 64;

/// How many actors, and how many keys for the bare transactions.
const ACTORS: usize = 1000;

/// How long a contender is measured in a round.
const SPAN: Duration = Duration::from_secs(3);

/// How long a contender runs before anything counts.
const WARM_UP: Duration = Duration::from_millis(1500);

const OURS: &str = "mainstay, persisted actors";
const BARE: &str = "mainstay-state, bare transactions";
const OVERLAPPING: &str = "turns go on while commits are under way";
const WAITING: &str = "each turn waits for its own commit";

/// Both change a record of about 100 bytes in one partition, and every caller has its own actors or keys: locks would cost
/// the bare transactions more than turns cost the actors.
pub(super) fn many(settings: &Settings, scratch: &Scratch, report: &mut Report) -> Outcome<()> {
    let load = load(settings);
    let keys: Arc<[String]> = collections::keys(ACTORS).into();
    let ids = keys.clone();
    let mut contest = Contest::new();
    contest.enter(OURS, Unit::PerSecond, move |folder| ours::durable(folder, load, &ids, Overlap::On));
    contest.enter(BARE, Unit::PerSecond, move |folder| collections::change(folder, Level::Persisted, load, &keys));
    let results = contest.run(settings.rounds(), scratch)?;
    report.goal(results.ratio(OURS, BARE, "durable-64-1000-vs-transactions"), Target::AtLeast(0.6));
    report.group("durable calls of 64 callers to 1,000 actors", results.into_measurements());
    Ok(())
}

/// All callers want the same actor, so only one turn at a time runs: what a commit takes counts in full, unless the next turn
/// runs meanwhile.
pub(super) fn hot(settings: &Settings, scratch: &Scratch, report: &mut Report) -> Outcome<()> {
    let load = load(settings);
    let mut contest = Contest::new();
    for (name, overlap) in [(OVERLAPPING, Overlap::On), (WAITING, Overlap::Off)] {
        let ids = collections::keys(1);
        contest.enter(name, Unit::PerSecond, move |folder| ours::durable(folder, load, &ids, overlap));
    }
    let results = contest.run(settings.rounds(), scratch)?;
    report.goal(results.ratio(OVERLAPPING, WAITING, "durable-hot-1-vs-waiting-turns"), Target::AtLeast(10.0));
    report.group("durable calls of 64 callers to one actor", results.into_measurements());
    Ok(())
}

fn load(settings: &Settings) -> Load {
    Load { writers: CALLERS, warm_up: settings.span(WARM_UP), span: settings.span(SPAN) }
}
