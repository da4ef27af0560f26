//! What one writer waits for where no disk takes part.

use std::path::Path;
use std::sync::Arc;

use mainstay_core::{Level, NodeId, PartitionId, task, time};
use mainstay_replica::{InProcessNetwork, Partition, Role, UniformSets, UniformSetsOptions};
use mainstay_store::disk::RealDisk;
use mainstay_store::state::{Mark, MemoryStore, StateStore as _, WriteBatch};

use super::payload;
use crate::contest::Contest;
use crate::goal::Target;
use crate::load::runtime;
use crate::measurement::Unit;
use crate::outcome::Outcome;
use crate::report::Report;
use crate::scratch::Scratch;
use crate::settings::Settings;
use crate::stopwatch::Stopwatch;

/// How many commits of level none and applies are timed together.
const FAST_COUNT: u64 = 1_000_000;

/// How many volatile commits are timed together.
const VOLATILE_COUNT: u64 = 100_000;

/// How long the sets of a host may take to be ready.
const READY_TIMEOUT: time::Duration = time::Duration::from_secs(30);

const APPLY: &str = "memory store, apply";
const NONE: &str = "level none, commit";
const VOLATILE: &str = "volatile, one replica, commit";

pub(super) fn run(settings: &Settings, scratch: &Scratch, report: &mut Report) -> Outcome<()> {
    let contest = contest(settings).in_copies(&["foundations", "latency", settings.pace()]);
    let results = contest.run(settings.rounds(), scratch)?;
    let above = results.get(NONE).zip(results.get(APPLY)).map(|(none, apply)| none.above(apply, "none-above-apply"));
    report.goal(above, Target::Under(1.0));
    report.goal(results.get(VOLATILE).map(|found| found.named("volatile-commit")), Target::Under(15.0));
    report.group("one writer, per commit of 100 bytes", results.into_measurements());
    Ok(())
}

/// Everybody who is measured.
pub(super) fn contest(settings: &Settings) -> Contest {
    let (fast, volatile) = (settings.count(FAST_COUNT), settings.count(VOLATILE_COUNT));
    let mut contest = Contest::new();
    contest.enter(APPLY, Unit::Micros, move |_| apply(fast));
    contest.enter(NONE, Unit::Micros, move |folder| commit(folder, Level::None, fast));
    contest.enter(VOLATILE, Unit::Micros, move |folder| commit(folder, Level::Volatile, volatile));
    contest
}

/// The store by itself: the batches are made beforehand, so that all that a commit adds, the batch included, counts
/// against the commit.
fn apply(count: u64) -> Outcome<f64> {
    let partition = 1_u64.to_be_bytes();
    let make = |turn| {
        let mut batch = WriteBatch::with_prefix(&partition);
        batch.put(&payload::key(0, turn), &payload::value(0, turn));
        batch
    };
    // As many as there are keys.
    let batches: Vec<WriteBatch> = (0..4096).map(make).collect();
    let store = MemoryStore::new();
    let watch = Stopwatch::start();
    for (index, batch) in (1..=count).zip(batches.iter().cycle()) {
        store.apply(Mark { index, ..Mark::default() }, &mut batch.iter())?;
    }
    Ok(micros_each(&watch, count))
}

fn commit(folder: &Path, level: Level, count: u64) -> Outcome<f64> {
    runtime()?.block_on(async {
        let node = NodeId(1);
        let transport = InProcessNetwork::new().endpoint(node);
        let replicas = UniformSets::open(Arc::new(RealDisk), folder, UniformSetsOptions::new(node), transport).await?;
        replicas.bootstrap().await?;
        let partition = replicas.partition(level, PartitionId(1));
        let mut watch = partition.watch();
        let primary = watch.wait_for(|role_state| role_state.role == Role::Primary);
        time::timeout(READY_TIMEOUT, primary).await.map_err(|_| "no primary in time")??;
        // On a worker, where a program's own calls run: the thread that waits for the runtime is not one.
        let each = task::spawn(commit_in_turns(partition, count)).await??;
        replicas.stop().await;
        Ok(each)
    })
}

async fn commit_in_turns(partition: Partition, count: u64) -> Outcome<f64> {
    let watch = Stopwatch::start();
    for turn in 0..count {
        let mut batch = partition.batch();
        batch.put(&payload::key(0, turn), &payload::value(0, turn));
        partition.commit(batch).await?;
    }
    Ok(micros_each(&watch, count))
}

fn micros_each(watch: &Stopwatch, count: u64) -> f64 {
    watch.seconds() * 1e6 / count as f64
}
