//! A disk that refuses while the log runs: for want of room or of permission.

use super::damage::segments;
use super::*;
use crate::disk::sim::{DiskOp, Fault};

/// Appends until the log refuses; returns the next index and the error.
fn append_until_refused(log: &SegmentLog, mut index: u64) -> (u64, Error) {
    loop {
        match write(log, |batch| _ = batch.append(A, index, vec![entry(index)])) {
            Ok(()) => index += 1,
            Err(error) => return (index, error),
        }
    }
}

#[test]
fn a_segment_that_may_not_be_created_refuses_the_batch_and_the_log_goes_on() {
    for (op, kind) in [
        (DiskOp::Open, io::ErrorKind::PermissionDenied),
        (DiskOp::Allocate, io::ErrorKind::ReadOnlyFilesystem),
        (DiskOp::Write, io::ErrorKind::PermissionDenied),
        (DiskOp::Allocate, io::ErrorKind::Other),
    ] {
        let disk = SimDisk::new(0);
        let log = open(&disk).unwrap();
        disk.inject(Fault::on(op).path("0000000003.segment").times(u64::MAX).kind(kind));
        let (index, error) = append_until_refused(&log, 1);
        assert_eq!(error.kind(), ErrorKind::Retry, "{error}");
        assert!(error.to_string().contains("cannot reserve a new segment in /log"), "{error}");
        expect(&log, A, 1..index);
        disk.heal();
        append(&log, A, index..index + 100);
        drop(log);
        disk.crash();
        expect(&open(&disk).unwrap(), A, 1..index + 100);
    }
}

#[test]
fn a_segment_that_may_not_be_removed_stays_until_it_may() {
    let disk = SimDisk::new(0);
    let log = open(&disk).unwrap();
    append(&log, A, 1..100);
    disk.inject(Fault::on(DiskOp::Remove).times(u64::MAX).kind(io::ErrorKind::PermissionDenied));
    write(&log, |batch| _ = batch.compact(A, 99, "mark".into())).unwrap();
    append(&log, A, 100..200);
    assert!(segments(&disk).contains(&1));
    drop(log);
    expect(&open(&disk).unwrap(), A, 100..200);
    disk.heal();
    let log = open(&disk).unwrap();
    while segments(&disk).contains(&1) {
        write(&log, |_| {}).unwrap();
        thread::yield_now();
    }
    expect(&log, A, 100..200);
}

#[test]
fn a_batch_that_the_disk_has_no_room_to_grow_for_is_refused_alone() {
    // In the first segment, and in one that the log would have to move on to.
    for written in [0, 40] {
        let disk = SimDisk::new(0);
        let log = open(&disk).unwrap();
        append(&log, A, 1..written + 1);
        disk.set_capacity(Some(disk.used_bytes() + (20 << 10)));
        let large = || LogBatch::new().append(B, 1, vec![vec![5; 90_000].into()]).clone();
        let error = log.submit(large(), Box::new(drop)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StorageFull);
        assert!(error.to_string().contains("cannot grow") && error.to_string().contains("free room"), "{error}");
        assert_eq!(log.group(B).next, 0);
        append(&log, A, written + 1..written + 4);
        disk.set_capacity(None);
        write(&log, |batch| *batch = large()).unwrap();
        drop(log);
        disk.crash();
        let log = open(&disk).unwrap();
        expect(&log, A, 1..written + 4);
        assert_eq!(log.read(B, 1..2, usize::MAX).unwrap(), [vec![5; 90_000]]);
    }
}

#[test]
fn a_block_that_finds_no_room_after_all_stops_the_log_and_loses_nothing() {
    // A file system that reserves room in name only says so when it writes.
    for op in [DiskOp::Write, DiskOp::Sync] {
        let disk = SimDisk::new(0);
        let log = open(&disk).unwrap();
        append(&log, A, 1..5);
        disk.inject(Fault::on(op).path("0000000001.segment").kind(io::ErrorKind::StorageFull));
        let error = write(&log, |batch| _ = batch.append(A, 5, vec![entry(5)])).unwrap_err();
        for error in [error, write(&log, |_| {}).unwrap_err()] {
            assert_eq!(error.kind(), ErrorKind::Fatal);
            let text = error.to_string();
            assert!(text.contains("the disk is full") && text.contains("restart the node"), "{text}");
        }
        drop(log);
        disk.crash();
        let log = open(&disk).unwrap();
        let next = log.group(A).next;
        assert!(next >= 5);
        append(&log, A, next..next + 5);
        expect(&log, A, 1..next + 5);
    }
}
