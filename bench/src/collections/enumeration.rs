//! What an enumeration of everything takes from those who write meanwhile.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use mainstay_core::{Level, task};

use super::node::{Caller, Node};
use super::record::keys;
use super::{durable, load};
use crate::contest::Contest;
use crate::goal::Target;
use crate::load::{Load, runtime};
use crate::measurement::{Measurement, Unit};
use crate::outcome::Outcome;
use crate::report::Report;
use crate::scratch::Scratch;
use crate::settings::Settings;
use crate::stopwatch::Stopwatch;

/// How many entries are enumerated.
const ENTRIES: u64 = 1_000_000;

const WRITERS: usize = 64;

/// How often the writers are measured at most until somebody has enumerated everything beside them. One who takes longer is
/// not what the goal is about: it would be met by not enumerating.
const SPANS_MAX: usize = 20;

const ALONE: &str = "writers alone";
const BESIDE: &str = "writers beside an enumeration";

pub(super) fn run(settings: &Settings, scratch: &Scratch, report: &mut Report) -> Outcome<()> {
    let entries = settings.count(ENTRIES);
    let load = load(settings, WRITERS);
    let keys: Arc<[String]> = keys(entries as usize).into();
    let runtime = Rc::new(runtime()?);
    eprintln!("  preparing {entries} entries");
    let folder = scratch.path().join("enumeration");
    let node = Rc::new(runtime.block_on(Node::start(&folder, Level::Persisted, &keys))?);

    let mut contest = Contest::new();
    let pace = Rc::new(std::cell::RefCell::new(Measurement::new("entries enumerated meanwhile", Unit::PerSecond)));
    {
        let (runtime, node, keys) = (runtime.clone(), node.clone(), keys.clone());
        contest.enter(ALONE, Unit::PerSecond, move |_| runtime.block_on(durable::rate(&node, load, &keys)));
    }
    {
        let (runtime, node, keys, pace) = (runtime.clone(), node.clone(), keys.clone(), pace.clone());
        contest.enter(BESIDE, Unit::PerSecond, move |_| {
            let (rate, enumerated) = runtime.block_on(beside(&node, load, &keys))?;
            pace.borrow_mut().push(enumerated);
            Ok(rate)
        });
    }
    let results = contest.run(settings.rounds(), scratch)?;
    runtime.block_on(node.stop());

    report.goal(results.ratio(BESIDE, ALONE, "writers-beside-enumeration"), Target::AtLeast(0.8));
    let mut rows = results.into_measurements();
    rows.push(pace.borrow().clone());
    report.group(&format!("durable transactions of {WRITERS} callers while {ENTRIES} entries are enumerated"), rows);
    Ok(())
}

/// The rate of the writers, and that of somebody who enumerates everything again and again, at least once from the first
/// entry to the last while the writers are measured.
async fn beside(node: &Node, load: Load, keys: &[String]) -> Outcome<(f64, f64)> {
    let progress = Arc::new(Enumerated::default());
    let watch = Stopwatch::start();
    let enumerating = task::spawn(enumerate(Caller::of(node), progress.clone(), keys.len() as u64));
    let mut rates = Vec::new();
    while rates.is_empty() || (progress.passes() == 0 && rates.len() < SPANS_MAX && !enumerating.is_finished()) {
        rates.push(durable::rate(node, load, keys).await?);
    }
    let (passes, entries, seconds) = (progress.passes(), progress.entries.load(Ordering::Relaxed), watch.seconds());
    progress.stop.store(true, Ordering::Relaxed);
    enumerating.await??;
    if passes == 0 {
        let all = keys.len();
        return Err(
            format!("only {entries} of {all} entries were enumerated in {seconds:.1} s beside the writers").into()
        );
    }
    let enumerated = entries as f64 / seconds;
    eprintln!("  {passes} full enumerations in {seconds:.1} s, {enumerated:.0} entries a second");
    Ok((rates.iter().sum::<f64>() / rates.len() as f64, enumerated))
}

#[derive(Debug, Default)]
struct Enumerated {
    entries: AtomicU64,
    /// How often all of them were enumerated.
    passes: AtomicU64,
    stop: AtomicBool,
}

impl Enumerated {
    fn passes(&self) -> u64 {
        self.passes.load(Ordering::Relaxed)
    }
}

/// Reads every key and value, each time from a new snapshot, until told to stop.
async fn enumerate(caller: Caller, progress: Arc<Enumerated>, expected: u64) -> Outcome<()> {
    loop {
        let mut tx = caller.state.begin();
        let mut entries = caller.records.all().entries(&mut tx).await?;
        let mut found = 0;
        while entries.next().await?.is_some() {
            found += 1;
            progress.entries.fetch_add(1, Ordering::Relaxed);
            if progress.stop.load(Ordering::Relaxed) {
                return Ok(());
            }
        }
        if found != expected {
            return Err(format!("{found} entries were enumerated, not {expected}").into());
        }
        progress.passes.fetch_add(1, Ordering::Relaxed);
    }
}
