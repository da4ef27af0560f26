//! What every [`Disk`] must do, as a check to run on one.
#![allow(clippy::unwrap_used, clippy::missing_panics_doc, reason = "a check fails by panicking")]

use std::io::ErrorKind;
use std::path::Path;

use super::{Disk, OpenMode};

/// Checks everything that can be seen without a crash, in an existing empty folder.
pub fn check(disk: &dyn Disk, dir: &Path) {
    opening(disk, dir);
    reading_and_writing(disk, dir);
    writing_blocks(disk, dir);
    lengths(disk, dir);
    folders(disk, dir);
    renaming_and_removing(disk, dir);
    locking(disk, dir);
}

fn opening(disk: &dyn Disk, dir: &Path) {
    let path = dir.join("opening");
    assert_eq!(disk.open(&path, OpenMode::Existing).unwrap_err().kind(), ErrorKind::NotFound);
    disk.open(&path, OpenMode::New).unwrap().write_all_at(b"kept", 0).unwrap();
    assert_eq!(disk.open(&path, OpenMode::New).unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert_eq!(disk.open(&path, OpenMode::Existing).unwrap().len().unwrap(), 4);
    assert_eq!(disk.open(&path, OpenMode::Either).unwrap().len().unwrap(), 4);
    let other = disk.open(&dir.join("opening-2"), OpenMode::Either).unwrap();
    assert!(other.is_empty().unwrap());
    let nowhere = dir.join("no-such-folder").join("file");
    assert_eq!(disk.open(&nowhere, OpenMode::Either).unwrap_err().kind(), ErrorKind::NotFound);
    assert!(disk.open(dir, OpenMode::Existing).is_err(), "a folder is no file");
    for name in ["opening", "opening-2"] {
        disk.remove(&dir.join(name)).unwrap();
    }
}

fn reading_and_writing(disk: &dyn Disk, dir: &Path) {
    let path = dir.join("file");
    let file = disk.open(&path, OpenMode::New).unwrap();
    let other = disk.open(&path, OpenMode::Existing).unwrap();
    let bytes: Vec<u8> = (0..10_000u32).map(|number| (number % 251) as u8).collect();
    file.write_all_at(&bytes, 5_000).unwrap();
    assert_eq!(file.len().unwrap(), 15_000);
    file.write_all_at(b"over", 9_998).unwrap();
    file.write_all_at(b"", 40_000).unwrap();
    assert_eq!(file.len().unwrap(), 15_000, "writing nothing changes nothing");

    let mut expected = vec![0; 5_000];
    expected.extend_from_slice(&bytes);
    expected[9_998..10_002].copy_from_slice(b"over");
    let mut found = vec![1; 15_000];
    other.read_exact_at(&mut found, 0).unwrap();
    assert!(found == expected, "another handle sees what was written, and zeros in the hole");
    let mut part = [0; 100];
    other.read_exact_at(&mut part, 14_900).unwrap();
    assert_eq!(part[..], expected[14_900..]);
    assert_eq!(other.read_exact_at(&mut part, 14_901).unwrap_err().kind(), ErrorKind::UnexpectedEof);
    file.sync().unwrap();
    disk.sync_dir(dir).unwrap();
    disk.remove(&path).unwrap();
    other.read_exact_at(&mut part, 14_900).unwrap();
    assert_eq!(part[..], expected[14_900..], "a removed file can be read for as long as it is open");
}

fn writing_blocks(disk: &dyn Disk, dir: &Path) {
    let path = dir.join("blocks");
    assert_eq!(disk.open_direct(&path, OpenMode::Existing).unwrap_err().kind(), ErrorKind::NotFound);
    let file = disk.open_direct(&path, OpenMode::New).unwrap();
    let other = disk.open(&path, OpenMode::Existing).unwrap();
    file.allocate(20_000).unwrap();
    let mut expected = vec![0; 20_000];
    for (number, (offset, len)) in (1..).zip([(0, 512), (512, 2_048), (2_560, 100), (2_560, 512), (19_968, 1_024)]) {
        file.write_all_at(&vec![number; len], offset as u64).unwrap();
        file.sync().unwrap();
        expected.resize(expected.len().max(offset + len), 0);
        expected[offset..offset + len].fill(number);
        for handle in [&file, &other] {
            let mut found = vec![1; expected.len()];
            handle.read_exact_at(&mut found, 0).unwrap();
            assert!(found == expected, "everybody sees write {number}");
        }
    }
    assert_eq!(file.len().unwrap(), 20_992);
    disk.remove(&path).unwrap();
}

fn lengths(disk: &dyn Disk, dir: &Path) {
    let path = dir.join("lengths");
    let file = disk.open(&path, OpenMode::New).unwrap();
    file.write_all_at(&[7; 6_000], 0).unwrap();
    file.set_len(1_000).unwrap();
    file.set_len(9_000).unwrap();
    let mut found = vec![1; 9_000];
    file.read_exact_at(&mut found, 0).unwrap();
    assert!(found[..1_000].iter().all(|byte| *byte == 7));
    assert!(found[1_000..].iter().all(|byte| *byte == 0), "what was cut off does not come back");
    file.allocate(20_000).unwrap();
    assert_eq!(file.len().unwrap(), 20_000);
    file.allocate(500).unwrap();
    assert_eq!(file.len().unwrap(), 20_000, "allocating less does not cut");
    let mut found = vec![1; 11_000];
    file.read_exact_at(&mut found, 9_000).unwrap();
    assert!(found.iter().all(|byte| *byte == 0));
    disk.remove(&path).unwrap();
}

fn folders(disk: &dyn Disk, dir: &Path) {
    let deep = dir.join("a").join("b");
    disk.create_dir_all(&deep).unwrap();
    disk.create_dir_all(&deep).unwrap();
    for name in ["z", "k", "m"] {
        disk.open(&deep.join(name), OpenMode::New).unwrap();
    }
    assert_eq!(disk.list(&deep).unwrap(), ["k", "m", "z"]);
    assert_eq!(disk.list(&dir.join("a")).unwrap(), ["b"]);
    assert_eq!(disk.list(&dir.join("c")).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(disk.sync_dir(&dir.join("c")).unwrap_err().kind(), ErrorKind::NotFound);
    assert!(disk.create_dir_all(&deep.join("k")).is_err(), "a file is no folder");
}

fn renaming_and_removing(disk: &dyn Disk, dir: &Path) {
    let (old, new) = (dir.join("old"), dir.join("new"));
    disk.open(&old, OpenMode::New).unwrap().write_all_at(b"one", 0).unwrap();
    disk.open(&new, OpenMode::New).unwrap().write_all_at(b"other", 0).unwrap();
    disk.rename(&old, &new).unwrap();
    assert_eq!(disk.open(&new, OpenMode::Existing).unwrap().len().unwrap(), 3);
    assert_eq!(disk.open(&old, OpenMode::Existing).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(disk.rename(&old, &new).unwrap_err().kind(), ErrorKind::NotFound);
    disk.remove(&new).unwrap();
    assert_eq!(disk.remove(&new).unwrap_err().kind(), ErrorKind::NotFound);
}

fn locking(disk: &dyn Disk, dir: &Path) {
    let path = dir.join("lock");
    let lock = disk.lock(&path).unwrap();
    assert_eq!(disk.lock(&path).unwrap_err().kind(), ErrorKind::WouldBlock);
    let other = disk.lock(&dir.join("lock-2")).unwrap();
    drop(lock);
    drop(disk.lock(&path).unwrap());
    drop(other);
}
