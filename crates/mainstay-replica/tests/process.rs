//! A real process on a real disk, killed under load: everything that it acknowledged is there afterwards.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use mainstay_core::{Level, NodeId, PartitionId};
use mainstay_replica::{InProcessNetwork, Role, UniformSets, UniformSetsOptions};
use mainstay_store::disk::RealDisk;
use mainstay_store::log::LogOptions;

/// Tells the process that it is to be killed which folder to use, and which round it is.
const FOLDER: &str = "MAINSTAY_TEST_FOLDER";
const ROUND: &str = "MAINSTAY_TEST_ROUND";

const ROUNDS: u64 = 5;
const WRITERS: u64 = 8;
/// How many commits are acknowledged before the kill, times the round.
const ACKNOWLEDGED_MIN: usize = 150;
/// In front of a key that was acknowledged.
const WORD: &str = "acknowledged ";

async fn open(folder: &Path) -> UniformSets {
    let mut options = UniformSetsOptions::new(NodeId(1));
    options.sets_per_level = 2;
    options.log = LogOptions { segment_bytes: 256 << 10, ..LogOptions::default() };
    options.replica.checkpoint.bytes = 64 << 10;
    options.replica.checkpoint.log_keep_bytes = 0;
    let transport = InProcessNetwork::new().endpoint(NodeId(1));
    let replicas = UniformSets::open(Arc::new(RealDisk), folder, options, transport).await.unwrap();
    replicas.bootstrap().await.unwrap();
    for replica in replicas.replicas() {
        replica.watch().wait_for(|role_state| role_state.role == Role::Primary).await.unwrap();
    }
    replicas
}

fn value(key: &str) -> Vec<u8> {
    key.as_bytes().repeat(20)
}

/// The life of the process that is killed: it commits and tells of every acknowledgement.
async fn commit_for_ever(folder: &Path, round: u64) {
    let replicas = open(folder).await;
    let writers = (0..WRITERS).map(|writer| {
        let partition = replicas.partition(Level::Persisted, PartitionId(writer));
        async move {
            for number in 0_u64.. {
                let key = format!("{writer}/{round}/{number}");
                let mut batch = partition.batch();
                batch.put(key.as_bytes(), &value(&key));
                partition.commit(batch).await.unwrap();
                let mut out = std::io::stdout().lock();
                writeln!(out, "{WORD}{key}").unwrap();
                out.flush().unwrap();
            }
        }
    });
    futures_util::future::join_all(writers).await;
}

/// Runs the process until it has acknowledged enough, kills it, and returns all that it acknowledged.
fn kill_under_load(folder: &Path, round: u64) -> Vec<String> {
    let name = "what_was_acknowledged_survives_sigkill";
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(FOLDER, folder)
        .env(ROUND, round.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut acknowledged = Vec::new();
    let mut is_killed = false;
    loop {
        let mut line = String::new();
        if lines.read_line(&mut line).unwrap() == 0 {
            break;
        }
        // The last line may be cut off: then nobody was told.
        if let (Some(at), true) = (line.find(WORD), line.ends_with('\n')) {
            acknowledged.push(line[at + WORD.len()..].trim_end().to_owned());
        }
        if !is_killed && acknowledged.len() >= ACKNOWLEDGED_MIN * round as usize {
            child.kill().unwrap();
            is_killed = true;
        }
    }
    let status = child.wait().unwrap();
    assert!(is_killed && !status.success(), "the process ended by itself: {status}");
    acknowledged
}

#[test]
fn what_was_acknowledged_survives_sigkill() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    if let (Ok(folder), Ok(round)) = (std::env::var(FOLDER), std::env::var(ROUND)) {
        runtime.block_on(commit_for_ever(Path::new(&folder), round.parse().unwrap()));
    }
    let folder = tempfile::tempdir().unwrap();
    let mut acknowledged = Vec::new();
    for round in 1..=ROUNDS {
        acknowledged.extend(kill_under_load(folder.path(), round));
        runtime.block_on(async {
            let replicas = open(folder.path()).await;
            for key in &acknowledged {
                let writer: u64 = key.split('/').next().unwrap().parse().unwrap();
                let found = replicas.partition(Level::Persisted, PartitionId(writer)).get(key.as_bytes()).unwrap();
                assert_eq!(found.as_deref(), Some(&value(key)[..]), "{key} of {} is lost", acknowledged.len());
            }
            replicas.stop().await;
        });
    }
}
