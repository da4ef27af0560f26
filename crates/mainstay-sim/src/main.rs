//! Simulates replica sets by seed, and replays a seed that failed.

use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use clap::Parser;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use mainstay_sim::{Report, Settings, run};
use parking_lot::Mutex;

/// Crash, cut and reconfigure replicas on simulated time, disk and network, and check that nothing acknowledged is lost.
#[derive(Debug, Parser)]
#[command(name = "mainstay-sim", version)]
struct Arguments {
    /// How many seeds to run, one after the other.
    #[arg(long, value_name = "N", default_value_t = 100, conflicts_with = "seed")]
    seeds: u64,

    /// The first of them.
    #[arg(long, value_name = "S", default_value_t = 1, conflicts_with = "seed")]
    first_seed: u64,

    /// Run just this seed.
    #[arg(long, value_name = "S")]
    seed: Option<u64>,

    /// Print every event of the seed, with its simulated time.
    #[arg(long, requires = "seed")]
    trace: bool,

    /// How many seeds to run at a time; one per core if not given.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1024))]
    jobs: Option<u64>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match arguments.seed {
        Some(seed) => replay(seed, arguments.trace),
        None => sweep(&arguments),
    }
}

fn replay(seed: u64, trace: bool) -> ExitCode {
    let sink = trace.then(|| Box::new(|line: &str| println!("{line}")) as Box<dyn FnMut(&str) + Send>);
    let report = run(Settings { seed, sink, ..Settings::default() });
    println!(
        "seed {seed}: {} events in {:.1} simulated seconds, {} commits acknowledged, {} unknown, {} reads, {:?}",
        report.events,
        report.simulated.as_secs_f64(),
        report.acknowledged,
        report.unknown,
        report.reads,
        report.troubles,
    );
    match report.violation {
        None => {
            println!("no checker objects; trace digest {:016x}", report.digest);
            ExitCode::SUCCESS
        }
        Some(violation) => {
            eprintln!("seed {seed} FAILED: {violation}");
            ExitCode::FAILURE
        }
    }
}

fn sweep(arguments: &Arguments) -> ExitCode {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
    let jobs = arguments.jobs.unwrap_or(cores);
    let end = arguments.first_seed.saturating_add(arguments.seeds);
    let next = AtomicU64::new(arguments.first_seed);
    let failed = AtomicBool::new(false);
    let total = Mutex::new(Total::default());
    let bar = progress_bar(arguments.seeds);
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                while !failed.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end {
                        break;
                    }
                    let report = run(Settings { seed, ..Settings::default() });
                    failed.fetch_or(report.violation.is_some(), Ordering::Relaxed);
                    total.lock().add(report);
                    bar.inc(1);
                }
            });
        }
    });
    let elapsed = bar.elapsed();
    bar.finish_and_clear();
    total.into_inner().print(elapsed)
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
    crashes: u64,
    network_troubles: u64,
    member_changes: u64,
    hand_overs: u64,
    simulated_secs: f64,
    failures: Vec<Report>,
}

impl Total {
    fn add(&mut self, report: Report) {
        self.seeds += 1;
        self.acknowledged += report.acknowledged;
        self.unknown += report.unknown;
        self.reads += report.reads;
        self.crashes += report.troubles.crashes;
        self.network_troubles += report.troubles.network_troubles;
        self.member_changes += report.troubles.member_changes;
        self.hand_overs += report.troubles.hand_overs;
        self.simulated_secs += report.simulated.as_secs_f64();
        if report.violation.is_some() {
            self.failures.push(report);
        }
    }

    fn print(&self, elapsed: std::time::Duration) -> ExitCode {
        let minutes = elapsed.as_secs_f64() / 60.0;
        println!("{} seeds, {:.0} per minute", self.seeds, self.seeds as f64 / minutes.max(1e-9));
        println!("{:.1} hours simulated", self.simulated_secs / 3600.0);
        println!(
            "{} crashes, {} network troubles, {} hand-overs, {} member changes",
            self.crashes, self.network_troubles, self.hand_overs, self.member_changes
        );
        println!(
            "{} commits acknowledged, {} of unknown outcome, {} reads",
            self.acknowledged, self.unknown, self.reads
        );
        if self.failures.is_empty() {
            println!("every acknowledged commit is on all replicas, in the same order; no checker objects");
            return ExitCode::SUCCESS;
        }
        for report in &self.failures {
            let violation = report.violation.as_deref().unwrap_or_default();
            eprintln!("seed {} FAILED: {violation}", report.seed);
            eprintln!("  replay: cargo run --release -p mainstay-sim -- --seed {} --trace", report.seed);
        }
        ExitCode::FAILURE
    }
}
