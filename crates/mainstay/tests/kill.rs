//! A process is killed while many actors are called: every acknowledged call is there afterwards, and a call that is
//! repeated with its key is there once.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "these are tests of applications, which use tokio as it is")]

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use mainstay::prelude::*;

/// Tells the test binary, started once more, that it is the one to be killed.
const FOLDER_VARIABLE: &str = "MAINSTAY_KILL_TEST_FOLDER";
const ROUND_VARIABLE: &str = "MAINSTAY_KILL_TEST_ROUND";
/// What an acknowledgement starts with; the test harness prints too.
const ACKNOWLEDGED: &str = "acknowledged ";

const CALLERS: u64 = 32;
const ACTORS: u64 = 200;
/// How many calls are acknowledged before the process is killed, by round.
const LIMITS: [u32; 4] = [1, 900, 300, 2_000];

type Stamp = (u32, u64, u64);

#[interface]
trait Diary {
    async fn write(&mut self, stamp: Stamp) -> Result<usize>;
    async fn read(&self) -> Result<Vec<Stamp>>;
}

#[derive(Actor)]
#[actor(implements(Diary))]
struct DiaryActor {
    stamps: State<Vec<Stamp>>,
    count: State<usize>,
}

impl Diary for DiaryActor {
    async fn write(&mut self, stamp: Stamp) -> Result<usize> {
        self.stamps.push(stamp);
        *self.count += 1;
        Ok(*self.count)
    }

    async fn read(&self) -> Result<Vec<Stamp>> {
        assert_eq!(*self.count, self.stamps.len(), "what is committed together is there together");
        Ok(self.stamps.clone())
    }
}

/// Every third caller writes to one actor, so that turns of one actor overlap with commits.
fn whom(node: &Node, caller: u64, number: u64) -> DiaryRef {
    let id = if caller.is_multiple_of(3) { 0 } else { 1 + (caller * 31 + number) % (ACTORS - 1) };
    node.actor(id.cast_signed()).unwrap()
}

async fn write(node: &Node, stamp: Stamp) -> Result<usize> {
    let (round, caller, number) = stamp;
    whom(node, caller, number).idempotent(format!("{round} {caller} {number}")).write(stamp).await
}

async fn open(folder: &Path) -> Node {
    Node::builder().isolated().data_dir(folder).actor::<DiaryActor>().start().await.unwrap()
}

#[test]
fn the_process_that_is_killed() {
    let Some(folder) = std::env::var_os(FOLDER_VARIABLE) else { return };
    let round: u32 = std::env::var(ROUND_VARIABLE).unwrap().parse().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async move {
        let node = open(Path::new(&folder)).await;
        let callers = (0..CALLERS).map(|caller| {
            let node = node.clone();
            tokio::spawn(async move {
                for number in 0.. {
                    write(&node, (round, caller, number)).await.unwrap();
                    // In one piece, and past the buffer of the process: what is not written is not acknowledged.
                    let line = format!("\n{ACKNOWLEDGED}{caller} {number}\n");
                    let mut out = std::io::stdout().lock();
                    out.write_all(line.as_bytes()).and_then(|()| out.flush()).unwrap();
                }
            })
        });
        for caller in callers.collect::<Vec<_>>() {
            caller.await.unwrap();
        }
    });
}

/// Lets a process run until it has acknowledged so many, kills it, and returns how many each caller had acknowledged.
fn run_and_kill(folder: &Path, round: u32, acknowledged: u32) -> BTreeMap<u64, u64> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "the_process_that_is_killed", "--nocapture"])
        .env(FOLDER_VARIABLE, folder)
        .env(ROUND_VARIABLE, round.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut counts: BTreeMap<u64, u64> = (0..CALLERS).map(|caller| (caller, 0)).collect();
    let mut left = acknowledged;
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        let Some((caller, number)) = line.strip_prefix(ACKNOWLEDGED).and_then(|rest| rest.split_once(' ')) else {
            continue;
        };
        // A line that the kill has cut has no number that fits.
        let (Ok(caller), Ok(number)) = (caller.parse::<u64>(), number.parse::<u64>()) else { continue };
        if counts.get(&caller) == Some(&number) {
            counts.insert(caller, number + 1);
        }
        left = left.saturating_sub(1);
        if left == 0 {
            // What the process still writes until it is gone was acknowledged too, and is read until the pipe ends.
            child.kill().unwrap();
        }
    }
    assert!(!child.wait().unwrap().success(), "it was killed");
    assert_eq!(left, 0, "the process has ended by itself");
    counts
}

#[test]
fn what_was_acknowledged_survives_a_kill_and_what_is_repeated_is_there_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut expected: BTreeMap<(u32, u64), u64> = BTreeMap::new();
    for (round, limit) in (0..).zip(LIMITS) {
        let heard = run_and_kill(folder.path(), round, limit);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let node = open(folder.path()).await;
            for (caller, heard) in heard {
                check_last(&node, round, caller, heard).await;
                expected.insert((round, caller), heard + 1);
            }
            check_all(&node, &expected).await;
            node.stop().await;
        });
    }
}

/// Repeats the last call that was acknowledged, and the one that may or may not have happened.
async fn check_last(node: &Node, round: u32, caller: u64, heard: u64) {
    if heard > 0 {
        let stamp = (round, caller, heard - 1);
        let before = whom(node, caller, heard - 1).read().await.unwrap();
        assert!(before.contains(&stamp), "round {round}: caller {caller} was told that {} is written", heard - 1);
        write(node, stamp).await.unwrap();
        assert_eq!(whom(node, caller, heard - 1).read().await.unwrap().len(), before.len(), "it is not written again");
    }
    let first = write(node, (round, caller, heard)).await.unwrap();
    assert_eq!(write(node, (round, caller, heard)).await.unwrap(), first, "a repeated call is answered the same");
}

async fn check_all(node: &Node, expected: &BTreeMap<(u32, u64), u64>) {
    let mut found: BTreeMap<(u32, u64), Vec<u64>> = BTreeMap::new();
    for id in 0..ACTORS {
        for (round, caller, number) in node.actor::<DiaryRef>(id.cast_signed()).unwrap().read().await.unwrap() {
            found.entry((round, caller)).or_default().push(number);
        }
    }
    for (of, count) in expected {
        let mut numbers = found.remove(of).unwrap_or_default();
        numbers.sort_unstable();
        assert_eq!(numbers, (0..*count).collect::<Vec<_>>(), "calls of round and caller {of:?}, once each");
    }
    assert!(found.is_empty(), "calls that nobody made: {found:?}");
}
