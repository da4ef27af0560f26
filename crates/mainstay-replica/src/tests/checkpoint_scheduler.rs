//! When a checkpoint is due, and how far the log may be cut after it.

use std::time::Duration;

use mainstay_core::time;

use crate::checkpoint_scheduler::CheckpointScheduler;

const MIB: u64 = 1 << 20;

#[test]
fn the_log_is_cut_before_what_is_to_be_kept() {
    let scheduler = CheckpointScheduler::new(u64::MAX);
    assert_eq!(scheduler.compactable(100, 0), None, "nothing was logged");
    for index in 1..=20 {
        scheduler.logged(index, MIB);
    }
    assert_eq!(scheduler.compactable(20, 100 * MIB), None, "all of it is to be kept");
    let cut = scheduler.compactable(20, 5 * MIB).unwrap();
    assert_eq!(cut, 15);
    let cut = scheduler.compactable(18, 5 * MIB);
    assert!(cut.is_none_or(|cut| cut <= 15), "never beyond the checkpoint");
    assert_eq!(scheduler.compactable(20, 0), Some(20));
    scheduler.logged(30, MIB);
    assert_eq!(scheduler.compactable(20, 0), Some(20), "what comes after the checkpoint is not touched");
}

#[test]
fn small_entries_share_a_milestone() {
    let scheduler = CheckpointScheduler::new(u64::MAX);
    for index in 1..=10_000 {
        scheduler.logged(index, 100);
    }
    let cut = scheduler.compactable(10_000, 0).unwrap();
    assert!((7_000..=10_000).contains(&cut), "{cut}");
}

#[tokio::test(start_paused = true)]
async fn a_checkpoint_is_due_once_by_size_and_again_after_it_was_made() {
    let scheduler = CheckpointScheduler::new(1000);
    let is_due = async || time::timeout(Duration::from_secs(1), scheduler.checkpoint_due()).await.is_ok();
    scheduler.applied(999);
    assert!(!is_due().await);
    scheduler.applied(1000);
    scheduler.applied(2000);
    assert_eq!(scheduler.unsaved(), 2000);
    assert!(is_due().await, "although nobody waited when it became due");
    assert!(!is_due().await, "once");
    scheduler.checkpoint_done(0);
    assert!(!is_due().await);
    scheduler.applied(1500);
    assert!(is_due().await);
    scheduler.checkpoint_done(1200);
    assert!(is_due().await, "so much came in meanwhile that the next one is due at once");
}
