//! The application as `cargo xtask chaos` runs it, with one node: called in its own process, through its gateway, and killed meanwhile.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "a process outside of the test is waited for in real time")]

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use mainstay_chaos::entry::Direct;
use mainstay_chaos::load::{LoadOptions, Objects};
use mainstay_chaos::node::{NodeOptions, READY};
use mainstay_chaos::{check, history, load, node};

/// A process that does not come that far in this time is stuck.
const STUCK: Duration = Duration::from_secs(240);

fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_mainstay-chaos"))
}

/// A process that does not outlive the test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Process {
    fn ended(&mut self) -> ExitStatus {
        let begun = Instant::now();
        loop {
            match self.0.try_wait().unwrap() {
                Some(status) => return status,
                None if begun.elapsed() > STUCK => panic!("the process does not end"),
                None => std::thread::sleep(Duration::from_millis(50)),
            }
        }
    }
}

/// Starts a node and waits until it can be called; returns where.
fn start_node(folder: &Path, gateway: &str) -> (Process, String) {
    let mut command = program();
    command.arg("node").arg("--data-dir").arg(folder.join("node")).arg("--journals").arg(folder.join("journals"));
    let mut process = Process(command.args(["--gateway", gateway]).stdout(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(process.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix(READY).expect("the node has not started").trim().to_owned();
    (process, address)
}

fn check_by_program(folder: &Path) -> Output {
    let mut command = program();
    command.arg("check").arg(folder.join("history.jsonl")).arg("--journals").arg(folder.join("journals"));
    command.output().unwrap()
}

#[test]
fn a_node_that_is_killed_under_load_keeps_every_promise() {
    let folder = tempfile::tempdir().unwrap();
    let (mut node, address) = start_node(folder.path(), "127.0.0.1:0");
    let mut command = program();
    command.args([
        "load",
        "--gateways",
        &address,
        "--seed",
        "5",
        "--callers",
        "8",
        "--rate",
        "150",
        "--seconds",
        "600",
    ]);
    command.arg("--history").arg(folder.path().join("history.jsonl")).stdout(Stdio::piped());
    let mut load = Process(command.spawn().unwrap());
    let mut lines = BufReader::new(load.0.stdout.take().unwrap()).lines();
    let begun = Instant::now();
    // Returns when every object has answered a call that was made from now on.
    let mut wait_until_whole = || {
        let mut from = None;
        loop {
            assert!(begun.elapsed() < STUCK, "not every object answers");
            let line = lines.next().expect("the load has ended").unwrap();
            let status: load::Status = serde_json::from_str(&line).unwrap();
            let from = *from.get_or_insert(status.at);
            if status.whole_since.is_some_and(|since| since > from) {
                return;
            }
        }
    };
    wait_until_whole();
    for _ in 0..3 {
        node.0.kill().unwrap();
        node.ended();
        (node, _) = start_node(folder.path(), &address);
        wait_until_whole();
    }
    assert!(Command::new("kill").args(["-TERM", &load.0.id().to_string()]).status().unwrap().success());
    for line in lines.by_ref() {
        line.unwrap();
    }
    assert!(load.ended().success(), "everything is there in the end");

    let checked = check_by_program(folder.path());
    let text = String::from_utf8_lossy(&checked.stdout);
    assert!(checked.status.success(), "{text}");
    assert!(text.contains("no violation") && !text.contains("NOT SHOWN"), "{text}");
    let history = history::read(&[folder.path().join("history.jsonl")]).unwrap();
    assert!(history.answered() > 200, "{text}");
    drop(node);

    // What was acknowledged and is taken away is missed.
    std::fs::write(folder.path().join("journals/journal-0.journal"), "{\"fence\":1}\n").unwrap();
    let checked = check_by_program(folder.path());
    assert_eq!(checked.status.code(), Some(1));
    let text = String::from_utf8_lossy(&checked.stdout);
    assert!(text.contains("VIOLATION: journal 0: line"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_load_in_the_process_of_the_node_is_clean() {
    let folder = tempfile::tempdir().unwrap();
    let options = NodeOptions {
        data_dir: folder.path().join("node"),
        journals: folder.path().join("journals"),
        gateway: ([127, 0, 0, 1], 0).into(),
        listen: None,
        seeds: Vec::new(),
        admin: None,
        settings: vec![("log.reserve_bytes".to_owned(), "1MiB".to_owned())],
    };
    let node = node::start(&options).await.unwrap();
    let options = LoadOptions {
        seed: 3,
        run: 1,
        callers: 8,
        rate: 400,
        seconds: 5,
        call_time_ms: 10_000,
        closing_seconds: 60,
        history: folder.path().join("history.jsonl"),
        objects: Objects { registers: 3, counters: 2, journals: 1, tickers: 1 },
    };
    let (_stop, stopped) = tokio::sync::watch::channel(false);
    let status = load::run(&options, |_| Direct(node.clone()), stopped, |_| {}).await.unwrap();
    node.stop().await;
    assert!(status.ok > 100 && status.fail == 0 && status.unknown == 0, "{status:?}");
    let history = history::read(&[&options.history]).unwrap();
    let verdict = check::check(&history, &folder.path().join("journals")).unwrap();
    assert!(verdict.is_clean() && verdict.not_shown.is_empty(), "{verdict}");
}

#[test]
fn a_node_with_seeds_and_without_an_address_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = program();
    command.arg("node").arg("--data-dir").arg(folder.path().join("node")).arg("--journals").arg(folder.path());
    let output = command.args(["--gateway", "127.0.0.1:0", "--seeds", "127.0.0.1:1"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && text.contains("give --listen"), "{text}");
}
