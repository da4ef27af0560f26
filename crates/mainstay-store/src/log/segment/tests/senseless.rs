//! Files whose checksums are right and whose content makes no sense: an error, never a panic, and no memory for what
//! they need.

use super::super::format::{BLOCK_HEADER_BYTES, BlockHeader, SEGMENT_HEADER_BYTES, SegmentHeader, align};
use super::super::record::{self, Carry};
use super::*;
use crate::log::batch::LogWrite;

const LEN: u64 = 16 << 10;

/// A log of one segment, with one block of batches in it.
fn log_of(number: u32, first_lsn: u64, count: u32, batches: &[Vec<u8>]) -> SimDisk {
    let disk = SimDisk::new(0);
    disk.create_dir_all(Path::new(DIR)).unwrap();
    let mut content = vec![0; BLOCK_HEADER_BYTES];
    for batch in batches {
        content.extend_from_slice(&(batch.len() as u32).to_le_bytes());
        content.extend_from_slice(batch);
    }
    let len = content.len() as u32;
    content.resize(align(u64::from(len), 512) as usize, 0);
    let checksum = crc32c::crc32c(&content[BLOCK_HEADER_BYTES..]);
    let header = BlockHeader { first_lsn, batches: count, len, mask: 0, checksum };
    content[..BLOCK_HEADER_BYTES].copy_from_slice(&header.encode(number, SEGMENT_HEADER_BYTES as u64));
    for (number, content) in [(Some(number), &content[..]), (number.checked_add(1), &[])] {
        let Some(number) = number else { continue };
        let file = disk.open(&segment_path(number), OpenMode::New).unwrap();
        file.allocate(LEN).unwrap();
        file.write_all_at(&SegmentHeader::new(number, LEN, 512).encode(), 0).unwrap();
        file.write_all_at(content, SEGMENT_HEADER_BYTES as u64).unwrap();
    }
    disk
}

fn batch(writes: &[LogWrite]) -> Vec<u8> {
    let mut bytes = Vec::new();
    writes.iter().for_each(|write| record::encode(write, &mut bytes, |_, _| {}));
    bytes
}

fn carry(group: GroupId, first: u64, next: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    record::encode_carry(&mut bytes, &Carry { group, first, next, hard_state: None, mark: None });
    bytes
}

fn append(first: u64) -> LogWrite {
    LogWrite::Append { group: A, first, entries: vec!["x".into()] }
}

fn compact(through: u64) -> LogWrite {
    LogWrite::Compact { group: A, through, mark: "mark".into() }
}

fn expect_corrupt(disk: &SimDisk, part: &str) {
    let error = open(disk).map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error:?}");
    assert!(error.to_string().contains(part), "{error} does not say {part}");
}

#[test]
fn what_the_helper_writes_is_a_log() {
    let log = open(&log_of(1, 7, 1, &[batch(&[append(3), append(4)])])).unwrap();
    assert_eq!((log.group(A).first, log.group(A).next), (3, 5));
}

#[test]
fn sequence_numbers_that_cannot_be_are_damage() {
    for (first_lsn, count) in [(u64::MAX, 1), (u64::MAX - 1, 1), (1 << 63, 1), (0, 1), (5, 0)] {
        expect_corrupt(&log_of(1, first_lsn, count, &[Vec::new()]), "numbers that no block has");
    }
    expect_corrupt(&log_of(1, 1, u32::MAX, &[Vec::new()]), "the block ends");
}

#[test]
fn a_carry_takes_no_memory_for_entries_that_it_only_claims() {
    for next in [1 << 32, 1 << 48, u64::MAX - 1] {
        let disk = log_of(2, 1, 2, &[carry(A, 0, next), batch(&[append(next)])]);
        expect_corrupt(&disk, if next == u64::MAX - 1 { "no index would be left" } else { "entry 0 of group 1" });
        // They are allowed to have been, if they are dropped again.
        let log = open(&log_of(2, 1, 2, &[carry(A, 0, next), batch(&[compact(next - 1)])])).unwrap();
        assert_eq!((log.group(A).first, log.group(A).next), (next, next));
        let cut = LogWrite::Truncate { group: A, from: 0 };
        let log = open(&log_of(2, 1, 2, &[carry(A, 0, next), batch(&[cut, append(77)])])).unwrap();
        assert_eq!((log.group(A).first, log.group(A).next), (77, 78));
    }
    expect_corrupt(&log_of(2, 1, 1, &[carry(A, 0, u64::MAX)]), "entries that cannot be");
    expect_corrupt(&log_of(2, 1, 1, &[carry(A, 9, 8)]), "entries that cannot be");
}

#[test]
fn carried_entries_are_whole_when_each_was_moved_or_dropped() {
    let moved = |indexes: &[u64]| {
        let mut bytes = Vec::new();
        for index in indexes {
            record::encode_moved(&mut bytes, A, *index, &entry(*index));
        }
        bytes
    };
    let read_back = |writes: &[Vec<u8>]| {
        let mut batches = vec![carry(A, 10, 20)];
        batches.extend_from_slice(writes);
        log_of(2, 1, batches.len() as u32, &batches)
    };
    let most: Vec<u64> = (12..18).collect();
    let cut = batch(&[LogWrite::Truncate { group: A, from: 18 }]);
    let disk = read_back(&[moved(&most), batch(&[compact(11)]), cut.clone(), moved(&[13])]);
    let log = open(&disk).unwrap();
    expect(&log, A, 12..18);
    super::append(&log, A, 18..30);
    drop(log);
    expect(&open(&disk).unwrap(), A, 12..30);

    expect_corrupt(&read_back(&[moved(&most), cut.clone()]), "entry 10 of group 1");
    expect_corrupt(&read_back(&[moved(&most), batch(&[compact(11)])]), "entry 18 of group 1");
    expect_corrupt(&read_back(&[moved(&[12, 14, 15, 16, 17]), batch(&[compact(11)]), cut]), "entry 13 of group 1");
    expect_corrupt(&read_back(&[moved(&[20])]), "entry 20 of group 1, which is not there");
    let log = open(&read_back(&[batch(&[LogWrite::Remove { group: A }, append(1)])])).unwrap();
    assert_eq!((log.group(A).first, log.group(A).next), (1, 2));
}

#[test]
fn writes_that_no_log_would_have_taken_are_damage() {
    let cut = |from| LogWrite::Truncate { group: A, from };
    for writes in [
        vec![append(5), append(7)],
        vec![append(5), append(5)],
        vec![append(u64::MAX - 1)],
        vec![append(u64::MAX)],
        vec![compact(9), append(11)],
        vec![compact(9), compact(3)],
        vec![compact(9), cut(3)],
        vec![append(5), cut(4)],
        vec![compact(u64::MAX)],
        vec![compact(u64::MAX - 1)],
    ] {
        expect_corrupt(&log_of(1, 1, 1, &[batch(&writes)]), "group 1 at index");
    }
    // The last index that can be.
    let log = open(&log_of(1, 1, 1, &[batch(&[compact(u64::MAX - 3), append(u64::MAX - 2)])])).unwrap();
    assert_eq!(log.group(A).next, u64::MAX - 1);
}

#[test]
fn a_segment_begins_with_carries_and_carries_are_nowhere_else() {
    expect_corrupt(&log_of(2, 1, 1, &[batch(&[append(1)])]), "does not carry what came before");
    let mixed = [carry(A, 1, 1), batch(&[append(1)])].concat();
    expect_corrupt(&log_of(2, 1, 1, &[mixed]), "does not carry what came before");
    expect_corrupt(&log_of(2, 1, 1, &[[carry(B, 1, 1), carry(A, 1, 1)].concat()]), "out of their order");
    expect_corrupt(&log_of(2, 1, 1, &[[carry(A, 1, 1), carry(A, 1, 1)].concat()]), "out of their order");
    expect_corrupt(&log_of(1, 1, 1, &[carry(A, 1, 1)]), "in the midst of a segment");
    expect_corrupt(&log_of(2, 1, 2, &[carry(A, 1, 1), carry(B, 1, 1)]), "in the midst of a segment");
    assert_eq!(open(&log_of(2, 1, 1, &[Vec::new()])).unwrap().groups(), [], "there may be no group");
}

#[test]
fn the_last_number_that_a_file_can_have_is_no_overflow() {
    expect_corrupt(&log_of(u32::MAX, 1, 1, &[carry(A, 1, 1)]), "4294967295.segment");
    let disk = SimDisk::new(0);
    disk.create_dir_all(Path::new(DIR)).unwrap();
    disk.open(&segment_path(u32::MAX), OpenMode::New).unwrap();
    expect_corrupt(&disk, "4294967295.segment");
    // With one left the log is read, and says so when it would have to move on.
    let log = open(&log_of(u32::MAX - 1, 1, 1, &[carry(A, 1, 1)])).unwrap();
    let error = (1..).find_map(|index| write(&log, |batch| _ = batch.append(A, index, vec![entry(index)])).err());
    assert!(error.unwrap().to_string().contains("no segment left"));
}
