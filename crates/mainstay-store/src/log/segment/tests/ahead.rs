//! The spare segment is zeroed ahead of its use, bit by bit.

use super::faults::failure;
use super::file::FILL_STEP_BYTES;
use super::*;
use crate::disk::sim::{DiskOp, Fault};

const STEP: u64 = FILL_STEP_BYTES as u64;

fn options() -> LogOptions {
    LogOptions { segment_bytes: 16 * STEP, ..LogOptions::default() }
}

fn open(disk: &SimDisk) -> SegmentLog {
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
