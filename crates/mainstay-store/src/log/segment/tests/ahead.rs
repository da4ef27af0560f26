//! The spare segment is zeroed ahead of its use, bit by bit.

use super::damage::segments;
use super::faults::failure;
use super::file::FILL_STEP_BYTES;
use super::*;
use crate::disk::sim::{DiskOp, Fault};

const STEP: u64 = FILL_STEP_BYTES as u64;

fn options() -> LogOptions {
    LogOptions { segment_bytes: 16 * STEP, ..LogOptions::default() }
}

/// A log whose segments have all the same length, the first ones too.
fn open(disk: &SimDisk) -> SegmentLog {
    if disk.list(Path::new(DIR)).is_err() {
        disk.create_dir_all(Path::new(DIR)).unwrap();
        for number in [1, 2] {
            let header = SegmentHeader::new(number, options().segment_bytes, options().block_alignment);
            create(disk, Path::new(DIR), header).unwrap();
        }
    }
    SegmentLog::open(Arc::new(disk.clone()), Path::new(DIR), options()).unwrap()
}

/// Appends an entry that fills a part of a segment.
fn append_part(log: &SegmentLog, bytes: u64) {
    let index = log.group(A).next.max(1);
    let entry = Bytes::from(vec![7; bytes as usize]);
    write(log, |batch| _ = batch.append(A, index, vec![entry])).unwrap();
}

/// Waits until the spare segment is zeroed as far as it shall be; returns its number, and how far that is.
fn await_filled(log: &SegmentLog) -> (u32, u64) {
    loop {
        let (spare, until) = {
            let state = log.handle.shared.state.lock();
            (Arc::clone(&state.spare), state.fill_until)
        };
        let to = spare.filled().expect("it is still to be zeroed");
        assert!(to <= until.max(STEP), "no further than it shall be");
        if to >= until {
            return (spare.number, to);
        }
        thread::yield_now();
    }
}

#[test]
fn the_spare_segment_is_zeroed_twice_as_fast_as_the_one_before_it_fills() {
    let disk = SimDisk::new(0);
    let log = open(&disk);
    append_part(&log, 100);
    assert_eq!(await_filled(&log), (2, STEP));
    append_part(&log, 2 * STEP);
    assert_eq!(await_filled(&log), (2, 5 * STEP));
    append_part(&log, 7 * STEP);
    assert_eq!(await_filled(&log), (2, 16 * STEP), "all of it, long before it is used");
    append_part(&log, 6 * STEP);
    while log.handle.shared.state.lock().spare.number == 2 {
        append_part(&log, STEP / 2);
    }
    assert_eq!(await_filled(&log), (3, 2 * STEP), "it begins anew with the next one");
    append_part(&log, 8 * STEP);
    assert_eq!(await_filled(&log), (3, 16 * STEP));
}

#[test]
fn a_failed_sync_of_what_is_zeroed_ahead_stops_the_log() {
    let disk = SimDisk::new(0);
    let log = open(&disk);
    append_part(&log, 100);
    await_filled(&log);
    disk.inject(Fault::on(DiskOp::Sync).path("0000000002.segment"));
    append_part(&log, STEP);
    let error = failure(&log);
    assert_eq!(error.kind(), ErrorKind::Fatal, "{error}");
    assert!(error.to_string().contains("0000000002.segment"), "{error}");
    drop(log);
    assert_eq!(open(&disk).group(A).next, 3, "what was acknowledged is there");
}

#[test]
fn a_spare_segment_that_was_left_half_done_is_zeroed_when_the_log_goes_on() {
    let disk = SimDisk::new(0);
    let log = open(&disk);
    append_part(&log, 3 * STEP);
    await_filled(&log);
    drop(log);
    let log = open(&disk);
    append_part(&log, STEP);
    // Two of the thirteen steps that were left when it was opened, and a bit: as many of sixteen.
    assert_eq!(await_filled(&log), (2, 3 * STEP), "from where the log went on, not all at once");
    assert_eq!(log.group(A).next, 3);
    drop(log);
    disk.crash();
    assert_eq!(open(&disk).group(A).next, 3);
}

#[test]
fn segments_are_small_until_the_log_grows() {
    let disk = SimDisk::new(0);
    let open = || {
        let options = LogOptions { segment_bytes: 4 << 20, ..LogOptions::default() };
        SegmentLog::open(Arc::new(disk.clone()), Path::new(DIR), options).unwrap()
    };
    let lengths = || -> Vec<u64> {
        let file = |number| disk.open(&segment_path(number), OpenMode::Existing).unwrap();
        segments(&disk).into_iter().map(|number| file(number).len().unwrap() >> 20).collect()
    };
    let log = open();
    assert_eq!(lengths(), [1, 2]);
    while segments(&disk).len() < 4 {
        append_part(&log, 100 << 10);
    }
    assert_eq!(lengths(), [1, 2, 4, 4]);
    drop(log);
    let log = open();
    while segments(&disk).len() < 6 {
        append_part(&log, 100 << 10);
    }
    assert_eq!(lengths(), [1, 2, 4, 4, 4, 4], "a log that has grown goes on as it is");
    // A batch that needs a long segment does not make those after it longer.
    append_part(&log, 9 << 20);
    let grown = lengths();
    assert!(grown.contains(&10) || grown.contains(&9), "{grown:?}");
    assert_eq!(grown.last(), Some(&4), "{grown:?}");
}

#[test]
fn a_disk_without_room_for_a_longer_segment_gets_a_short_one() {
    let disk = SimDisk::new(0);
    let options = LogOptions { segment_bytes: 64 << 20, ..LogOptions::default() };
    let log = SegmentLog::open(Arc::new(disk.clone()), Path::new(DIR), options).unwrap();
    append_part(&log, 100);
    disk.set_capacity(Some(disk.used_bytes() + (3 << 20)));
    while segments(&disk).len() < 3 {
        append_part(&log, 100 << 10);
    }
    let last = disk.open(&segment_path(3), OpenMode::Existing).unwrap();
    assert_eq!(last.len().unwrap(), 1 << 20);
}
