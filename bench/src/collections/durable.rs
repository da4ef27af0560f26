//! Durable transactions on one replica, beside what embedded databases do with the same work.

use std::path::Path;
use std::sync::Arc;

use mainstay_core::Level;

use super::node::{Caller, Node};
use super::record::{KEYS, keys};
use super::{load, peers};
use crate::contest::{Contest, Results};
use crate::goal::Target;
use crate::load::{Load, Writer, runtime};
use crate::measurement::{Measurement, Unit};
use crate::outcome::Outcome;
use crate::report::Report;
use crate::scratch::Scratch;
use crate::settings::Settings;
use crate::shuffled::Shuffled;

/// How many callers at once.
const CALLERS: [usize; 2] = [1, 64];

/// Measures the same work by a contender's callers.
type Change = fn(&Path, Load, &[String]) -> Outcome<f64>;

const OURS: &str = "mainstay";
const PEERS: [(&str, Change); 3] =
    [("redb", peers::redb::change), ("fjall", peers::fjall::change), ("sqlite", peers::sqlite::change)];

pub(super) fn run(settings: &Settings, scratch: &Scratch, report: &mut Report) -> Outcome<()> {
    let keys: Arc<[String]> = keys(KEYS).into();
    let mut contest = Contest::new();
    for callers in CALLERS {
        let load = load(settings, callers);
        let ours: (&str, Change) = (OURS, |folder, load, keys| change(folder, Level::Persisted, load, keys));
        for (who, change) in [ours].into_iter().chain(PEERS) {
            let keys = keys.clone();
            contest.enter(&name(who, callers), Unit::PerSecond, move |folder| change(folder, load, &keys));
        }
    }
    let results = contest.run(settings.rounds(), scratch)?;
    report.goal(versus_best(&results, 64, "durable-64-vs-best-database"), Target::AtLeast(4.0));
    // Within one and a half times of the best.
    report.goal(versus_best(&results, 1, "durable-1-vs-best-database"), Target::AtLeast(0.67));
    let title =
        format!("durable transactions that read and change one of {KEYS} records; each caller has its own keys");
    report.group(&title, results.into_measurements());
    Ok(())
}

/// Transactions per second of a node's callers.
pub(crate) fn change(folder: &Path, level: Level, load: Load, keys: &[String]) -> Outcome<f64> {
    runtime()?.block_on(async {
        let node = Node::start(folder, level, keys).await?;
        let rate = rate(&node, load, keys).await?;
        node.stop().await;
        Ok(rate)
    })
}

/// Transactions per second on a node that runs.
pub(super) async fn rate(node: &Node, load: Load, keys: &[String]) -> Outcome<f64> {
    let callers = (0..load.writers).map(|caller| {
        let mut order = Shuffled::of_caller(caller, load.writers, keys.len());
        // As many as there are of its own: it goes round them.
        let keys = (0..keys.len() / load.writers).map(|_| keys[order.next()].clone()).collect();
        Changer { caller: Caller::of(node), keys }
    });
    load.on_tasks(callers).await
}

/// Against whichever database was fastest in the round.
fn versus_best(results: &Results, callers: usize, goal: &str) -> Option<Measurement> {
    let best = results.largest(PEERS.iter().map(|(who, _)| name(who, callers)))?;
    Some(results.get(&name(OURS, callers))?.over(&best, goal))
}

fn name(who: &str, callers: usize) -> String {
    format!("{who}, callers {callers}")
}

struct Changer {
    caller: Caller,
    keys: Vec<String>,
}

impl Writer for Changer {
    async fn write(&mut self, turn: u64) -> Outcome<()> {
        self.caller.change(&self.keys[turn as usize % self.keys.len()]).await
    }
}
