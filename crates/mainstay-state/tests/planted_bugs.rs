//! The checker of serializability finds a lock manager with one line broken, within a stated number of seeds. Run with
//! `cargo test -p mainstay-state --features planted-bugs --test planted_bugs`.
#![cfg(feature = "planted-bugs")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod support;
mod workload;

use mainstay_core::Level;
use mainstay_state::planted::{PlantedBug, plant};

/// Within how many seeds each bug is found. On the persisted level another thread has a say in it, so there is room.
const SEEDS: u64 = 200;
/// How many are shown to be clean without a bug.
const CLEAN_SEEDS: u64 = 20;

fn first_objection(bug: Option<PlantedBug>, level: Level, seeds: u64) -> Option<(u64, String)> {
    plant(bug);
    let objection = (1..=seeds).find_map(|seed| {
        let history = workload::run(seed, level);
        workload::check(&history).err().map(|why| (seed, why))
    });
    plant(None);
    objection
}

#[track_caller]
fn expect_found(bug: PlantedBug, level: Level) {
    let (seed, why) =
        first_objection(Some(bug), level, SEEDS).unwrap_or_else(|| panic!("{bug:?} was not found in {SEEDS} seeds"));
    println!("{bug:?} was found at seed {seed}: {why}");
}

#[test]
fn a_reader_beside_a_writer_is_found() {
    expect_found(PlantedBug::SharedJoinsExclusive, Level::None);
}

#[test]
fn locks_that_are_released_before_the_commit_is_done_are_found() {
    // Where a commit has to wait.
    expect_found(PlantedBug::ReleaseBeforeCommit, Level::Persisted);
}

#[test]
fn reads_without_locks_are_found() {
    expect_found(PlantedBug::ForgetSharedLocks, Level::None);
}

#[test]
fn a_collection_that_is_shared_while_somebody_clears_it_is_found() {
    expect_found(PlantedBug::ShareWhatIsBarred, Level::None);
}

#[test]
fn without_a_bug_the_same_seeds_are_clean() {
    for level in support::LEVELS {
        assert_eq!(first_objection(None, level, CLEAN_SEEDS), None);
    }
}
