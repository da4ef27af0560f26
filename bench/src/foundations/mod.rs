//! The goals of the ground: what a durable commit, an idle node, a commit in memory and a restart may cost.

mod cluster;
mod payload;

mod log;
mod peers;

mod commits;
mod replicas;

mod idle;
mod latency;
mod restart;

use std::path::Path;
use std::time::Duration;

use crate::contest::Contest;
use crate::goal::Target;
use crate::load::Load;
use crate::outcome::Outcome;
use crate::report::Report;
use crate::scratch::Scratch;
use crate::section::Bench;
use crate::settings::Settings;

/// What can be chosen with `--only`.
pub(crate) const BENCHES: &[Bench] = &[
    Bench { name: "log", about: "durable appends to the bare node log, 64 writers (and raft-engine's)" },
    Bench { name: "commits", about: "durable commits on one replica, 64 writers, beside embedded databases" },
    Bench { name: "replicas", about: "durable commits on three replicas, 1 and 8 sets, 1 to 1,024 writers" },
    Bench { name: "idle", about: "what a node costs while nobody asks for anything" },
    Bench { name: "latency", about: "one writer at the levels none and volatile" },
    Bench { name: "restart", about: "time and memory to be ready again" },
];

/// How many write at once, unless a bench says otherwise.
const WRITERS: usize = 64;

/// How long a contender is measured in a round.
const SPAN: Duration = Duration::from_secs(3);

/// How long a contender runs before anything counts: files are made, and caches filled.
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
    durable_writes(settings, &scratch, report)?;
    if settings.wants("idle") {
        idle::run(settings, &scratch, report)?;
    }
    if settings.wants("latency") {
        latency::run(settings, &scratch, report)?;
    }
    if settings.wants("restart") {
        restart::run(settings, &scratch, report)?;
    }
    Ok(())
}

/// One contest for all that is held against the bare log, so that all of it is measured in turns.
fn durable_writes(settings: &Settings, scratch: &Scratch, report: &mut Report) -> Outcome<()> {
    if !["log", "commits", "replicas"].iter().any(|bench| settings.wants(bench)) {
        return Ok(());
    }
    let contest = writers(settings, report).in_copies(&["foundations", "writers", settings.pace()]);
    let results = contest.run(settings.rounds(), scratch)?;

    report.goal(results.ratio(log::OURS, log::RAFT_ENGINE, "log-vs-raft-engine"), Target::AtLeast(2.0));
    report.goal(results.ratio(commits::OURS, log::OURS, "commit-vs-log"), Target::AtLeast(0.7));
    report.goal(commits::versus_best(&results), Target::AtLeast(4.0));
    report.goal(results.ratio(commits::OURS, commits::ROCKSDB, "commit-vs-rocksdb"), Target::AtLeast(1.5));
    report.goal(replicas::versus_log(&results), Target::AtLeast(0.5));
    report.goal(replicas::versus_one_set(&results), Target::AtLeast(0.5));
    report.group("durable writes of 100 bytes", results.into_measurements());
    Ok(())
}

/// Everybody who writes durably.
fn writers(settings: &Settings, report: &mut Report) -> Contest {
    let load = load(settings, WRITERS);
    let mut contest = Contest::new();
    if settings.wants("replicas") {
        replicas::enter(&mut contest, settings);
    }
    if settings.wants("log") {
        log::enter_peers(&mut contest, load, report);
    }
    log::enter(&mut contest, load);
    if settings.wants("commits") {
        commits::enter(&mut contest, load, report);
    }
    contest
}

fn load(settings: &Settings, writers: usize) -> Load {
    Load { writers, warm_up: settings.span(WARM_UP), span: settings.span(SPAN) }
}

/// What a fresh copy of this program does for one measurement.
///
/// # Errors
/// When something breaks, or the words are not ours.
pub(crate) fn child(words: &[&str]) -> Outcome<Vec<f64>> {
    match *words {
        ["writers", pace, name, folder] => {
            let settings = Settings::told(pace);
            let mut report = Report::new("foundations", settings.quick, 1);
            Ok(vec![writers(&settings, &mut report).measure(name, Path::new(folder))?])
        }
        ["latency", pace, name, folder] => {
            Ok(vec![latency::contest(&Settings::told(pace)).measure(name, Path::new(folder))?])
        }
        ["idle-cluster", folder, settle, span] => idle::cluster(Path::new(folder), seconds(settle)?, seconds(span)?),
        ["idle-node", folder, settle, span] => idle::node(Path::new(folder), seconds(settle)?, seconds(span)?),
        ["restart-fill", folder, state, log] => restart::fill(Path::new(folder), state.parse()?, log.parse()?),
        ["restart-open", folder, state] => restart::open(Path::new(folder), state.parse()?),
        _ => Err(format!("there is no measurement {words:?}").into()),
    }
}

fn seconds(word: &str) -> Outcome<Duration> {
    Ok(Duration::try_from_secs_f64(word.parse()?)?)
}
