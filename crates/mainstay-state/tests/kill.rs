//! A process is killed while transactions run: what it had acknowledged is there, and nothing is half there.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use mainstay_core::{Level, Result, random, task};
use mainstay_state::{Dictionary, StateManager};
use rand::RngExt as _;
use support::TestNode;

/// Tells the test binary, started once more, that it is the one to be killed.
const FOLDER_VARIABLE: &str = "MAINSTAY_KILL_TEST_FOLDER";
const ROUND_VARIABLE: &str = "MAINSTAY_KILL_TEST_ROUND";
/// What an acknowledgement starts with; the test harness prints too.
const ACKNOWLEDGED: &str = "acknowledged ";

const ROUNDS: u32 = 4;
const CALLERS: u64 = 8;
const ACCOUNTS: u32 = 6;
const BALANCE: i64 = 1000;
/// How many transactions are acknowledged before the process is killed, at most.
const ACKNOWLEDGED_MAX: u32 = 120;

/// Money that moves between two banks, and a note of every move, all in one transaction.
struct Banks {
    left: Dictionary<u32, i64>,
    right: Dictionary<u32, i64>,
    /// By round, caller and number.
    moves: Dictionary<(u32, u64, u64), Move>,
    /// Moves that are not settled: added with one move, removed with the next.
    open: Dictionary<(u64, u64), u64>,
}

#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
struct Move {
    from: u32,
    to: u32,
    amount: i64,
}

impl Banks {
    async fn open(state: &StateManager) -> Result<Self> {
        let (left, right) = (state.collection("left").await?, state.collection("right").await?);
        Ok(Self { left, right, moves: state.collection("moves").await?, open: state.collection("open").await? })
    }

    async fn bootstrap(&self, state: &StateManager) -> Result<()> {
        state
            .transact(async |mut tx| {
                for account in 0..ACCOUNTS {
                    self.left.try_add(&mut tx, account, BALANCE).await?;
                    self.right.try_add(&mut tx, account, BALANCE).await?;
                }
                Ok(())
            })
            .await
    }

    /// One move from an account of one bank to one of the other.
    async fn run_one(&self, state: &StateManager, round: u32, caller: u64, number: u64) -> Result<()> {
        let [from, to] = std::array::from_fn(|_| random::rng().random_range(0..ACCOUNTS));
        let amount = random::rng().random_range(-50..50);
        state
            .transact(async |mut tx| {
                for (bank, account, change) in [(&self.left, from, -amount), (&self.right, to, amount)] {
                    let balance = bank.get_for_update(&mut tx, &account).await?.map_or(0, |balance| *balance);
                    bank.set(&mut tx, account, balance + change).await?;
                }
                self.moves.add(&mut tx, (round, caller, number), Move { from, to, amount }).await?;
                // The one before is settled: entries come and go.
                if number > 0 {
                    self.open.try_remove(&mut tx, &(caller, number - 1)).await?;
                }
                self.open.set(&mut tx, (caller, number), number).await
            })
            .await
    }
}

#[test]
fn the_process_that_is_killed() {
    let Some(folder) = std::env::var_os(FOLDER_VARIABLE) else { return };
    let round: u32 = std::env::var(ROUND_VARIABLE).unwrap().parse().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async move {
        let node = TestNode::open(Path::new(&folder)).await;
        let state = node.state(Level::Persisted).await;
        let banks = Arc::new(Banks::open(&state).await.unwrap());
        banks.bootstrap(&state).await.unwrap();
        let run = |caller| {
            let (state, banks) = (state.clone(), banks.clone());
            task::spawn(async move {
                for number in 0.. {
                    banks.run_one(&state, round, caller, number).await.unwrap();
                    // In one piece, and past the buffer of the process: what is not written is not acknowledged.
                    let line = format!("\n{ACKNOWLEDGED}{caller} {number}\n");
                    let mut out = std::io::stdout().lock();
                    out.write_all(line.as_bytes()).and_then(|()| out.flush()).unwrap();
                }
            })
        };
        for caller in (0..CALLERS).map(run).collect::<Vec<_>>() {
            caller.await.unwrap();
        }
    });
}

fn start(folder: &Path, round: u32) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "the_process_that_is_killed", "--nocapture"])
        .env(FOLDER_VARIABLE, folder)
        .env(ROUND_VARIABLE, round.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Lets a process run until it has acknowledged so many, kills it, and returns how many each caller had acknowledged.
fn run_and_kill(folder: &Path, round: u32, acknowledged: u32) -> BTreeMap<u64, u64> {
    let mut child = start(folder, round);
    let mut counts = BTreeMap::new();
    let mut left = acknowledged;
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        let Some(rest) = line.strip_prefix(ACKNOWLEDGED) else { continue };
        let (caller, number) = rest.split_once(' ').unwrap();
        // A line that the kill has cut has no end, and so no number that fits.
        let (Ok(caller), Ok(number)) = (caller.parse::<u64>(), number.parse::<u64>()) else { continue };
        assert_eq!(number, *counts.get(&caller).unwrap_or(&0), "caller {caller}");
        counts.insert(caller, number + 1);
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
fn what_was_acknowledged_survives_a_kill_and_nothing_is_half_there() {
    let folder = tempfile::tempdir().unwrap();
    let mut acknowledged: BTreeMap<(u32, u64), u64> = BTreeMap::new();
    for round in 0..ROUNDS {
        // Once in the middle of the first transactions, and otherwise anywhere.
        let limit = if round == 0 { 1 } else { random::rng().random_range(1..=ACKNOWLEDGED_MAX) };
        let counts = run_and_kill(folder.path(), round, limit);
        acknowledged.extend(counts.into_iter().map(|(caller, count)| ((round, caller), count)));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let node = TestNode::open(folder.path()).await;
            let state = node.state(Level::Persisted).await;
            check(&state, &acknowledged).await;
            drop(state);
            node.replicas.stop().await;
        });
    }
}

async fn check(state: &StateManager, acknowledged: &BTreeMap<(u32, u64), u64>) {
    let banks = Banks::open(state).await.unwrap();
    let mut tx = state.begin();
    // Every move is there that somebody has heard of, and at most the one that its caller was waiting for.
    let moves: BTreeMap<(u32, u64, u64), Arc<Move>> =
        banks.moves.all().entries(&mut tx).await.unwrap().collect().await.unwrap();
    let mut counts: BTreeMap<(u32, u64), u64> = BTreeMap::new();
    for (round, caller, number) in moves.keys() {
        let count = counts.entry((*round, *caller)).or_default();
        assert_eq!(number, count, "a move of round {round}, caller {caller} is missing");
        *count += 1;
    }
    for ((round, caller), heard) in acknowledged {
        let there = counts.get(&(*round, *caller)).copied().unwrap_or(0);
        assert!(there >= *heard, "round {round}, caller {caller}: {heard} were acknowledged, {there} are there");
        assert!(there <= heard + 1, "round {round}, caller {caller}: {heard} were acknowledged, {there} are there");
    }
    // The balances are those of all moves, whole.
    for (bank, is_left) in [(&banks.left, true), (&banks.right, false)] {
        for account in 0..ACCOUNTS {
            let changes = moves.values().filter_map(|moved| match is_left {
                true => (moved.from == account).then_some(-moved.amount),
                false => (moved.to == account).then_some(moved.amount),
            });
            let balance = bank.get(&mut tx, &account).await.unwrap();
            assert_eq!(balance.as_deref(), Some(&(BALANCE + changes.sum::<i64>())), "account {account}");
        }
        assert_eq!(bank.len(&mut tx).await.unwrap(), u64::from(ACCOUNTS));
    }
    // Of each caller the last move is open, as far as it came in its last round.
    let open: BTreeMap<(u64, u64), Arc<u64>> =
        banks.open.all().entries(&mut tx).await.unwrap().collect().await.unwrap();
    assert_eq!(banks.open.len(&mut tx).await.unwrap(), open.len() as u64);
    assert_eq!(banks.moves.len(&mut tx).await.unwrap(), moves.len() as u64);
    let last_round = counts.keys().map(|(round, _)| *round).max().unwrap_or(0);
    for ((_, caller), count) in counts.iter().filter(|((round, _), _)| *round == last_round) {
        assert!(open.contains_key(&(*caller, count - 1)), "the last move of caller {caller} is not open: {open:?}");
    }
}
