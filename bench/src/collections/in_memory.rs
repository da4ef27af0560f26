//! Transactions where no disk takes part: against a map under locks, and against the durable ones.

use std::collections::HashMap;
use std::future::Future;
use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use mainstay_core::{Level, task};

use super::node::{Caller, Node};
use super::record::{KEYS, Record, keys};
use super::{breakdown, durable, load};
use crate::contest::Contest;
use crate::goal::Target;
use crate::load::runtime;
use crate::measurement::Unit;
use crate::outcome::Outcome;
use crate::report::Report;
use crate::scratch::Scratch;
use crate::settings::Settings;
use crate::shuffled::Shuffled;
use crate::stopwatch::Stopwatch;

/// How many transactions are timed together, by all callers.
const COUNT: u64 = 2_000_000;

/// In how many parts the map is cut.
const SHARDS: usize = 64;

const MANY: usize = 64;

const NONE_ONE: &str = "level none, callers 1";
const NONE_MANY: &str = "level none, callers 64";
const MAP_ONE: &str = "sharded Mutex<HashMap>, callers 1";
const MAP_MANY: &str = "sharded Mutex<HashMap>, callers 64";
const VOLATILE: &str = "volatile, callers 1";
const DURABLE: &str = "durable, callers 1";

pub(super) fn none(settings: &Settings, scratch: &Scratch, report: &mut Report) -> Outcome<()> {
    let count = settings.count(COUNT);
    let keys: Arc<[String]> = keys(KEYS).into();
    let mut contest = Contest::new();
    for (ours, theirs, callers) in [(NONE_ONE, MAP_ONE, 1), (NONE_MANY, MAP_MANY, MANY)] {
        let (our_keys, their_keys) = (keys.clone(), keys.clone());
        contest.enter(ours, Unit::PerSecond, move |folder| on_level_none(folder, callers, count, &our_keys));
        contest.enter(theirs, Unit::PerSecond, move |_| on_map(callers, count, &their_keys));
    }
    let results = contest.run(settings.rounds(), scratch)?;
    report.goal(results.ratio(NONE_ONE, MAP_ONE, "none-1-vs-sharded-map"), Target::AtLeast(0.2));
    report.goal(results.ratio(NONE_MANY, MAP_MANY, "none-64-vs-sharded-map"), Target::AtLeast(0.2));
    let title = format!("transactions in memory that read and change one of {KEYS} records");
    report.group(&title, results.into_measurements());
    breakdown::run(settings, scratch, report, &keys)
}

pub(super) fn volatile(settings: &Settings, scratch: &Scratch, report: &mut Report) -> Outcome<()> {
    let keys: Arc<[String]> = keys(KEYS).into();
    let load = load(settings, 1);
    let mut contest = Contest::new();
    for (name, level) in [(VOLATILE, Level::Volatile), (DURABLE, Level::Persisted)] {
        let keys = keys.clone();
        contest.enter(name, Unit::PerSecond, move |folder| durable::change(folder, level, load, &keys));
    }
    let results = contest.run(settings.rounds(), scratch)?;
    report.goal(results.ratio(VOLATILE, DURABLE, "volatile-vs-durable"), Target::AtLeast(10.0));
    report.group("transactions of one caller, one replica", results.into_measurements());
    Ok(())
}

fn on_level_none(folder: &Path, callers: usize, count: u64, keys: &Arc<[String]>) -> Outcome<f64> {
    runtime()?.block_on(async {
        let node = Node::start(folder, Level::None, keys).await?;
        let rate = rate(&Caller::of(&node), callers, count, keys).await?;
        node.stop().await;
        Ok(rate)
    })
}

fn on_map(callers: usize, count: u64, keys: &Arc<[String]>) -> Outcome<f64> {
    let map = Arc::new(ShardedMap::new(keys));
    runtime()?.block_on(rate(&map, callers, count, keys))
}

/// Changes per second of callers that never wait for anything but each other. All of them are tasks, so that both
/// contenders have the same around them.
async fn rate<C: Change>(contender: &C, callers: usize, count: u64, keys: &Arc<[String]>) -> Outcome<f64> {
    let each = count / callers as u64;
    let watch = Stopwatch::start();
    let start = |caller| {
        let (contender, keys) = (contender.clone(), keys.clone());
        let mut order = Shuffled::of_caller(caller, callers, keys.len());
        task::spawn(async move {
            for _ in 0..each {
                contender.change(&keys[order.next()]).await?;
                // All callers are under way at once, as they would be if they had something else to do in between.
                tokio::task::coop::consume_budget().await;
            }
            Outcome::Ok(())
        })
    };
    let tasks: Vec<_> = (0..callers).map(start).collect();
    for task in tasks {
        task.await??;
    }
    Ok((each * callers as u64) as f64 / watch.seconds())
}

/// Reads a record, changes it, and puts it back.
trait Change: Clone + Send + Sync + 'static {
    fn change(&self, key: &str) -> impl Future<Output = Outcome<()>> + Send;
}

impl Change for Caller {
    fn change(&self, key: &str) -> impl Future<Output = Outcome<()>> + Send {
        Caller::change(self, key)
    }
}

/// What somebody writes who needs neither durability nor transactions of several keys: the least that this can cost.
#[derive(Debug)]
pub(super) struct ShardedMap {
    hasher: BuildHasherDefault<DefaultHasher>,
    shards: Vec<Mutex<HashMap<String, Record>>>,
}

impl ShardedMap {
    pub(super) fn new(keys: &[String]) -> Self {
        let map =
            Self { hasher: BuildHasherDefault::default(), shards: (0..SHARDS).map(|_| Mutex::default()).collect() };
        for (number, key) in keys.iter().enumerate() {
            map.shard(key).lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone(), Record::new(number));
        }
        map
    }

    fn shard(&self, key: &str) -> &Mutex<HashMap<String, Record>> {
        &self.shards[self.hasher.hash_one(key) as usize % SHARDS]
    }

    pub(super) fn change(&self, key: &str) -> Outcome<()> {
        let mut shard = self.shard(key).lock().unwrap_or_else(PoisonError::into_inner);
        shard.get_mut(key).ok_or("a record is gone")?.count += 1;
        Ok(())
    }
}

impl Change for Arc<ShardedMap> {
    async fn change(&self, key: &str) -> Outcome<()> {
        ShardedMap::change(self, key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_map_counts() {
        let keys = keys(10);
        let map = ShardedMap::new(&keys);
        map.change(&keys[3]).unwrap();
        map.change(&keys[3]).unwrap();
        assert_eq!(map.shard(&keys[3]).lock().unwrap()[&keys[3]].count, 2);
        assert!(map.change("nobody").is_err());
    }
}
