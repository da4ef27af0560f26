//! The first block of a segment, which carries what is known of all groups: a log never lives on in a segment that has
//! lost it.

use super::damage::{bytes_of, segments, used};
use super::*;
use crate::disk::sim::{DiskOp, Fault};
use crate::log::segment::format::{SECTOR_BYTES, SEGMENT_HEADER_BYTES};

fn zero(disk: &SimDisk, number: u32, range: Range<usize>) {
    for offset in range {
        disk.set_byte(&segment_path(number), offset as u64, 0).unwrap();
    }
}

/// Writes until a segment has its first block, which is the last of the log.
fn fill_until(log: &SegmentLog, disk: &SimDisk, number: u32, mut write_one: impl FnMut(&SegmentLog)) {
    for _ in 0..WRITES_MAX {
        if segments(disk).contains(&(number + 1)) && used(&bytes_of(disk, number)) != SEGMENT_HEADER_BYTES {
            return;
        }
        write_one(log);
    }
    panic!("segment {number} never has its first block");
}

/// So many writes fill any segment of these tests, and give the segment cleaner time for anything.
const WRITES_MAX: usize = 1_000_000;

/// Lets the segment cleaner fail to remove what a crash would have brought back: the machine stops before it comes to that.
fn keep_files(disk: &SimDisk) {
    disk.inject(Fault::on(DiskOp::Remove).times(u64::MAX));
}

/// Waits until the segment cleaner has removed a segment.
fn await_removal(log: &SegmentLog, disk: &SimDisk, number: u32) {
    for _ in 0..WRITES_MAX {
        if !segments(disk).contains(&number) {
            return;
        }
        write(log, |_| {}).unwrap();
        thread::yield_now();
    }
    panic!("segment {number} is never removed");
}

#[test]
fn hard_states_outlive_the_segments_before_a_torn_first_block() {
    let end = {
        let disk = SimDisk::new(0);
        let (log, _) = rotated(&disk);
        drop(log);
        used(&bytes_of(&disk, 2))
    };
    assert!(end > SEGMENT_HEADER_BYTES + 4 * SECTOR_BYTES, "the block has several sectors");
    for lost in (SEGMENT_HEADER_BYTES..end).step_by(SECTOR_BYTES) {
        let disk = SimDisk::new(0);
        let (log, next) = rotated(&disk);
        drop(log);
        zero(&disk, 2, lost..lost + SECTOR_BYTES);
        let log = open(&disk).unwrap();
        assert_eq!(log.group(A).next, next - 1, "the batch was never acknowledged");
        fill_until(&log, &disk, 2, |log| {
            let next = log.group(A).next;
            append(log, A, next..next + 1);
        });
        let next = log.group(A).next;
        write(&log, |batch| _ = batch.compact(A, next - 1, "mark".into())).unwrap();
        await_removal(&log, &disk, 1);
        drop(log);
        disk.crash();
        let log = open(&disk).unwrap();
        assert_eq!(log.group(B).hard_state.unwrap(), vec![7; 2000], "sector at {lost}");
        assert_eq!((log.group(A).first, log.group(A).next), (next, next));
    }
}

/// A log that has just moved on to its second segment, and the index after the last of group A.
fn rotated(disk: &SimDisk) -> (SegmentLog, u64) {
    let log = open(disk).unwrap();
    write(&log, |batch| _ = batch.hard_state(B, vec![7; 2000].into())).unwrap();
    let mut next = 1;
    fill_until(&log, disk, 2, |log| {
        append(log, A, next..next + 1);
        next += 1;
    });
    (log, next)
}

#[test]
fn a_log_of_hard_states_alone_outlives_a_torn_first_block() {
    let disk = SimDisk::new(0);
    let log = open(&disk).unwrap();
    keep_files(&disk);
    let mut vote = 0u64;
    fill_until(&log, &disk, 2, |log| {
        vote += 1;
        write(log, |batch| _ = batch.hard_state(A, entry(vote)).hard_state(B, vec![7; 2000].into())).unwrap();
    });
    drop(log);
    let end = used(&bytes_of(&disk, 2));
    zero(&disk, 2, end - SECTOR_BYTES..end);
    disk.heal();
    let log = open(&disk).unwrap();
    assert_eq!(log.group(A).hard_state.unwrap(), entry(vote - 1));
    fill_until(&log, &disk, 2, |log| {
        vote += 1;
        write(log, |batch| _ = batch.hard_state(A, entry(vote))).unwrap();
    });
    await_removal(&log, &disk, 1);
    drop(log);
    disk.crash();
    let log = open(&disk).unwrap();
    assert_eq!(log.group(A).hard_state.unwrap(), entry(vote));
    assert_eq!(log.group(B).hard_state.unwrap(), vec![7; 2000]);
}

#[test]
fn a_segment_before_a_torn_first_block_is_kept_while_nothing_carries_what_it_holds() {
    let disk = SimDisk::new(0);
    let log = open(&disk).unwrap();
    keep_files(&disk);
    fill_until(&log, &disk, 2, |log| {
        write(log, |batch| _ = batch.hard_state(A, entry(1)).hard_state(B, vec![7; 2000].into())).unwrap();
    });
    drop(log);
    let end = used(&bytes_of(&disk, 2));
    zero(&disk, 2, end - SECTOR_BYTES..end);
    disk.heal();
    // Closing waits for the segment cleaner, which may have looked by then at what opening has found.
    for _ in 0..3 {
        let log = open(&disk).unwrap();
        assert_eq!(log.group(B).hard_state.unwrap(), vec![7; 2000]);
        write(&log, |_| {}).unwrap();
        drop(log);
        assert!(segments(&disk).contains(&1));
    }
}

#[test]
fn a_first_block_that_is_torn_without_a_file_before_it_is_damage() {
    let disk = SimDisk::new(0);
    drop(rotated(&disk));
    let end = used(&bytes_of(&disk, 2));
    zero(&disk, 2, end - SECTOR_BYTES..end);
    disk.remove(&segment_path(1)).unwrap();
    let before = bytes_of(&disk, 2);
    let error = open(&disk).unwrap_err();
    assert!(error.kind() == ErrorKind::Corrupt && error.to_string().contains("0000000002.segment"), "{error}");
    assert!(bytes_of(&disk, 2) == before && segments(&disk) == [2, 3], "nothing was changed");
}

#[test]
fn a_missing_file_after_a_torn_first_block_is_missed() {
    let disk = SimDisk::new(0);
    drop(rotated(&disk));
    let end = used(&bytes_of(&disk, 2));
    zero(&disk, 2, end - SECTOR_BYTES..end);
    disk.remove(&segment_path(3)).unwrap();
    let error = open(&disk).unwrap_err();
    assert!(error.kind() == ErrorKind::Corrupt && error.to_string().contains("0000000003.segment"), "{error}");
}

#[test]
fn a_torn_first_block_that_could_not_be_cleaned_up_is_cleaned_up_by_the_next_who_opens() {
    for (op, seed) in [DiskOp::Write, DiskOp::Sync].into_iter().flat_map(|op| (0..20).map(move |seed| (op, seed))) {
        let disk = SimDisk::new(seed);
        let (log, next) = rotated(&disk);
        drop(log);
        let end = used(&bytes_of(&disk, 2));
        zero(&disk, 2, end - SECTOR_BYTES..end);
        disk.inject(Fault::on(op).path("0000000002.segment"));
        open(&disk).unwrap_err();
        assert!(segments(&disk).contains(&3), "the proof that the file was begun stays until it is clean");
        if seed % 2 == 0 {
            disk.crash();
        }
        let log = open(&disk).unwrap();
        append(&log, A, next - 1..next);
        drop(log);
        disk.crash();
        let log = open(&disk).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        expect(&log, A, 1..next);
        assert_eq!(log.group(B).hard_state.unwrap(), vec![7; 2000]);
    }
}
