//! Durable commits on three replicas that share one disk and one process.

use std::time::Duration;

use super::{commits, log};
use crate::contest::{Contest, Results};
use crate::load::Load;
use crate::measurement::{Measurement, Unit};
use crate::settings::Settings;

/// Three replicas, so that one may be lost.
const NODES: u64 = 3;

/// The shapes that are measured: sets and writers. Those that are held against each other come last, one after the
/// other: the less time between two, the more alike the machine.
const SHAPES: [(u16, usize); 6] = [(1, 1), (1, 64), (8, 1), (8, 1024), (1, 1024), (8, 64)];

/// How long a contender runs before anything counts: three new logs zero their files on one disk.
const WARM_UP: Duration = Duration::from_millis(4500);

/// How long it is measured: from one second to the next the rate varies by a third, since five threads share the cores and three
/// logs the disk.
const SPAN: Duration = Duration::from_secs(6);

pub(super) fn enter(contest: &mut Contest, settings: &Settings) {
    for (sets, writers) in SHAPES {
        let load = Load { writers, warm_up: settings.span(WARM_UP), span: settings.span(SPAN) };
        contest.enter(&name(sets, writers), Unit::PerSecond, move |folder| commits::commit(folder, load, NODES, sets));
    }
}

/// With eight sets, against a third of the bare log: three replicas write everything three times.
pub(super) fn versus_log(results: &Results) -> Option<Measurement> {
    let ours = results.get(&name(8, 64))?;
    let ideal = |commits, appends| commits / (appends / NODES as f64);
    Some(ours.with(results.get(log::OURS)?, "three-replicas-8-sets-vs-log-third", Unit::Ratio, ideal))
}

/// What eight sets with few writers each lose against one set with many.
pub(super) fn versus_one_set(results: &Results) -> Option<Measurement> {
    results.ratio(&name(8, 64), &name(1, 1024), "three-replicas-8-sets-vs-1-set-1024")
}

fn name(sets: u16, writers: usize) -> String {
    format!("three replicas, sets {sets}, writers {writers}")
}
