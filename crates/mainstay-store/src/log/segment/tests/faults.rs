//! A disk that refuses: every error is clear, and nothing that was acknowledged is lost.

use super::*;
use crate::disk::sim::{DiskOp, Fault};

#[test]
fn a_failed_write_or_sync_stops_the_log_until_it_is_opened_anew() {
    for op in [DiskOp::Write, DiskOp::Sync] {
        for crash in [false, true] {
            let disk = SimDisk::new(3);
            let log = open(&disk).unwrap();
            append(&log, A, 1..20);
            // Not the spare segment, which is made ready at any time: see the test below.
            disk.inject(Fault::on(op).path("0000000001.segment"));
            let (called, wait) = mpsc::sync_channel(10);
            let mut accepted = 0;
            for index in 20..25 {
                let called = called.clone();
                let mut batch = LogBatch::new();
                batch.append(A, index, vec![entry(index)]);
                let done = Box::new(move |result: Result<()>| called.send(result).unwrap());
                accepted += usize::from(log.submit(batch, done).is_ok());
            }
            for _ in 0..accepted {
                let error = wait.recv().unwrap().unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Fatal);
                assert!(error.to_string().contains("injected fault"), "{error}");
                assert!(error.to_string().contains("0000000001.segment"), "{error}");
            }
            let error = write(&log, |batch| _ = batch.hard_state(A, "x".into())).unwrap_err();
            assert!(error.kind() == ErrorKind::Fatal && error.to_string().contains("injected fault"), "{error}");
            drop(log);
            if crash {
                disk.crash();
            }
            let log = open(&disk).unwrap();
            let next = log.group(A).next;
            assert!(next >= 20);
            expect(&log, A, 1..next);
            append(&log, A, next..next + 5);
            drop(log);
            // What is found once stays, even if an earlier sync had failed.
            disk.crash();
            expect(&open(&disk).unwrap(), A, 1..next + 5);
        }
    }
}

/// Waits until the log refuses, and says why.
pub(super) fn failure(log: &SegmentLog) -> Error {
    loop {
        if let Err(error) = write(log, |_| ()) {
            return error;
        }
        thread::yield_now();
    }
}

#[test]
fn a_failed_sync_of_the_spare_segment_stops_the_log() {
    for crash in [false, true] {
        for seed in 0..20 {
            let disk = SimDisk::new(seed);
            let log = open(&disk).unwrap();
            // Its header is made durable before the log moves on to the second.
            disk.inject(Fault::on(DiskOp::Sync).path("0000000003.segment"));
            let mut next = 1;
            while write(&log, |batch| _ = batch.append(A, next, vec![entry(next)])).is_ok() {
                next += 1;
                assert!(next < 1000, "seed {seed}: nobody has noticed");
            }
            let error = failure(&log);
            assert!(error.kind() == ErrorKind::Fatal && error.to_string().contains("injected fault"), "{error}");
            drop(log);
            if crash {
                disk.crash();
            }
            // In the same boot of the machine the header can be read, whether it is on the disk or not.
            let log = open(&disk).unwrap();
            let found = log.group(A).next;
            assert!(found >= next, "seed {seed}");
            append(&log, A, found..found + 200);
            drop(log);
            disk.crash();
            let log = open(&disk).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            expect(&log, A, 1..found + 200);
        }
    }
}

#[test]
fn a_segment_that_cannot_be_zeroed_ahead_is_used_as_it_is_but_not_one_that_cannot_be_synced() {
    let disk = SimDisk::new(1);
    let segment = Segment::create(&disk, Path::new("/"), SegmentHeader::new(3, 1 << 20, 512)).unwrap();
    assert!(segment.fill_step(u64::MAX).unwrap(), "there is more to zero");
    disk.inject(Fault::on(DiskOp::Sync));
    segment.fill_step(u64::MAX).unwrap_err();
    disk.inject(Fault::on(DiskOp::Write).kind(io::ErrorKind::StorageFull));
    assert!(!segment.fill_step(u64::MAX).unwrap(), "nothing more is zeroed");
    assert!(!segment.fill_step(u64::MAX).unwrap());
}

#[test]
fn a_log_whose_first_files_could_not_be_synced_is_whole_once_it_is_opened() {
    for file in ["0000000001.segment", "0000000002.segment"] {
        for seed in 0..20 {
            let disk = SimDisk::new(seed);
            disk.inject(Fault::on(DiskOp::Sync).path(file));
            open(&disk).unwrap_err();
            let log = open(&disk).unwrap();
            append(&log, A, 1..100);
            drop(log);
            disk.crash();
            let log = open(&disk).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            expect(&log, A, 1..100);
        }
    }
}

#[test]
fn a_torn_end_that_could_not_be_cleaned_up_is_cleaned_up_by_the_next_who_opens() {
    let mut torn = 0;
    for seed in 0..200 {
        let disk = SimDisk::new(seed);
        let log = open(&disk).unwrap();
        append(&log, A, 1..5);
        // A block of many sectors, written and not synced.
        disk.inject(Fault::on(DiskOp::Sync).path("0000000001.segment"));
        write(&log, |batch| _ = batch.append(A, 5, (5..40).map(entry).collect())).unwrap_err();
        drop(log);
        disk.crash();
        disk.inject(Fault::on(DiskOp::Sync).path("0000000001.segment"));
        open(&disk).unwrap_err();
        disk.heal();
        let log = open(&disk).unwrap();
        let next = log.group(A).next;
        torn += u32::from(next == 5);
        append(&log, A, next..next + 1);
        drop(log);
        disk.crash();
        let log = open(&disk).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        expect(&log, A, 1..next + 1);
    }
    assert!(torn > 20, "{torn}");
}

#[test]
fn a_full_disk_refuses_a_batch_and_changes_nothing() {
    let disk = SimDisk::new(0);
    let log = open(&disk).unwrap();
    append(&log, A, 1..10);
    disk.set_capacity(Some(disk.used_bytes()));
    let mut index = 10;
    let error = loop {
        match write(&log, |batch| _ = batch.append(A, index, vec![entry(index)])) {
            Ok(()) => index += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::StorageFull);
    assert!(error.to_string().contains("/log") && error.to_string().contains("free room"), "{error}");
    expect(&log, A, 1..index);
    // What frees room, or says who may lead, is still taken.
    write(&log, |batch| _ = batch.hard_state(A, "vote".into())).unwrap();
    write(&log, |batch| _ = batch.compact(A, 5, "five".into())).unwrap();
    drop(log);
    let log = open(&disk).unwrap();
    expect(&log, A, 6..index);
    assert!(write(&log, |batch| _ = batch.append(A, index, vec![entry(index)])).is_err());
    disk.set_capacity(None);
    append(&log, A, index..index + 100);
    expect(&log, A, 6..index + 100);
}

#[test]
fn hard_states_do_not_use_up_the_room_that_a_compaction_needs() {
    let disk = SimDisk::new(0);
    let log = open(&disk).unwrap();
    append(&log, A, 1..10);
    disk.set_capacity(Some(disk.used_bytes()));
    let mut refused = [false; 2];
    let mut index = 10;
    while refused != [true; 2] {
        match write(&log, |batch| _ = batch.append(A, index, vec![entry(index)])) {
            Ok(()) => index += 1,
            Err(_) => refused[0] = true,
        }
        refused[1] |= write(&log, |batch| _ = batch.hard_state(A, "vote".into())).is_err();
        refused[1] |= write(&log, |_| {}).is_err();
    }
    for group in [A, B] {
        write(&log, |batch| _ = batch.compact(group, index - 1, "mark".into())).unwrap();
    }
    // Nothing is in the way any more once the disk has room for the next segment.
    disk.set_capacity(None);
    append(&log, A, index..index + 100);
    drop(log);
    expect(&open(&disk).unwrap(), A, index..index + 100);
}

#[test]
fn opening_without_permission_room_or_a_lock_says_so() {
    let denied = |op| {
        let disk = SimDisk::new(0);
        append(&open(&disk).unwrap(), A, 1..3);
        disk.inject(Fault::on(op).times(u64::MAX).kind(io::ErrorKind::PermissionDenied));
        let error = open(&disk).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Fatal);
        assert!(error.to_string().contains("/log") && error.to_string().contains("permission"), "{error}");
        disk.heal();
        expect(&open(&disk).unwrap(), A, 1..3);
    };
    for op in [DiskOp::Open, DiskOp::List, DiskOp::CreateDir, DiskOp::Lock, DiskOp::Read] {
        denied(op);
    }
    let disk = SimDisk::new(0);
    disk.set_capacity(Some(20 << 10));
    assert_eq!(open(&disk).unwrap_err().kind(), ErrorKind::StorageFull);
    disk.set_capacity(None);
    let log = open(&disk).unwrap();
    let error = open(&disk).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(error.to_string().contains("folder /log") && error.to_string().contains("stop it first"), "{error}");
    drop(log);
    open(&disk).unwrap();
}

#[test]
fn limits_are_kept() {
    let disk = SimDisk::new(0);
    let options = LogOptions { batch_bytes_max: 100_000, queue_bytes_max: 150_000, ..task_options() };
    let noted = Arc::new(Mutex::new(Vec::new()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let log = SegmentLog::open(Arc::new(disk.clone()), Path::new(DIR), options).unwrap();
        let submit = |index, bytes: usize| {
            let mut batch = LogBatch::new();
            batch.append(A, index, vec![Bytes::from(vec![1; bytes])]);
            let noted = Arc::clone(&noted);
            log.submit(batch, Box::new(move |result| noted.lock().push(result))).map_err(|error| error.kind())
        };
        assert_eq!(submit(1, 100_000), Err(ErrorKind::TooLarge));
        // Larger than a segment: it gets one of its own.
        submit(1, 90_000).unwrap();
        assert_eq!(submit(2, 90_000), Err(ErrorKind::Overloaded));
        assert_eq!(log.group(A).next, 2);
        while submit(2, 90_000).is_err() {
            mainstay_core::time::sleep(mainstay_core::time::Duration::from_millis(1)).await;
        }
        drop(log);
    });
    let noted: Vec<Result<()>> = std::mem::take(&mut *noted.lock());
    assert_eq!(noted.into_iter().collect::<Result<Vec<()>>>().unwrap().len(), 2);
    let log = open(&disk).unwrap();
    assert_eq!(log.read(A, 1..3, usize::MAX).unwrap(), vec![Bytes::from(vec![1; 90_000]); 2]);
}

pub(super) fn task_options() -> LogOptions {
    LogOptions { driver: Driver::Task { sync_delay: SyncDelay::default() }, ..small() }
}
