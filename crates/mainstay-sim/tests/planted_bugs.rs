//! The checkers find bugs that are known to be fatal, each within a stated number of seeds. Run with
//! `cargo test -p mainstay-sim --features planted-bugs`.
#![cfg(feature = "planted-bugs")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use mainstay_sim::planted::PlantedBug;
use mainstay_sim::{Settings, run};

/// Within how many seeds each bug is found.
const SEEDS: u64 = 100;

/// The first seed at which a checker objects, of so many.
fn found_within(bug: PlantedBug, seeds: u64) -> (u64, String) {
    (1..=seeds)
        .find_map(|seed| {
            let report = run(Settings { seed, bug: Some(bug), ..Settings::default() });
            report.violation.map(|violation| (seed, violation))
        })
        .unwrap_or_else(|| panic!("{bug:?} was not found within {seeds} seeds"))
}

#[test]
fn a_log_that_acknowledges_before_it_syncs_is_found_within_100_seeds() {
    let (seed, violation) = found_within(PlantedBug::AcknowledgeBeforeSync, SEEDS);
    println!("found at seed {seed}: {violation}");
}

#[test]
fn reads_without_a_lease_are_found_within_100_seeds() {
    let (seed, violation) = found_within(PlantedBug::ReadWithoutLease, SEEDS);
    println!("found at seed {seed}: {violation}");
    assert!(violation.contains("serve") || violation.contains("read"), "{violation}");
}

#[test]
fn a_forgotten_hard_state_is_found_within_100_seeds() {
    let (seed, violation) = found_within(PlantedBug::ForgetHardState, SEEDS);
    println!("found at seed {seed}: {violation}");
}

#[test]
fn without_a_bug_the_same_seeds_are_clean() {
    for seed in 1..=SEEDS {
        assert_eq!(run(Settings { seed, ..Settings::default() }).violation, None, "seed {seed}");
    }
}
