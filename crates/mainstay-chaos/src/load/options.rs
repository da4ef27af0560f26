use std::path::PathBuf;
use std::time::Duration;

use crate::action::Object;
use crate::workload::bank::BANKS;

/// How much is called, and for how long.
#[derive(Debug, Clone, clap::Args)]
pub struct LoadOptions {
    /// The seed of what is asked for. When, and what is answered, depends on the machine
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// The number of this load among those whose histories are checked together
    #[arg(long, default_value_t = 1)]
    pub run: u32,
    /// How many call at a time
    #[arg(long, default_value_t = 16, value_parser = at_least_one)]
    pub callers: usize,
    /// How many calls a second all of them make together, at most
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub rate: u32,
    /// How long they call, unless they are told to end earlier
    #[arg(long, default_value_t = 30)]
    pub seconds: u64,
    /// How long a call may take, in milliseconds
    #[arg(long, default_value_t = 5_000)]
    pub call_time_ms: u64,
    /// How long the last look at every object may take, in seconds
    #[arg(long, default_value_t = 60)]
    pub closing_seconds: u64,
    /// Where the history is written: there is no file yet
    #[arg(long)]
    pub history: PathBuf,
    /// How many objects there are
    #[command(flatten)]
    pub objects: Objects,
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number @ 1..=1_000) => Ok(number),
        _ => Err(format!("{text:?}: use 1 to 1000")),
    }
}

impl LoadOptions {
    /// How long they call.
    pub fn time(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }

    /// How long a caller rests between two calls so that all keep the rate.
    pub(crate) fn pause(&self) -> Duration {
        Duration::from_secs_f64(self.callers as f64 / f64::from(self.rate))
    }
}

/// How many objects there are of each kind. Banks are as many as their service has partitions.
#[derive(Debug, Clone, clap::Args)]
pub struct Objects {
    /// How many registers
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub registers: u32,
    /// How many counters; on every other one, a call of unknown outcome is repeated by its key until it is known
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub counters: u32,
    /// How many journals
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub journals: u32,
    /// How many tickers
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub tickers: u32,
}

impl Default for Objects {
    fn default() -> Self {
        Self { registers: 12, counters: 8, journals: 4, tickers: 4 }
    }
}

impl Objects {
    /// All of them.
    pub fn all(&self) -> Vec<Object> {
        (0..self.registers)
            .map(Object::Register)
            .chain((0..self.counters).map(Object::Counter))
            .chain((0..self.journals).map(Object::Journal))
            .chain((0..self.tickers).map(Object::Ticker))
            .chain((0..BANKS).map(Object::Bank))
            .collect()
    }
}
