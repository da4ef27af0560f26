//! Room is given back: by removing segments that nobody needs, and by moving what keeps one in use.

use super::*;

fn segments(disk: &SimDisk) -> usize {
    disk.list(Path::new(DIR)).unwrap().iter().filter(|name| file::file_number(name).is_some()).count()
}

/// Writes on until the keeper has come down to a number of segments.
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
