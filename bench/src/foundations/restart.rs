//! Time and memory to be ready again after a node went down.

use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use mainstay_core::{Level, NodeId, PartitionId, task, time};
use mainstay_replica::{InProcessNetwork, Partition, Role, SETS_PER_LEVEL, UniformSets, UniformSetsOptions};
use mainstay_store::disk::RealDisk;

use super::payload;
use crate::goal::Target;
use crate::load::runtime;
use crate::measurement::{Measurement, Unit};
use crate::outcome::Outcome;
use crate::process::{Memory, child};
use crate::report::Report;
use crate::scratch::Scratch;
use crate::settings::Settings;
use crate::stopwatch::Stopwatch;

/// How many entries are in the state.
const STATE: u64 = 1_000_000;

/// The state that memory is compared with.
const SMALL_STATE: u64 = STATE / 10;

/// How many log entries are after the checkpoint.
const LOG: u64 = 100_000;

/// How many entries of state one commit brings while data is prepared.
const FILL_BATCH: u64 = 1000;

/// How many commits, each a log entry of its own, are on their way while data is prepared.
const FILL_WRITERS: u64 = 1024;

/// How long sets may take to be ready.
const READY_TIMEOUT: time::Duration = time::Duration::from_secs(120);

/// A state's size and what was measured with it.
struct Case {
    name: &'static str,
    entries: u64,
    ready: Measurement,
    reading: Measurement,
    resident: Measurement,
    peak: Measurement,
}

impl Case {
    fn new(name: &'static str, entries: u64) -> Self {
        let measured = |what: &str, unit| Measurement::new(format!("{name}, {what}"), unit);
        Self {
            name,
            entries,
            ready: measured("ready", Unit::Seconds),
            reading: measured("plainly reading the files", Unit::Seconds),
            resident: measured("memory when ready", Unit::Mebibytes),
            peak: measured("peak memory, all entries read", Unit::Mebibytes),
        }
    }

    /// Opens what was prepared, in a fresh process.
    fn measure(&mut self, folder: &Path) -> Outcome<()> {
        let seconds = read_all(folder)?;
        let figures =
            child(&["foundations", "restart-open", &folder.display().to_string(), &self.entries.to_string()])?;
        let [ready, resident, peak] = figures[..] else { return Err("three figures were expected".into()) };
        eprintln!("  {:<20} ready in {ready:.2} s, reading takes {seconds:.2} s, {resident:.1} MiB", self.name);
        self.reading.push(seconds);
        self.ready.push(ready);
        self.resident.push(resident);
        self.peak.push(peak);
        Ok(())
    }
}

pub(super) fn run(settings: &Settings, scratch: &Scratch, report: &mut Report) -> Outcome<()> {
    let log = settings.count(LOG);
    let mut cases = [
        Case::new("state of 100,000", settings.count(SMALL_STATE)),
        Case::new("state of 1,000,000", settings.count(STATE)),
    ];
    for case in &cases {
        let folder = scratch.path().join(case.name.replace(' ', "-"));
        eprintln!("  preparing {} entries of state and {log} of log", case.entries);
        let [state, log] = [case.entries, log].map(|count| count.to_string());
        child(&["foundations", "restart-fill", &folder.display().to_string(), &state, &log])?;
    }
    for round in 0..settings.rounds() {
        for turn in 0..cases.len() {
            let case = &mut cases[(round + turn) % 2];
            case.measure(&scratch.path().join(case.name.replace(' ', "-")))?;
        }
    }
    let [small, large] = cases;
    report.goal(Some(large.ready.above(&large.reading, "restart-above-reading")), Target::AtMost(3.0));
    report.goal(Some(large.resident.over(&small.resident, "restart-memory-10x-state")), Target::AtMost(1.5));
    let rows = [small, large].into_iter().flat_map(|case| [case.ready, case.reading, case.resident, case.peak]);
    report.group("restart with 100,000 log entries after the checkpoint", rows.collect());
    Ok(())
}

/// Reads every byte in a folder, and says how long it took.
fn read_all(folder: &Path) -> Outcome<f64> {
    let watch = Stopwatch::start();
    let mut folders = vec![folder.to_path_buf()];
    let mut buffer = vec![0; 1 << 20];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                folders.push(entry.path());
                continue;
            }
            let mut file = std::fs::File::open(entry.path())?;
            while file.read(&mut buffer)? > 0 {}
        }
    }
    Ok(watch.seconds())
}

async fn open_host(folder: &Path, options: UniformSetsOptions) -> Outcome<UniformSets> {
    let transport = InProcessNetwork::new().endpoint(options.node);
    Ok(UniformSets::open(Arc::new(RealDisk), folder, options, transport).await?)
}

/// One partition for each set, all of them writable.
async fn partitions(replicas: &UniformSets) -> Outcome<Vec<Partition>> {
    let mut partitions = Vec::new();
    for id in 0..u64::from(SETS_PER_LEVEL) {
        let partition = replicas.partition(Level::Persisted, PartitionId(id));
        let mut watch = partition.watch();
        let primary = watch.wait_for(|role_state| role_state.role == Role::Primary);
        time::timeout(READY_TIMEOUT, primary).await.map_err(|_| "no primary in time")??;
        partitions.push(partition);
    }
    Ok(partitions)
}

/// Prepares a folder: state in a checkpoint, then log entries that are in none.
pub(super) fn fill(folder: &Path, state: u64, log: u64) -> Outcome<Vec<f64>> {
    let mut options = UniformSetsOptions::new(NodeId(1));
    // Checkpoints come when we say so, and commits are not merged: every one is an entry of the log.
    options.replica.checkpoint.bytes = u64::MAX;
    options.replica.checkpoint.unsaved_bytes_max = u64::MAX;
    options.replica.checkpoint.interval = time::Duration::from_secs(24 * 60 * 60);
    options.replica.commit.entry_bytes_max = 1;
    options.replica.commit.entries_in_flight_max = FILL_WRITERS as usize;
    runtime()?.block_on(async {
        let replicas = open_host(folder, options).await?;
        replicas.bootstrap().await?;
        let partitions = partitions(&replicas).await?;
        for first in (0..state).step_by(FILL_BATCH as usize) {
            let partition = &partitions[(first / FILL_BATCH) as usize % partitions.len()];
            let mut batch = partition.batch();
            for entry in first..state.min(first + FILL_BATCH) {
                batch.put(&entry.to_be_bytes(), &payload::value(0, entry));
            }
            partition.commit(batch).await?;
        }
        for replica in replicas.replicas() {
            replica.checkpoint().await?;
        }
        let writers = (0..FILL_WRITERS).map(|writer| {
            let partition = partitions[writer as usize % partitions.len()].clone();
            task::spawn(async move {
                for entry in (writer..log).step_by(FILL_WRITERS as usize) {
                    let mut batch = partition.batch();
                    batch.put(&(entry % state).to_be_bytes(), &payload::value(1, entry));
                    partition.commit(batch).await?;
                }
                Outcome::Ok(())
            })
        });
        for writer in writers.collect::<Vec<_>>() {
            writer.await??;
        }
        replicas.stop().await;
        Ok(Vec::new())
    })
}

/// Opens a folder and uses every set: a read of what was there and a commit. Seconds until then, memory then, and peak
/// memory after every entry was read.
pub(super) fn open(folder: &Path, state: u64) -> Outcome<Vec<f64>> {
    runtime()?.block_on(async {
        let watch = Stopwatch::start();
        let replicas = open_host(folder, UniformSetsOptions::new(NodeId(1))).await?;
        let partitions = partitions(&replicas).await?;
        for (number, partition) in (0..).zip(&partitions) {
            let first: u64 = number * FILL_BATCH;
            if first < state && partition.get(&first.to_be_bytes())?.is_none() {
                return Err(format!("entry {first} is not there after the restart").into());
            }
            let mut batch = partition.batch();
            batch.put(b"restarted", b"yes");
            partition.commit(batch).await?;
        }
        let ready = watch.seconds();
        let memory = Memory::now()?;
        let mut entries = 0_u64;
        for partition in &partitions {
            let all = mainstay_store::state::KeyRange::all();
            for entry in partition.read()?.scan(all, mainstay_store::state::Order::Ascending)? {
                entry?;
                entries += 1;
            }
        }
        if entries < state {
            return Err(format!("{entries} entries are there after the restart, not {state}").into());
        }
        let peak = Memory::now()?.peak;
        replicas.stop().await;
        Ok(vec![ready, memory.resident, peak])
    })
}
