//! The checkers find bugs that are known to be fatal, each within a stated number of seeds. Run with
//! `cargo test --profile sim -p mainstay-sim --features planted-bugs`.
#![cfg(feature = "planted-bugs")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::process::{Command, Output, Stdio};

use mainstay_sim::planted::PlantedBug;
use mainstay_sim::{DiskFaults, Settings, run};
use mainstay_store::disk::sim::DiskOp;

/// Within how many seeds each bug is found.
const SEEDS: u64 = 100;

/// What checkers say of state that was lost or is not the same everywhere, and of reads that are served twice.
const LOST: &[&str] = &["applied something else", "is lost", "is not at its place", "differ", "was acknowledged"];
const SERVED_TWICE: &[&str] = &["serve reads at the same moment", "served reads in epoch", "was acknowledged"];

/// What the checkers of shared registers and of counters say, and of folders that are opened again.
const NOT_LINEARIZABLE: &[&str] = &["is not linearizable"];
const TOO_LATE: &[&str] = &["happened after a read that did not show it"];
const COUNTED_WRONG: &[&str] = &["the commits that happened add up to", "can be there at most"];
const STILL_LOCKED: &[&str] = &["is still locked"];

/// The first seed at which a checker objects, of so many, and with what words. A replica that stops or a node that does not
/// start says that something is wrong, but is no checker that has seen it.
fn found_within(bug: PlantedBug, seeds: u64, words: &[&str]) -> (u64, String) {
    (1..=seeds)
        .find_map(|seed| {
            let report = run(Settings { seed, bug: Some(bug), ..Settings::default() });
            let violation = report.violation?;
            words.iter().any(|word| violation.contains(word)).then_some((seed, violation))
        })
        .unwrap_or_else(|| panic!("no checker has found {bug:?} within {seeds} seeds"))
}

#[test]
fn a_log_that_acknowledges_before_it_syncs_is_found_within_100_seeds() {
    let (seed, violation) = found_within(PlantedBug::AcknowledgeBeforeSync, SEEDS, LOST);
    println!("found at seed {seed}: {violation}");
}

#[test]
fn reads_without_a_lease_are_found_within_100_seeds() {
    let (seed, violation) = found_within(PlantedBug::ReadWithoutLease, SEEDS, SERVED_TWICE);
    println!("found at seed {seed}: {violation}");
}

#[test]
fn a_forgotten_hard_state_is_found_within_100_seeds() {
    let (seed, violation) = found_within(PlantedBug::ForgetHardState, SEEDS, LOST);
    println!("found at seed {seed}: {violation}");
}

#[test]
fn a_log_that_ignores_errors_of_its_disk_is_found_within_100_seeds() {
    // Of a set of three, two have what one has lost: mostly it is the primary that sees the log of a voter go back.
    let words = [LOST, &["has forgotten entries"]].concat();
    let (seed, violation) = found_within(PlantedBug::IgnoreDiskErrors, SEEDS, &words);
    println!("found at seed {seed}: {violation}");
}

#[test]
fn a_folder_that_stays_locked_is_found_within_100_seeds() {
    let (seed, violation) = found_within(PlantedBug::KeepFolderLocked, SEEDS, STILL_LOCKED);
    println!("found at seed {seed}: {violation}");
}

#[test]
fn reads_of_any_replica_are_found_within_100_seeds() {
    let (seed, violation) = found_within(PlantedBug::ReadAnywhere, SEEDS, NOT_LINEARIZABLE);
    println!("found at seed {seed}: {violation}");
}

#[test]
fn commits_that_are_repeated_are_found_within_100_seeds() {
    let (seed, violation) = found_within(PlantedBug::RepeatUnknown, SEEDS, COUNTED_WRONG);
    println!("found at seed {seed}: {violation}");
}

#[test]
fn a_primary_that_serves_before_its_proposals_are_settled_is_found_within_100_seeds() {
    let (seed, violation) = found_within(PlantedBug::ServeUnsettled, SEEDS, TOO_LATE);
    println!("found at seed {seed}: {violation}");
}

fn simulate(arguments: &[&str], stdout: Stdio) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mainstay-sim"));
    command.args(arguments).stdout(stdout).stderr(Stdio::piped()).output().unwrap()
}

#[test]
fn the_command_exits_with_an_error_the_seed_and_how_to_replay_it() {
    let swept = simulate(&["--seeds", "100", "--plant", "read-anywhere"], Stdio::piped());
    let errors = String::from_utf8(swept.stderr).unwrap();
    assert_eq!(swept.status.code(), Some(1), "{errors}");
    assert!(!String::from_utf8(swept.stdout).unwrap().contains("no checker objects"));
    let failed = errors.lines().find(|line| line.contains("FAILED")).unwrap_or_else(|| panic!("{errors}"));
    let seed = failed.split(' ').nth(1).unwrap();
    let replay = format!("-- --seed {seed} --trace --plant read-anywhere");
    assert!(errors.contains(&replay), "{errors}");

    let replayed = simulate(&["--seed", seed, "--trace", "--plant", "read-anywhere"], Stdio::piped());
    assert_eq!(replayed.status.code(), Some(1));
    assert!(String::from_utf8(replayed.stderr).unwrap().contains(failed), "the same objection");
    assert!(String::from_utf8(replayed.stdout).unwrap().contains("OBJECTION"), "the trace shows where");
}

#[test]
fn a_seed_that_failed_is_named_even_if_nobody_reads_the_rest() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let swept = simulate(&["--seeds", "100", "--plant", "read-anywhere"], writer.into());
    let errors = String::from_utf8(swept.stderr).unwrap();
    assert!(!swept.status.success() && errors.contains("FAILED"), "{errors}");
}

#[test]
fn without_a_bug_the_same_seeds_are_clean_and_every_operation_of_a_disk_fails_in_some() {
    let mut faults = DiskFaults::default();
    for seed in 1..=SEEDS * 4 {
        let report = run(Settings { seed, ..Settings::default() });
        assert_eq!(report.violation, None, "seed {seed}");
        faults += report.troubles.disk_faults;
    }
    let never: Vec<DiskOp> = DiskOp::ALL.into_iter().filter(|op| faults.of(*op).done == 0).collect();
    assert!(never.is_empty(), "{never:?} have never failed: {faults}");
}
