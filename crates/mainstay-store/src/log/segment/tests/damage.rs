//! Damage is found and named, wherever it is; what a crash may leave behind is not taken for damage.

use super::super::format::{SECTOR_BYTES, SEGMENT_HEADER_BYTES, SegmentHeader, align};
use super::*;
use crate::disk::OpenMode;

/// A closed log of several segments, all in use, with several blocks in the last.
fn written() -> SimDisk {
    let disk = SimDisk::new(0);
    let log = open(&disk).unwrap();
    append(&log, A, 1..120);
    write(&log, |batch| _ = batch.hard_state(B, "state".into())).unwrap();
    // Something that needs a mask, and something longer than a sector.
    write(&log, |batch| _ = batch.append(B, 1, vec![Bytes::from(vec![0; 5000]), Bytes::from(vec![9; 2000])])).unwrap();
    drop(log);
    disk
}

fn expect_written(disk: &SimDisk) {
    let log = open(disk).unwrap();
    expect(&log, A, 1..120);
    assert_eq!(log.group(B).hard_state.unwrap(), "state");
    let entries = log.read(B, 1..3, usize::MAX).unwrap();
    assert!(entries[0] == vec![0; 5000] && entries[1] == vec![9; 2000]);
}

pub(super) fn segments(disk: &SimDisk) -> Vec<u32> {
    disk.list(Path::new(DIR)).unwrap().iter().filter_map(|name| file::file_number(name)).collect()
}

pub(super) fn bytes_of(disk: &SimDisk, number: u32) -> Vec<u8> {
    let file = disk.open(&segment_path(number), OpenMode::Existing).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

pub(super) fn used(bytes: &[u8]) -> usize {
    let last = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    align(last as u64 + 1, 512) as usize
}

/// The number of the last segment with blocks, where they end, and where the last of them starts.
fn tail(disk: &SimDisk) -> (u32, usize, usize) {
    let numbers = segments(disk);
    let number = numbers[numbers.len() - 2];
    let bytes = bytes_of(disk, number);
    let end = used(&bytes);
    let start = (SEGMENT_HEADER_BYTES..end)
        .step_by(SECTOR_BYTES)
        .rfind(|at| format::BlockHeader::decode(&bytes[*at..], number, *at as u64).is_some())
        .unwrap();
    (number, end, start)
}

fn expect_corrupt(disk: &SimDisk, part: &str) {
    let error = open(disk).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error:?}");
    assert!(error.to_string().contains(part), "{error} does not name {part}");
}

#[test]
fn a_flipped_bit_is_found_wherever_it_is_and_nothing_is_changed() {
    let disk = written();
    let numbers = segments(&disk);
    assert!(numbers.len() >= 4);
    for number in numbers {
        let bytes = bytes_of(&disk, number);
        // Everything up to the end of the last block and the first sector after it.
        let end = used(&bytes).min(bytes.len());
        for offset in (0..end).step_by(13).chain([end - 1]) {
            let bit = (offset / 13 % 8) as u8;
            disk.flip_bit(&segment_path(number), offset as u64, bit).unwrap();
            expect_corrupt(&disk, &file::file_name(number));
            disk.flip_bit(&segment_path(number), offset as u64, bit).unwrap();
        }
    }
    expect_written(&disk);
}

#[test]
fn a_flipped_bit_under_a_running_log_is_an_error_and_never_data() {
    let disk = SimDisk::new(0);
    let log = open(&disk).unwrap();
    append(&log, A, 1..120);
    let bytes = bytes_of(&disk, 1);
    let at = bytes.windows(200).position(|window| window == entry(7)).unwrap() as u64;
    disk.flip_bit(&segment_path(1), at + 100, 3).unwrap();
    let error = log.read(A, 7..8, usize::MAX).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().contains("0000000001.segment") && error.to_string().contains(&format!("{at}")));
    assert_eq!(log.read(A, 1..120, usize::MAX).unwrap_err().kind(), ErrorKind::Corrupt);
    assert_eq!(log.read(A, 8..9, usize::MAX).unwrap(), [entry(8)]);
    disk.cut(&segment_path(1), at).unwrap();
    assert_eq!(log.read(A, 7..8, usize::MAX).unwrap_err().kind(), ErrorKind::Corrupt);
}

#[test]
fn a_torn_last_block_is_dropped_and_leaves_nothing_behind() {
    let disk = written();
    let (number, end, start) = tail(&disk);
    assert!(end - start > 4 * SECTOR_BYTES);
    for lost in (start..end).step_by(SECTOR_BYTES) {
        let disk = written();
        for offset in lost..lost + SECTOR_BYTES {
            disk.set_byte(&segment_path(number), offset as u64, 0).unwrap();
        }
        let log = open(&disk).unwrap();
        assert_eq!(log.group(B).next, 0, "the batch was never acknowledged");
        expect(&log, A, 1..120);
        drop(log);
        assert_eq!(used(&bytes_of(&disk, number)), start);
        // What comes next takes the place.
        let log = open(&disk).unwrap();
        append(&log, B, 5..9);
        drop(log);
        disk.crash();
        let log = open(&disk).unwrap();
        expect(&log, A, 1..120);
        expect(&log, B, 5..9);
    }
}

#[test]
fn a_block_that_a_later_one_proves_is_not_taken_for_torn() {
    let disk = written();
    let (number, _, last) = tail(&disk);
    let zero = |disk: &SimDisk, number, range: Range<usize>| {
        for offset in range {
            disk.set_byte(&segment_path(number), offset as u64, 0).unwrap();
        }
    };
    // The block before the last, whole and by its sectors, in the same segment; then the end of an earlier segment.
    zero(&disk, number, last - SECTOR_BYTES..last);
    expect_corrupt(&disk, &file::file_name(number));
    for number in [1, 2] {
        let disk = written();
        let end = used(&bytes_of(&disk, number));
        zero(&disk, number, end - SECTOR_BYTES..end);
        expect_corrupt(&disk, "segment");
        let disk = written();
        zero(&disk, number, SEGMENT_HEADER_BYTES..end);
        expect_corrupt(&disk, &file::file_name(number));
    }
}

#[test]
fn damage_to_the_zeros_of_the_spare_segment_is_overwritten() {
    let disk = written();
    let spare = *segments(&disk).last().unwrap();
    disk.flip_bit(&segment_path(spare), 5000, 0).unwrap();
    expect_written(&disk);
    assert_eq!(used(&bytes_of(&disk, spare)), SEGMENT_HEADER_BYTES);
    // Where the next block goes, anything but a block is damage.
    disk.flip_bit(&segment_path(spare), 600, 0).unwrap();
    expect_corrupt(&disk, &file::file_name(spare));
}

#[test]
fn a_missing_file_is_missed() {
    let numbers = segments(&written());
    for from in 0..numbers.len() {
        for to in from + 1..=numbers.len() {
            if to - from == numbers.len() {
                continue;
            }
            let disk = written();
            for number in &numbers[from..to] {
                disk.remove(&segment_path(*number)).unwrap();
            }
            expect_corrupt(&disk, "missing");
        }
    }
}

#[test]
fn a_cut_file_is_found() {
    for (number, len) in [(1, 0), (1, 100), (1, 4096), (2, 9000), (4, 600), (4, 10_000)] {
        let disk = written();
        disk.cut(&segment_path(number), len).unwrap();
        expect_corrupt(&disk, &file::file_name(number));
    }
}

#[test]
fn a_young_log_whose_first_file_is_damaged_is_not_made_anew() {
    for mode in [OpenMode::Either, OpenMode::Existing, OpenMode::New] {
        for len in [0, 100, 512, 700] {
            let disk = SimDisk::new(0);
            append(&open(&disk).unwrap(), A, 1..5);
            disk.cut(&segment_path(1), len).unwrap();
            let before = [bytes_of(&disk, 1), bytes_of(&disk, 2)];
            let error =
                SegmentLog::open(Arc::new(disk.clone()), Path::new(DIR), LogOptions { mode, ..small() }).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
            assert!(error.to_string().contains("0000000001.segment"), "{error}");
            assert!(segments(&disk) == [1, 2] && [bytes_of(&disk, 1), bytes_of(&disk, 2)] == before);
        }
    }
}

#[test]
fn a_file_that_creating_a_log_has_left_unfinished_is_begun_again_and_any_other_is_not() {
    let lone = |bytes: &[u8]| {
        let disk = SimDisk::new(0);
        disk.create_dir_all(Path::new(DIR)).unwrap();
        disk.open(&segment_path(1), OpenMode::New).unwrap().write_all_at(bytes, 0).unwrap();
        disk
    };
    let header = SegmentHeader::new(1, 16 << 10, 512).encode();
    for unfinished in [&[][..], &[0; 100], &[0; 512], &[0; 9000], &header] {
        let disk = lone(unfinished);
        let options = LogOptions { mode: OpenMode::Existing, ..small() };
        let error = SegmentLog::open(Arc::new(disk.clone()), Path::new(DIR), options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
        assert_eq!(segments(&disk), [1], "who knows that there was a log can still look at what is left");
        append(&open(&disk).unwrap(), A, 1..5);
        expect(&open(&disk).unwrap(), A, 1..5);
    }
    for damaged in [&header[..100], &[7; 512], &SegmentHeader::new(2, 16 << 10, 512).encode()] {
        expect_corrupt(&lone(damaged), "0000000001.segment");
    }
}

#[test]
fn files_of_another_version_or_place_are_refused() {
    let disk = written();
    let mut header = SegmentHeader::new(2, 16 << 10, 512).encode();
    header[8] = 9;
    let checksum = crc32c::crc32c(&header[..SECTOR_BYTES - 4]);
    header[SECTOR_BYTES - 4..].copy_from_slice(&checksum.to_le_bytes());
    disk.open(&segment_path(2), OpenMode::Existing).unwrap().write_all_at(&header, 0).unwrap();
    let error = open(&disk).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnknownVersion);
    assert!(error.to_string().contains("0000000002.segment") && error.to_string().contains("version 9"), "{error}");

    let disk = written();
    disk.rename(&segment_path(1), Path::new("/log/x")).unwrap();
    disk.rename(&segment_path(2), &segment_path(1)).unwrap();
    disk.rename(Path::new("/log/x"), &segment_path(2)).unwrap();
    expect_corrupt(&disk, "0000000001.segment");
}

#[test]
fn a_file_longer_than_a_segment_can_be_is_damage_and_takes_no_memory() {
    let disk = written();
    let (number, ..) = tail(&disk);
    // With holes: nobody has so much room.
    disk.open(&segment_path(number), OpenMode::Existing).unwrap().set_len(1 << 63).unwrap();
    expect_corrupt(&disk, "longer than a segment can be");
}
