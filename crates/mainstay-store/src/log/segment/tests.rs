use std::sync::mpsc;

use super::*;
use crate::disk::RealDisk;
use crate::disk::sim::SimDisk;

mod ahead;
mod crash;
mod damage;
mod faults;
mod first_block;
mod golden;
mod group_commit;
mod running;
mod senseless;
mod space;

const DIR: &str = "/log";
const A: GroupId = GroupId(1);
const B: GroupId = GroupId(2);

/// Small segments, so that a test sees many of them.
fn small() -> LogOptions {
    LogOptions { segment_bytes: 16 << 10, block_alignment: 512, cache_bytes_max: 4 << 10, ..LogOptions::default() }
}

fn open(disk: &SimDisk) -> Result<SegmentLog> {
    SegmentLog::open(Arc::new(disk.clone()), Path::new(DIR), small())
}

/// Submits a batch and waits until it is durable.
fn write(log: &dyn NodeLog, fill: impl FnOnce(&mut LogBatch)) -> Result<()> {
    let mut batch = LogBatch::new();
    fill(&mut batch);
    let (called, wait) = mpsc::sync_channel(1);
    log.submit(batch, Box::new(move |result| called.send(result).unwrap()))?;
    wait.recv().unwrap()
}

/// An entry that says which it is, 200 bytes long.
fn entry(index: u64) -> Bytes {
    Bytes::from(format!("{index:0200}"))
}

fn append(log: &dyn NodeLog, group: GroupId, indexes: Range<u64>) {
    for index in indexes {
        write(log, |batch| _ = batch.append(group, index, vec![entry(index)])).unwrap();
    }
}

fn expect(log: &dyn NodeLog, group: GroupId, indexes: Range<u64>) {
    let view = log.group(group);
    assert_eq!((view.first, view.next), (indexes.start, indexes.end));
    let found = log.read(group, indexes.clone(), usize::MAX).unwrap();
    assert!(found == indexes.map(entry).collect::<Vec<_>>());
}

fn segment_path(number: u32) -> std::path::PathBuf {
    Path::new(DIR).join(file::file_name(number))
}

#[test]
fn segment_log_conforms_on_the_real_disk() {
    super::super::conformance::check_durable(&|| {
        let dir = tempfile::tempdir().unwrap();
        Box::new(move || SegmentLog::open(Arc::new(RealDisk), dir.path(), small()).unwrap())
    });
}

#[test]
fn segment_log_conforms_on_the_simulated_disk() {
    super::super::conformance::check_durable(&|| {
        let disk = SimDisk::new(0);
        Box::new(move || open(&disk).unwrap())
    });
}

#[test]
fn a_callback_may_hold_the_last_clone() {
    let disk = SimDisk::new(0);
    let log = open(&disk).unwrap();
    let (called, wait) = mpsc::sync_channel(1);
    let held = log.clone();
    let (let_go, gone) = mpsc::sync_channel::<()>(0);
    let done = Box::new(move |result: Result<()>| {
        // Blocks until the other clone is gone, which only a test may do.
        let _ = gone.recv();
        drop(held);
        called.send(result).unwrap();
    });
    let mut batch = LogBatch::new();
    batch.append(A, 1, vec![entry(1)]);
    log.submit(batch, done).unwrap();
    drop(log);
    drop(let_go);
    wait.recv().unwrap().unwrap();
    // The thread lets the folder go when it ends by itself.
    let log = loop {
        match open(&disk) {
            Ok(log) => break log,
            Err(error) => assert_eq!(error.kind(), ErrorKind::Conflict),
        }
        thread::yield_now();
    };
    expect(&log, A, 1..2);
}

#[test]
fn a_thread_that_cannot_be_started_leaves_the_folder_free() {
    for failing in ["mainstay-log", "mainstay-log-cleaner"] {
        let disk = SimDisk::new(0);
        let start = |worker: Worker| {
            if worker.name == failing { Err(Error::fatal("no thread is left")) } else { start(worker) }
        };
        let opened = SegmentLog::open_with(Arc::new(disk.clone()), Path::new(DIR), small(), start);
        assert_eq!(opened.map(drop).unwrap_err().kind(), ErrorKind::Fatal);
        append(&open(&disk).unwrap(), A, 1..5);
    }
}

#[test]
fn a_log_that_must_be_there_is_not_made_anew_and_one_that_must_not_is_not_taken() {
    let disk = SimDisk::new(1);
    disk.create_dir_all(Path::new("/")).unwrap();
    let open = |mode| SegmentLog::open(Arc::new(disk.clone()), Path::new(DIR), LogOptions { mode, ..small() });
    let missing =
        |error: Error| assert!(error.kind() == ErrorKind::NotFound && error.to_string().contains(DIR), "{error}");
    missing(open(OpenMode::Existing).unwrap_err());
    assert!(disk.list(Path::new(DIR)).is_err(), "no folder was made");
    append(&open(OpenMode::New).unwrap(), A, 1..5);
    assert_eq!(open(OpenMode::New).unwrap_err().kind(), ErrorKind::Conflict);
    expect(&open(OpenMode::Existing).unwrap(), A, 1..5);
    for name in disk.list(Path::new(DIR)).unwrap() {
        disk.remove(&Path::new(DIR).join(name)).unwrap();
    }
    missing(open(OpenMode::Existing).unwrap_err());
    disk.lose_dir(Path::new(DIR));
    missing(open(OpenMode::Existing).unwrap_err());
}
