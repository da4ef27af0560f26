//! What is said in the end, in plain words.

use std::time::Duration;

use crate::event::RESOURCES;
use crate::evidence::{Finding, Found, Trouble, Verdict};
use crate::latency::Latency;
use crate::output::Output;
use crate::progress::Written;

/// What a run has done.
#[derive(Debug)]
pub struct Run<'a> {
    /// How many events it has had acknowledged.
    pub acknowledged: u64,
    /// How long that took.
    pub took: Duration,
    /// What the writers have written meanwhile.
    pub written: Written,
    /// How long an event took.
    pub latency: &'a Latency,
    /// How many users have moved.
    pub moves: u64,
    /// How many users live where.
    pub homes: [u64; 2],
}

/// Prints what a run has done.
pub fn print_run(run: &Run<'_>, output: &Output) {
    let rate = (run.acknowledged as f64 / run.took.as_secs_f64().max(0.001)) as u64;
    output.say("this run");
    output.say(format!("  {} events acknowledged in {:.1?}: {rate} per second", run.acknowledged, run.took));
    let Written { events, batches, .. } = run.written;
    output.say(format!("  {events} rows in {batches} batches: {} per batch", run.written.per_batch()));
    let [p50, p90, p99] = [50.0, 90.0, 99.0].map(|percent| run.latency.percentile(percent));
    output.say(format!("  latency p50 {p50:.1?}, p90 {p90:.1?}, p99 {p99:.1?}"));
    let [east, west] = run.homes;
    output.say(format!(
        "  {} moves of users; {east} live on {} now, {west} on {}",
        run.moves, RESOURCES[0], RESOURCES[1]
    ));
}

/// Prints what was proved, by a run that has had so many events acknowledged itself.
pub fn print_verdict(verdict: &Verdict, found: &Found, by_this_run: u64, output: &Output) {
    output.say(format!("read back from {} files of {} bytes", found.files, found.bytes));
    output.say(format!("  events acknowledged, in all runs: {}", verdict.acknowledged));
    output.say(format!("  without an acknowledgement:       {}", verdict.unacknowledged));
    output.say(format!("  rows in the files:                {}", verdict.rows));
    for (what, trouble) in verdict.troubles() {
        output.say(format!("  {what}: {}{}", trouble.count, shown(trouble)));
    }
    let proved = match verdict.unacknowledged {
        0 => "events acknowledged = rows written, once each",
        _ => "events acknowledged + those without an acknowledgement = rows written, once each",
    };
    match verdict.finding() {
        Finding::Proved if by_this_run == 0 => {
            output.say(format!("PROVED of earlier runs: {proved}"));
            output.say("of this run nothing was proved, because it has had no event acknowledged");
        }
        Finding::Proved => output.say(format!("PROVED: {proved}")),
        Finding::NotProved => {
            output.say("NOT PROVED: the rows written are not the events on record, once each: this is a defect");
        }
        Finding::NothingProved => {
            output.say("NOTHING PROVED: no event was acknowledged, so there was nothing to compare");
        }
    }
}

fn shown(trouble: &Trouble) -> String {
    if trouble.shown.is_empty() { String::new() } else { format!(" (such as {:?})", trouble.shown) }
}
