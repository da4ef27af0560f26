//! Room is given back: by removing segments that nobody needs, and by moving what keeps one in use.

use super::*;

fn segments(disk: &SimDisk) -> usize {
    disk.list(Path::new(DIR)).unwrap().iter().filter(|name| file::file_number(name).is_some()).count()
}

/// Writes on until the segment cleaner has come down to a number of segments.
fn settle(log: &SegmentLog, disk: &SimDisk, segments_max: usize) {
    while segments(disk) > segments_max {
        write(log, |_| {}).unwrap();
        thread::yield_now();
    }
}

#[test]
fn compacted_segments_are_removed() {
    let disk = SimDisk::new(0);
    let log = open(&disk).unwrap();
    append(&log, A, 1..400);
    write(&log, |batch| _ = batch.hard_state(B, "kept".into()).compact(B, 9, "mark".into())).unwrap();
    assert!(segments(&disk) > 8);
    write(&log, |batch| _ = batch.compact(A, 395, "mark".into())).unwrap();
    settle(&log, &disk, 3);
    append(&log, A, 400..500);
    disk.crash();
    drop(log);
    let log = open(&disk).unwrap();
    expect(&log, A, 396..500);
    assert_eq!(log.group(B).hard_state.unwrap(), "kept");
    write(&log, |batch| _ = batch.remove(A).remove(B)).unwrap();
    settle(&log, &disk, 2);
    append(&log, GroupId(3), 1..100);
    drop(log);
    assert_eq!(open(&disk).unwrap().groups(), [GroupId(3)], "what was removed stays removed");
}

#[test]
fn a_group_that_is_never_compacted_does_not_keep_the_whole_log() {
    let disk = SimDisk::new(0);
    let options = LogOptions { log_bytes_max: 96 << 10, ..small() };
    let open = || SegmentLog::open(Arc::new(disk.clone()), Path::new(DIR), options.clone()).unwrap();
    let log = open();
    append(&log, B, 1..20);
    for round in 0..40 {
        append(&log, A, round * 30 + 1..round * 30 + 31);
        write(&log, |batch| _ = batch.compact(A, round * 30 + 25, "mark".into())).unwrap();
    }
    settle(&log, &disk, 8);
    expect(&log, B, 1..20);
    assert!(!disk.list(Path::new(DIR)).unwrap().contains(&file::file_name(1)));
    drop(log);
    disk.crash();
    let log = open();
    expect(&log, B, 1..20);
    expect(&log, A, 39 * 30 + 26..40 * 30 + 1);
}

#[test]
fn zeros_are_read_back_from_disk() {
    let disk = SimDisk::new(0);
    let log = open(&disk).unwrap();
    let zeros = Bytes::from(vec![0; 3000]);
    for index in 0..50 {
        let entry = if index % 2 == 0 { zeros.clone() } else { Bytes::new() };
        write(&log, |batch| _ = batch.append(A, index, vec![entry])).unwrap();
    }
    let check = |log: &SegmentLog| {
        for (index, entry) in (0..50).zip(log.read(A, 0..50, usize::MAX).unwrap()) {
            assert_eq!(entry, if index % 2 == 0 { zeros.clone() } else { Bytes::new() });
        }
    };
    check(&log);
    drop(log);
    check(&open(&disk).unwrap());
}

/// Waits until the segment cleaner, which is asked to look again and again, finds nothing to move.
fn come_to_rest(log: &SegmentLog) {
    let shared = &log.handle.shared;
    for _ in 0..200 {
        let before = log.activity().flushes;
        // It has begun to look when it takes the request, and has ended when it takes the next.
        for _ in 0..2 {
            shared.state.lock().keep = true;
            shared.keeping.notify_one();
            while shared.state.lock().keep {
                thread::yield_now();
            }
        }
        write(log, |_| {}).unwrap();
        if log.activity().flushes == before + 1 {
            return;
        }
    }
    panic!("the log does not come to rest");
}

#[test]
fn small_entries_are_not_moved_for_ever() {
    let disk = SimDisk::new(0);
    let options = LogOptions { log_bytes_max: 96 << 10, ..small() };
    let log = SegmentLog::open(Arc::new(disk.clone()), Path::new(DIR), options).unwrap();
    for round in 0..40u64 {
        write(&log, |batch| _ = batch.append(A, round * 1000, vec![Bytes::from_static(b"x"); 1000])).unwrap();
    }
    come_to_rest(&log);
    assert!(disk.used_bytes() < 500_000, "{} bytes for 40000", disk.used_bytes());
    assert_eq!(log.read(A, 0..40_000, usize::MAX).unwrap().len(), 40_000);
}

#[test]
fn entries_are_not_moved_for_ever_beside_hard_states_that_fill_a_segment() {
    let disk = SimDisk::new(0);
    let options = LogOptions { log_bytes_max: 96 << 10, ..small() };
    let log = SegmentLog::open(Arc::new(disk.clone()), Path::new(DIR), options).unwrap();
    append(&log, B, 1..60);
    for group in 10..25 {
        write(&log, |batch| _ = batch.hard_state(GroupId(group), vec![1; 1000].into())).unwrap();
    }
    for round in 0..20 {
        append(&log, A, round * 30 + 1..round * 30 + 31);
        write(&log, |batch| _ = batch.compact(A, round * 30 + 25, "mark".into())).unwrap();
    }
    come_to_rest(&log);
    expect(&log, B, 1..60);
    assert!(segments(&disk) < 20, "{} segments", segments(&disk));
}

#[test]
fn what_is_carried_leaves_room_for_batches() {
    let disk = SimDisk::new(0);
    let log = open(&disk).unwrap();
    for group in 0..40 {
        write(&log, |batch| _ = batch.hard_state(GroupId(100 + group), vec![1; 1000].into())).unwrap();
    }
    let before = *super::damage::segments(&disk).last().unwrap();
    append(&log, A, 1..101);
    let after = *super::damage::segments(&disk).last().unwrap();
    // A block each, of one sector: sixteen of them fill half a segment.
    assert!(after - before <= 100 / 16 + 1, "{} segments for 100 batches", after - before);
    drop(log);
    expect(&open(&disk).unwrap(), A, 1..101);
}

#[test]
fn entries_are_moved_in_batches_of_a_bounded_size() {
    let disk = SimDisk::new(0);
    let options = LogOptions { log_bytes_max: 1, segment_bytes: 128 << 10, batch_bytes_max: 64 << 10, ..small() };
    let log = SegmentLog::open(Arc::new(disk.clone()), Path::new(DIR), options).unwrap();
    for round in 0..10 {
        write(&log, |batch| _ = batch.append(B, round * 1000, vec![Bytes::new(); 1000])).unwrap();
    }
    let mut index = 1;
    while disk.list(Path::new(DIR)).unwrap().contains(&file::file_name(1)) {
        write(&log, |batch| _ = batch.append(A, index, vec![vec![7; 10_000].into()]).compact(A, index, "mark".into()))
            .unwrap();
        index += 1;
        thread::yield_now();
    }
    assert_eq!(log.read(B, 0..10_000, usize::MAX).unwrap().len(), 10_000);
    drop(log);
    for number in super::damage::segments(&disk) {
        assert!(super::damage::bytes_of(&disk, number).len() <= 128 << 10, "no segment was made longer for a batch");
    }
}
