//! The node log as a whole: with a second process, and with files that an earlier build has written.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, mpsc};

use bytes::Bytes;
use mainstay_core::{ErrorKind, Result};
use mainstay_store::disk::RealDisk;
use mainstay_store::log::{GroupId, LogBatch, LogOptions, NodeLog, SegmentLog};

const A: GroupId = GroupId(1);
const B: GroupId = GroupId(2);
/// Tells the test binary, started once more, that it is the second process.
const FOLDER_VARIABLE: &str = "NODE_LOG_TEST_FOLDER";

fn open(dir: &Path) -> Result<SegmentLog> {
    open_with(dir, 1024)
}

fn open_with(dir: &Path, block_alignment: u32) -> Result<SegmentLog> {
    let options =
        LogOptions { segment_bytes: 16 * u64::from(block_alignment), block_alignment, ..LogOptions::default() };
    SegmentLog::open(Arc::new(RealDisk), dir, options)
}

fn write(log: &SegmentLog, fill: impl FnOnce(&mut LogBatch)) {
    let mut batch = LogBatch::new();
    fill(&mut batch);
    let (called, wait) = mpsc::sync_channel(1);
    log.submit(batch, Box::new(move |result| called.send(result).unwrap())).unwrap();
    wait.recv().unwrap().unwrap();
}

#[test]
fn a_second_process_is_told_that_the_folder_is_in_use() {
    if let Some(dir) = std::env::var_os(FOLDER_VARIABLE) {
        let error = open(Path::new(&dir)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict);
        let text = error.to_string();
        assert!(text.contains(&*dir.to_string_lossy()) && text.contains("process "), "{text}");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path()).unwrap();
    write(&log, |batch| _ = batch.append(A, 1, vec!["entry".into()]));
    let second = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_second_process_is_told_that_the_folder_is_in_use"])
        .env(FOLDER_VARIABLE, dir.path())
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&second.stdout);
    assert!(second.status.success() && output.contains("1 passed"), "{output}");
    drop(log);
    assert_eq!(open(dir.path()).unwrap().group(A).next, 2);
}

#[test]
fn a_file_in_the_place_of_the_folder_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "no folder").unwrap();
    let error = open(&file).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Fatal);
    assert!(error.to_string().contains(&*file.to_string_lossy()), "{error}");
}

#[test]
fn a_folder_that_may_not_be_written_is_named_and_what_was_acknowledged_stays() {
    let dir = tempfile::tempdir().unwrap();
    let allow = |mode| std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(mode)).unwrap();
    let log = open(dir.path()).unwrap();
    write(&log, |batch| _ = batch.append(A, 1, vec!["entry".into()]));
    allow(0o500);
    if std::fs::write(dir.path().join("probe"), "").is_ok() {
        return again_as_nobody("a_folder_that_may_not_be_written_is_named_and_what_was_acknowledged_stays");
    }
    // What is open goes on until it needs a new file.
    let mut next = 2;
    let error = loop {
        assert!(next < 100_000, "it never needs a new file");
        let mut batch = LogBatch::new();
        batch.append(A, next, vec![vec![7; 3000].into()]);
        match log.submit(batch, Box::new(drop)) {
            Ok(()) => next += 1,
            Err(error) => break error,
        }
    };
    let text = error.to_string();
    assert!(error.kind() == ErrorKind::Retry && text.contains("permission denied"), "{text}");
    assert!(text.contains(&*dir.path().to_string_lossy()), "{text}");
    drop(log);
    allow(0o000);
    let error = open(dir.path()).unwrap_err();
    assert!(error.kind() == ErrorKind::Fatal && error.to_string().contains("permission denied"), "{error}");
    allow(0o700);
    assert_eq!(open(dir.path()).unwrap().group(A).next, next);
}

/// Runs a test once more as somebody who is not root, who may do anything. From a place that everybody may read.
fn again_as_nobody(test: &str) {
    const NOBODY: u32 = 65_534;
    let place = tempfile::tempdir().unwrap();
    let program = place.path().join("test");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    for path in [place.path(), &program] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let output =
        Command::new(&program).args(["--exact", test]).current_dir("/").uid(NOBODY).gid(NOBODY).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

/// What the kept files of every version hold. They were written by `write_golden`.
fn expect_golden(log: &SegmentLog) {
    assert_eq!(log.groups(), [A, B]);
    let view = log.group(A);
    assert_eq!((view.first, view.next), (3, 91));
    assert_eq!((view.hard_state.unwrap(), view.mark.unwrap()), (Bytes::from("term 7"), Bytes::from("through 2")));
    let entries = log.read(A, 3..91, usize::MAX).unwrap();
    for (index, entry) in (3u64..).zip(&entries) {
        assert_eq!(*entry, golden_entry(index));
    }
    let view = log.group(B);
    assert_eq!((view.first, view.next, view.hard_state, view.mark), (5, 7, None, None));
    assert_eq!(log.read(B, 5..7, usize::MAX).unwrap(), [Bytes::from(vec![0; 2000]), Bytes::from("last")]);
}

fn golden_entry(index: u64) -> Bytes {
    Bytes::from(format!("entry {index} of version 1 {}", "=".repeat(index as usize)))
}

fn write_golden(dir: &Path) {
    let log = open(dir).unwrap();
    for index in 1..100 {
        write(&log, |batch| _ = batch.append(A, index, vec![golden_entry(index)]));
    }
    write(&log, |batch| {
        batch.truncate(A, 91).hard_state(A, "term 7".into()).compact(A, 2, "through 2".into());
    });
    // A block that is masked, and a group that comes and goes.
    write(&log, |batch| _ = batch.append(B, 5, vec![vec![0; 2000].into()]).append(GroupId(3), 1, vec!["x".into()]));
    write(&log, |batch| _ = batch.append(B, 6, vec!["last".into()]).remove(GroupId(3)));
}

fn golden_folder(version: u32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/node-log-v{version}"))
}

#[test]
fn files_of_every_version_are_read() {
    for (version, block_alignment) in [(1, 512), (1, 4096), (2, 1024), (2, 4096)] {
        let dir = tempfile::tempdir().unwrap();
        for entry in std::fs::read_dir(golden_folder(version)).unwrap() {
            let entry = entry.unwrap();
            std::fs::copy(entry.path(), dir.path().join(entry.file_name())).unwrap();
        }
        let open = || open_with(dir.path(), block_alignment).unwrap();
        expect_golden(&open());
        // Opening has not changed what is there, and what today's build writes from it can be read, too.
        let log = open();
        write(&log, |batch| _ = batch.hard_state(B, "today".into()));
        drop(log);
        assert_eq!(open().group(B).hard_state.unwrap(), "today");
    }
}

/// Where the first byte of a file is that is not zero, from a place on.
fn next_written(path: &Path, from: usize) -> Option<usize> {
    std::fs::read(path).unwrap().iter().skip(from).position(|byte| *byte != 0).map(|at| at + from)
}

#[test]
fn a_log_of_version_1_goes_on_in_a_segment_with_aligned_blocks() {
    let dir = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(golden_folder(1)).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), dir.path().join(entry.file_name())).unwrap();
    }
    let [last, spare] = [5, 6].map(|number| dir.path().join(format!("{number:010}.segment")));
    let before = std::fs::read(&last).unwrap();
    assert_eq!(next_written(&spare, 512), None, "the spare one is empty");
    let log = open_with(dir.path(), 4096).unwrap();
    for index in 91..95 {
        write(&log, |batch| _ = batch.append(A, index, vec!["aligned".into()]));
    }
    assert!(std::fs::read(&last).unwrap() == before, "no block is added to what shares sectors");
    let bytes = std::fs::read(&spare).unwrap();
    let blocks: Vec<usize> = (0..bytes.len()).step_by(512).filter(|at| bytes[*at..].starts_with(b"MLBK")).collect();
    assert!(blocks.len() >= 2 && blocks.iter().all(|at| at % 4096 == 0), "{blocks:?}");
}

#[test]
fn todays_files_hold_the_same() {
    let dir = tempfile::tempdir().unwrap();
    write_golden(dir.path());
    expect_golden(&open(dir.path()).unwrap());
    for entry in std::fs::read_dir(golden_folder(2)).unwrap() {
        let name = entry.unwrap().file_name();
        let (kept, now) = (std::fs::read(golden_folder(2).join(&name)), std::fs::read(dir.path().join(&name)));
        assert!(kept.unwrap() == now.unwrap(), "{name:?} is written differently: that needs a new version");
    }
}
