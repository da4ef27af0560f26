//! State that is many times larger than the memory that the store may use. Alone in its process, because it looks at
//! the memory of the process.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

use std::sync::Arc;

use mainstay_store::disk::RealDisk;
use mainstay_store::state::{DiskStore, DiskStoreOptions, KeyRange, Mark, Order, StateStore as _, WriteBatch};

const CACHE_BYTES_MAX: usize = 2 << 20;
const OVERLAY_BYTES_MAX: u64 = 2 << 20;

const VALUE_BYTES: usize = 1000;
const ENTRIES: u32 = 40_000;

/// What the process may grow by: both limits, and as much again for what a checkpoint, the chunks of an export, the
/// allocator and the program's own pages take.
const GROWTH_BYTES_MAX: u64 = 2 * (CACHE_BYTES_MAX as u64 + OVERLAY_BYTES_MAX) + (4 << 20);

/// The most memory that the process has had so far.
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("Linux tells the peak");
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

/// Spread over the whole range, so that each checkpoint touches pages everywhere.
fn key(number: u32) -> [u8; 4] {
    number.wrapping_mul(2_654_435_761).to_be_bytes()
}

fn write(store: &DiskStore, batch: &mut WriteBatch, index: u64, number: u32, byte: u8) {
    batch.clear();
    batch.put(&key(number), &[byte; VALUE_BYTES]);
    store.apply(Mark { index, ..Mark::default() }, &mut batch.iter()).unwrap();
    // What a replica does: it takes in no more before the checkpoint is done.
    if store.unsaved_bytes() >= OVERLAY_BYTES_MAX / 2 {
        store.checkpoint().unwrap();
        assert_eq!(store.unsaved_bytes(), 0);
    }
}

#[test]
fn state_many_times_larger_than_memory() {
    let folder = tempfile::tempdir().unwrap();
    let options = DiskStoreOptions { cache_bytes_max: CACHE_BYTES_MAX, ..DiskStoreOptions::default() };
    let open = |name: &str| DiskStore::open(Arc::new(RealDisk), &folder.path().join(name), options.clone()).unwrap();
    let store = open("a.state");
    let mut batch = WriteBatch::new();
    let before = peak_bytes();

    for number in 0..ENTRIES {
        write(&store, &mut batch, 1 + u64::from(number), number, 1);
    }
    // Updates all over, some of them not saved yet when everything is read.
    for number in (0..ENTRIES).step_by(7) {
        write(&store, &mut batch, 100_000 + u64::from(number), number, 2);
    }
    let expected = |number: u32| if number.is_multiple_of(7) { 2 } else { 1 };
    for number in 0..ENTRIES {
        let value = store.get(&key(number)).unwrap().unwrap();
        assert!(value.len() == VALUE_BYTES && value[0] == expected(number), "{number}");
    }
    let snapshot = store.snapshot().unwrap();
    let counts = snapshot.counts().unwrap();
    assert_eq!(counts.entries, u64::from(ENTRIES));
    assert!(counts.bytes >= 8 * (CACHE_BYTES_MAX as u64 + OVERLAY_BYTES_MAX), "the state is not large enough to tell");
    for order in [Order::Ascending, Order::Descending] {
        let scan = snapshot.scan(KeyRange::all(), order).unwrap();
        let mut last: Option<bytes::Bytes> = None;
        let mut count = 0;
        for entry in scan {
            let (key, _) = entry.unwrap();
            let is_in_order = last.as_ref().is_none_or(|last| (*last < key) == (order == Order::Ascending));
            assert!(is_in_order, "{order:?}");
            last = Some(key);
            count += 1;
        }
        assert_eq!(count, ENTRIES, "{order:?}");
    }

    let copy = open("b.state");
    let mut import = copy.import().unwrap();
    snapshot.export().unwrap().for_each(|chunk| import.push(&chunk.unwrap()).unwrap());
    import.finish().unwrap();
    assert_eq!(copy.snapshot().unwrap().counts().unwrap(), counts);

    drop(snapshot);
    batch.clear();
    batch.delete_range(b"", None);
    store.apply(Mark { index: 1_000_000, ..Mark::default() }, &mut batch.iter()).unwrap();
    assert_eq!(store.snapshot().unwrap().scan(KeyRange::all(), Order::Descending).unwrap().count(), 0);
    store.checkpoint().unwrap();
    assert_eq!(store.snapshot().unwrap().counts().unwrap().entries, 0);

    let growth = peak_bytes() - before;
    println!("state of {} MiB, memory grew by {} KiB", counts.bytes >> 20, growth >> 10);
    assert!(growth <= GROWTH_BYTES_MAX, "memory grew by {growth} bytes, more than {GROWTH_BYTES_MAX}");
}
