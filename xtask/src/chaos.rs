//! `cargo xtask chaos`: real processes under real faults, with a load that is judged in the end.
//!
//! The application is `mainstay-chaos`: nodes, a load, and checkers. Where we are root, each process gets a network namespace of its own,
//! joined by a bridge in yet another one: nothing of the machine's own network is touched, and only addresses inside are used.
//! Elsewhere all of it is on loopback, and what cannot be done there is said.
//!
//! A plan is a pure function of the seed. Each round applies one fault under load, heals it, and waits until every object has
//! answered a call that was made after that.

mod cleanup;
mod cluster;
mod disk;
mod fault;
mod hosts;
mod injector;
mod loading;
mod namespaces;
mod needs;
mod plan;
mod process;
mod report;
mod run;
mod shell;
mod time;

use std::time::Duration;

use clap::Args;

use self::fault::Fault;
use self::run::Run;
use crate::command::Outcome;

/// How many nodes the short run of a check has. With one, it shows kills, pauses, full disks, and what the network does to callers.
const BRIEF_NODES: usize = 1;

/// How long the short run of a check may last, building and cleaning apart.
const BRIEF_MINUTES: u64 = 2;

/// What to do to the processes. One fault at a time, each under load.
#[derive(Debug, Clone, Args)]
pub(crate) struct Chaos {
    /// How many nodes: 1, 3 or 5
    #[arg(long, default_value = "3", value_parser = nodes)]
    pub(crate) nodes: usize,
    /// How many faults, one after the other
    #[arg(long, default_value_t = 16)]
    pub(crate) rounds: usize,
    /// The seed of the plan and of what the load asks for
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Which faults; all that can be done here unless told otherwise
    #[arg(long, value_delimiter = ',')]
    pub(crate) faults: Vec<Fault>,
    /// Begins no round after so many minutes
    #[arg(long, value_name = "M")]
    pub(crate) minutes: Option<u64>,
    /// How many calls a second the load makes
    #[arg(long, default_value_t = 200)]
    pub(crate) rate: u32,
    /// How many call at a time
    #[arg(long, default_value_t = 16)]
    pub(crate) callers: usize,
    /// How long the system may take to be whole again after a fault, in seconds
    #[arg(long, default_value_t = 60)]
    pub(crate) converge_seconds: u64,
    /// Builds the application as a release
    #[arg(long)]
    pub(crate) release: bool,
    /// Everything on loopback, even where namespaces could be had
    #[arg(long)]
    pub(crate) loopback: bool,
    /// Keeps histories, logs and data of a run that finds nothing, too
    #[arg(long)]
    pub(crate) keep: bool,
    /// The short run that a check makes: one round of each fault, within a few minutes
    #[arg(long, conflicts_with_all = ["nodes", "rounds", "minutes"])]
    pub(crate) brief: bool,
    /// Waits until the input ends, and cleans up after the process of this id; started by a run for itself
    #[arg(long, hide = true, value_name = "PROCESS")]
    janitor: Option<u32>,
}

fn nodes(text: &str) -> Result<usize, String> {
    match text {
        "1" => Ok(1),
        "3" => Ok(3),
        "5" => Ok(5),
        _ => Err(format!("{text:?}: use 1, 3 or 5")),
    }
}

impl Chaos {
    /// Runs the rounds, and fails if a promise was broken.
    pub(crate) fn run(&self) -> Outcome {
        match self.janitor {
            Some(process) => cleanup::wait_and_clean(process),
            None if self.brief => brief(self.seed, Duration::from_secs(BRIEF_MINUTES * 60)),
            None => Run::new(self.clone()).go(),
        }
    }
}

/// What a stage of `cargo xtask check` runs: one round of each fault, and no round after the time is up.
///
/// To switch it on: add `Chaos` to `Stage`, with `chaos::brief(seed, limit)` in its `run`, and its title and remedy; three nodes are
/// `BRIEF_NODES`.
pub(crate) fn brief(seed: u64, limit: Duration) -> Outcome {
    Run::new(Chaos {
        nodes: BRIEF_NODES,
        rounds: Fault::ALL.len(),
        seed,
        faults: Vec::new(),
        minutes: Some(limit.as_secs().div_ceil(60)),
        rate: 150,
        callers: 12,
        converge_seconds: 90,
        release: false,
        loopback: false,
        keep: false,
        brief: true,
        janitor: None,
    })
    .go()
}
