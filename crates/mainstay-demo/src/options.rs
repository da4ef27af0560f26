//! What can be said on the command line.

use std::path::PathBuf;

use clap::Parser;

use crate::numbers::EVENTS_MAX;

/// The most callers: so many events can be under way.
pub const CALLERS_MAX: u64 = 10_000;

/// An event pipeline that keeps its word: workers, one durable writer per type of event, batched CSV files, and users that
/// move between two resources while traffic runs. In the end it reads everything back and says what was proved.
///
/// Exits with 0 if it was proved that events acknowledged are rows written, once each, beside those whose acknowledgement was
/// cut off by the end of a process; with 1 if not, or if it failed; and with 3 if nothing was proved, because no event was acknowledged.
#[derive(Debug, Clone, Parser)]
#[command(name = "mainstay-demo", version)]
pub struct Options {
    /// Where everything is kept. Start again with the same folder to go on from there; delete it to begin anew.
    #[arg(long, value_name = "FOLDER", default_value = "mainstay-demo-data")]
    pub data_dir: PathBuf,

    /// How many events to send, beside those that an earlier run could not finish. Ctrl-C ends it earlier. A folder may have
    /// 100,000,000 in all: everything is held against what was read back, in memory.
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(0..=EVENTS_MAX))]
    pub events: u64,

    /// How many callers send at the same time.
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u64).range(1..=CALLERS_MAX))]
    pub callers: u64,
}
