//! The command line: what it refuses, and how it ends.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Output, Stdio};

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mainstay-sim"));
    command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn output(arguments: &[&str]) -> Output {
    command(arguments).output().unwrap()
}

#[test]
fn no_seeds_and_seeds_beyond_the_last_are_refused() {
    for arguments in [&["--seeds", "0"][..], &["--first-seed", "18446744073709551615", "--seeds", "2"]] {
        let refused = output(arguments);
        let error = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(2), "{error}");
        assert!(error.contains("seeds"), "{error}");
    }
}

#[test]
fn the_last_seed_of_all_can_be_run() {
    let done = output(&["--first-seed", "18446744073709551615", "--seeds", "1"]);
    let said = String::from_utf8(done.stdout).unwrap();
    assert!(done.status.success() && said.starts_with("1 seeds"), "{said}");
}

#[test]
fn fresh_seeds_are_named_and_can_be_run_again() {
    let fresh = output(&["--fresh", "--seeds", "1"]);
    let said = String::from_utf8(fresh.stdout).unwrap();
    assert!(fresh.status.success(), "{said}");
    let first = said.lines().next().unwrap();
    let again = first.split_once(": ").unwrap().1.strip_suffix(" runs them again").unwrap();
    let repeated = output(&again.split(' ').collect::<Vec<_>>());
    let repeated = String::from_utf8(repeated.stdout).unwrap();
    let story = |said: &str| said.lines().filter(|line| line.contains("commits")).collect::<String>();
    assert_eq!(story(&said), story(&repeated), "the same seed gives the same run");
    let other = output(&["--fresh", "--seeds", "1"]);
    assert_ne!(String::from_utf8(other.stdout).unwrap().lines().next().unwrap(), first);
}

#[test]
fn a_trace_that_nobody_reads_to_its_end_ends_quietly() {
    let mut running = command(&["--seed", "1", "--trace"]).spawn().unwrap();
    let mut lines = BufReader::new(running.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().contains("seed 1"));
    drop(lines);
    let ended = running.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(ended.stderr).unwrap(), "");
    assert!(!ended.status.success(), "nothing was judged");
}
