//! A process that runs until it is told to end: by a real signal.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "these are tests of applications, which use tokio as it is")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use mainstay::prelude::*;

/// Tells the test binary, started once more, that it is the one to be told.
const FOLDER_VARIABLE: &str = "MAINSTAY_SIGNAL_TEST_FOLDER";
/// Whether what is to be done before it stops never ends.
const STUCK_VARIABLE: &str = "MAINSTAY_SIGNAL_TEST_STUCK";

#[interface]
trait Counter {
    async fn add(&mut self, n: i64) -> Result<i64>;
}

#[derive(Actor)]
#[actor(implements(Counter))]
struct CounterActor {
    count: State<i64>,
}

impl Counter for CounterActor {
    async fn add(&mut self, n: i64) -> Result<i64> {
        *self.count += n;
        Ok(*self.count)
    }
}

fn say(word: &str) {
    // In one piece, and past the buffer of the process.
    let mut out = std::io::stdout().lock();
    out.write_all(format!("\n{word}\n").as_bytes()).and_then(|()| out.flush()).unwrap();
}

#[test]
fn the_process_that_is_told() {
    let Some(folder) = std::env::var_os(FOLDER_VARIABLE) else { return };
    let is_stuck = std::env::var_os(STUCK_VARIABLE).is_some();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async move {
        let node = Node::builder().isolated().data_dir(Path::new(&folder)).actor::<CounterActor>();
        let node = node.before_stop(move |_| async move {
            say("stopping");
            if is_stuck {
                tokio::time::sleep(Duration::from_secs(3600)).await;
            }
        });
        let node = node.start().await.unwrap();
        CounterRef::of(&node, 1).unwrap().add(1).await.unwrap();
        let running = tokio::spawn({
            let node = node.clone();
            async move { node.run_until_signal().await }
        });
        // The signals are listened to from the first poll on, which has happened when the next task has run.
        tokio::task::yield_now().await;
        while !is_listening() {
            tokio::task::yield_now().await;
        }
        say("running");
        running.await.unwrap().unwrap();
        say("stopped");
    });
}

/// True if the process handles SIGTERM and SIGINT itself, as the system has it.
fn is_listening() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
    let caught = u64::from_str_radix(caught.trim(), 16).unwrap();
    let bit = |signal: u64| 1 << (signal - 1);
    caught & bit(2) != 0 && caught & bit(15) != 0
}

struct Told {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Told {
    fn start(folder: &Path, is_stuck: bool) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "the_process_that_is_told", "--nocapture"]).env(FOLDER_VARIABLE, folder);
        if is_stuck {
            command.env(STUCK_VARIABLE, "yes");
        }
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Self { child, out }
    }

    /// Waits until the process has said a word.
    fn hear(&mut self, word: &str) {
        let mut line = String::new();
        while line.trim_end() != word {
            line.clear();
            assert!(self.out.read_line(&mut line).unwrap() > 0, "the process has ended without saying {word:?}");
        }
    }

    fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([&format!("-{signal}"), &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        // Of a test that has failed; one that has ended is fine.
        let _ = self.child.kill();
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_signal_stops_the_node_in_order() {
    let folder = tempfile::tempdir().unwrap();
    for signal in ["TERM", "INT"] {
        let mut told = Told::start(folder.path(), false);
        told.hear("running");
        told.signal(signal);
        told.hear("stopping");
        told.hear("stopped");
        assert!(told.child.wait().unwrap().success(), "{signal}");
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let node = Node::builder().isolated().data_dir(folder.path()).actor::<CounterActor>().start().await.unwrap();
        assert_eq!(CounterRef::of(&node, 1).unwrap().add(0).await.unwrap(), 2);
        node.stop().await;
    });
}

#[cfg(target_os = "linux")]
#[test]
fn a_second_signal_ends_the_process_at_once() {
    for (signal, code) in [("TERM", 143), ("INT", 130)] {
        let folder = tempfile::tempdir().unwrap();
        let mut told = Told::start(folder.path(), true);
        told.hear("running");
        told.signal("TERM");
        told.hear("stopping");
        told.signal(signal);
        assert_eq!(told.child.wait().unwrap().code(), Some(code), "{signal}");
    }
}

#[tokio::test]
async fn a_node_that_is_stopped_by_other_code_runs_no_longer() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::builder().isolated().data_dir(folder.path()).actor::<CounterActor>().start().await.unwrap();
    let (run, ()) = tokio::join!(node.run_until_signal(), node.stop());
    run.unwrap();
}

#[test]
fn a_runtime_without_a_driver_for_signals_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let node = Node::builder().isolated().data_dir(folder.path()).actor::<CounterActor>().start().await.unwrap();
        let error = node.run_until_signal().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains("enable_all"), "{error}");
        node.stop().await;
    });
}
