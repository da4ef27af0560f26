//! Simulates replica sets by seed, and replays a seed that failed.

use std::io::{IsTerminal as _, Write as _};
use std::ops::RangeInclusive;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use clap::{CommandFactory as _, Parser};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use mainstay_core::random;
use mainstay_sim::{Counts, Report, Settings, regressions, run};
use parking_lot::Mutex;
use rand::RngExt as _;

/// How often a run tells how far it is, where nobody sees a bar.
const NEWS_SECS: u64 = 60;

/// Fresh seeds are below this: enough never to meet one twice, and short enough to be typed.
const FRESH_SEEDS: u64 = 1_000_000_000_000;

/// What a shell says of a command that ended because nobody reads its output any more.
const PIPE_CLOSED: i32 = 141;

/// Crash, cut and reconfigure replicas on simulated time, disk and network, and check that nothing acknowledged is lost.
#[derive(Debug, Parser)]
#[command(name = "mainstay-sim", version)]
struct Arguments {
    /// How many seeds to run.
    #[arg(long, value_name = "N", default_value_t = 100, conflicts_with = "seed", value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,

    /// The first of them.
    #[arg(long, value_name = "S", default_value_t = 1, conflicts_with = "seed")]
    first_seed: u64,

    /// Draw the first of them anew, and print it.
    #[arg(long, conflicts_with_all = ["first_seed", "seed"])]
    fresh: bool,

    /// Run just this seed.
    #[arg(long, value_name = "S")]
    seed: Option<u64>,

    /// Run the seeds that have failed once, instead.
    #[arg(long, conflicts_with_all = ["seeds", "first_seed", "fresh", "seed"])]
    regressions: bool,

    /// Print every event of the seed, with its simulated time.
    #[arg(long, requires = "seed")]
    trace: bool,

    /// How many seeds to run at a time; one per core if not given.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1024))]
    jobs: Option<u64>,

    /// A known bug to run with, to see that a checker objects.
    #[cfg(feature = "planted-bugs")]
    #[arg(long, value_name = "BUG", value_parser = planted_bug)]
    plant: Option<mainstay_sim::planted::PlantedBug>,
}

#[cfg(feature = "planted-bugs")]
fn planted_bug(name: &str) -> Result<mainstay_sim::planted::PlantedBug, String> {
    use mainstay_sim::planted::PlantedBug;
    PlantedBug::all().find(|bug| bug.name() == name).ok_or_else(|| {
        let names: Vec<&str> = PlantedBug::all().map(PlantedBug::name).collect();
        format!("there is none of this name: choose one of {}", names.join(", "))
    })
}

impl Arguments {
    fn settings(&self, seed: u64) -> Settings {
        Settings {
            seed,
            #[cfg(feature = "planted-bugs")]
            bug: self.plant,
            ..Settings::default()
        }
    }

    /// What runs a seed again, with all that happens in it.
    fn replay_command(&self, seed: u64) -> String {
        let (features, plant) = self.plant_words();
        format!("cargo run --profile sim -p mainstay-sim{features} -- --seed {seed} --trace{plant}")
    }

    #[cfg(feature = "planted-bugs")]
    fn plant_words(&self) -> (&'static str, String) {
        match self.plant {
            Some(bug) => (" --features planted-bugs", format!(" --plant {}", bug.name())),
            None => ("", String::new()),
        }
    }

    #[cfg(not(feature = "planted-bugs"))]
    fn plant_words(&self) -> (&'static str, String) {
        ("", String::new())
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match arguments.seed {
        Some(seed) => replay(seed, &arguments),
        None if arguments.regressions => {
            let seeds = regressions().map(|regression| regression.seed);
            sweep(seeds, regressions().count() as u64, &arguments)
        }
        None => sweep(row(&arguments), arguments.seeds, &arguments),
    }
}

/// Prints a line. Whoever reads may have seen enough, as `head` has: then this ends, like others whose pipe is closed.
fn say(line: std::fmt::Arguments<'_>) {
    match writeln!(std::io::stdout(), "{line}") {
        Ok(()) => {}
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => std::process::exit(PIPE_CLOSED),
        Err(error) => {
            eprintln!("error: what was found out cannot be printed: {error}");
            std::process::exit(1);
        }
    }
}

fn replay(seed: u64, arguments: &Arguments) -> ExitCode {
    let say_line = |line: &str| say(format_args!("{line}"));
    let sink = arguments.trace.then(|| Box::new(say_line) as Box<dyn FnMut(&str) + Send>);
    let report = run(Settings { sink, ..arguments.settings(seed) });
    if let Some(violation) = &report.violation {
        // Before all else, because it must be known even if nobody reads the rest.
        eprintln!("seed {seed} FAILED: {violation}");
    }
    say(format_args!(
        "seed {seed}: {} events in {:.1} simulated seconds, {} commits acknowledged, {} unknown, {} reads; \
         done, of what was tried: {}",
        report.events,
        report.simulated.as_secs_f64(),
        report.acknowledged,
        report.unknown,
        report.reads,
        report.troubles,
    ));
    if report.violation.is_some() {
        return ExitCode::FAILURE;
    }
    say(format_args!("no checker objects; trace digest {:016x}", report.digest));
    ExitCode::SUCCESS
}

/// The seeds in a row that were asked for.
fn row(arguments: &Arguments) -> RangeInclusive<u64> {
    let first = match arguments.fresh {
        true => random::rng().random_range(0..FRESH_SEEDS),
        false => arguments.first_seed,
    };
    let Some(last) = first.checked_add(arguments.seeds - 1) else {
        let text = format!("{} seeds from {first} on go beyond the last, {}", arguments.seeds, u64::MAX);
        Arguments::command().error(clap::error::ErrorKind::ValueValidation, text).exit();
    };
    if arguments.fresh {
        say(format_args!("seeds {first} to {last}: --first-seed {first} --seeds {} runs them again", arguments.seeds));
    }
    first..=last
}

fn sweep(seeds: impl Iterator<Item = u64> + Send, count: u64, arguments: &Arguments) -> ExitCode {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
    let jobs = arguments.jobs.unwrap_or(cores);
    let next = Mutex::new(seeds);
    let failed = AtomicBool::new(false);
    let total = Mutex::new(Total::default());
    let bar = progress_bar(count);
    let told = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                while !failed.load(Ordering::Relaxed) {
                    let Some(seed) = next.lock().next() else { break };
                    let report = run(arguments.settings(seed));
                    failed.fetch_or(report.violation.is_some(), Ordering::Relaxed);
                    total.lock().add(report);
                    bar.inc(1);
                    let news = bar.elapsed().as_secs() / NEWS_SECS;
                    if bar.is_hidden() && told.fetch_max(news, Ordering::Relaxed) < news {
                        eprintln!("{} of {} seeds after {} s", bar.position(), count, news * NEWS_SECS);
                    }
                }
            });
        }
    });
    let elapsed = bar.elapsed();
    bar.finish_and_clear();
    total.into_inner().print(elapsed, arguments)
}

fn progress_bar(seeds: u64) -> ProgressBar {
    let bar = ProgressBar::new(seeds);
    // A log is no place for a bar that moves.
    if !std::io::stderr().is_terminal() {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    let per_minute = |state: &indicatif::ProgressState, out: &mut dyn std::fmt::Write| {
        let _ = write!(out, "{:.0}", state.per_sec() * 60.0);
    };
    let template = "{elapsed_precise} {wide_bar} {pos}/{len} seeds, {per_minute} per minute, {eta} to go";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.with_key("per_minute", per_minute));
    }
    bar
}

/// What all runs together came to.
#[derive(Default)]
struct Total {
    seeds: u64,
    acknowledged: u64,
    unknown: u64,
    reads: u64,
    shared: u64,
    troubles: Counts,
    simulated_secs: f64,
    failures: Vec<Report>,
}

impl Total {
    fn add(&mut self, report: Report) {
        self.seeds += 1;
        self.acknowledged += report.acknowledged;
        self.unknown += report.unknown;
        self.reads += report.reads;
        self.shared += report.shared;
        self.troubles += report.troubles;
        self.simulated_secs += report.simulated.as_secs_f64();
        if report.violation.is_some() {
            self.failures.push(report);
        }
    }

    fn print(&self, elapsed: std::time::Duration, arguments: &Arguments) -> ExitCode {
        for report in &self.failures {
            // Before all else, because it must be known even if nobody reads the rest.
            let violation = report.violation.as_deref().unwrap_or_default();
            eprintln!("seed {} FAILED: {violation}", report.seed);
            eprintln!("  replay: {}", arguments.replay_command(report.seed));
        }
        let minutes = elapsed.as_secs_f64() / 60.0;
        say(format_args!("{} seeds, {:.0} per minute", self.seeds, self.seeds as f64 / minutes.max(1e-9)));
        say(format_args!("{:.1} hours simulated", self.simulated_secs / 3600.0));
        say(format_args!("done, of what was tried: {}", self.troubles));
        say(format_args!("faults of disks: {}", self.troubles.disk_faults));
        say(format_args!(
            "{} commits acknowledged, {} of unknown outcome, {} reads; {} operations on shared registers",
            self.acknowledged, self.unknown, self.reads, self.shared
        ));
        if !self.failures.is_empty() {
            return ExitCode::FAILURE;
        }
        say(format_args!("every acknowledged commit is on all replicas, in the same order; no checker objects"));
        ExitCode::SUCCESS
    }
}
