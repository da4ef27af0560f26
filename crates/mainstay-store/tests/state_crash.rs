//! The disk store on a disk that loses power, fills up, fails and rots.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use mainstay_core::{ErrorKind, Result};
use mainstay_store::disk::sim::{DiskOp, Fault, SimDisk};
use mainstay_store::disk::{Disk as _, OpenMode};
use mainstay_store::state::conformance::OwnedWrite;
use mainstay_store::state::{
    DiskStore, DiskStoreOptions, KeyRange, Mark, MemoryStore, Order, StateSnapshot, StateStore as _, Write, WriteBatch,
};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

const PATH: &str = "/data/set-0.state";

type Entries = BTreeMap<Vec<u8>, Vec<u8>>;

fn open(disk: &SimDisk) -> Result<DiskStore> {
    let options = DiskStoreOptions { cache_bytes_max: 64 << 10, ..DiskStoreOptions::default() };
    DiskStore::open(Arc::new(disk.clone()), Path::new(PATH), options)
}

fn mark(index: u64) -> Mark {
    Mark { index, note: Bytes::from(index.to_string()) }
}

fn entries(snapshot: &dyn StateSnapshot) -> Result<Entries> {
    let scan = snapshot.scan(KeyRange::all(), Order::Ascending)?;
    scan.map(|entry| entry.map(|(key, value)| (key.to_vec(), value.to_vec()))).collect()
}

/// Panics unless the store holds exactly these entries, by every way of reading.
fn assert_holds(store: &DiskStore, expected: &Entries) {
    let snapshot = store.snapshot().unwrap();
    assert_eq!(&entries(&*snapshot).unwrap(), expected);
    let counts = snapshot.counts().unwrap();
    assert_eq!(counts.entries, expected.len() as u64);
    assert_eq!(counts.bytes, expected.iter().map(|(key, value)| (key.len() + value.len()) as u64).sum::<u64>());
    for (key, value) in expected.iter().take(5) {
        assert_eq!(store.get(key).unwrap().as_deref(), Some(&value[..]));
    }
}

fn random_writes(random: &mut StdRng) -> Vec<OwnedWrite> {
    let key = |random: &mut StdRng| format!("key-{:03}", random.random_range(0..200)).into_bytes();
    (0..random.random_range(1..30))
        .map(|_| match random.random_range(0..14) {
            0 => OwnedWrite::DeleteRange(key(random), Some(key(random))),
            1..3 => OwnedWrite::Delete(key(random)),
            3..5 => {
                OwnedWrite::Add(format!("sum-{}", random.random_range(0..9)).into_bytes(), random.random_range(-2..9))
            }
            _ => {
                let len = random.random_range(0..1500);
                OwnedWrite::Put(key(random), vec![random.random(); len])
            }
        })
        .collect()
}

fn apply_to(model: &mut Entries, writes: &[OwnedWrite]) {
    for write in writes {
        match write {
            OwnedWrite::Put(key, value) => drop(model.insert(key.clone(), value.clone())),
            OwnedWrite::Delete(key) => drop(model.remove(key)),
            OwnedWrite::DeleteRange(start, end) => {
                model.retain(|key, _| key < start || end.as_ref().is_some_and(|end| key >= end));
            }
            OwnedWrite::Add(key, delta) => {
                let before = model.get(key).map_or(0, |value| i64::from_le_bytes(value[..].try_into().unwrap()));
                match before + delta {
                    0 => drop(model.remove(key)),
                    sum => drop(model.insert(key.clone(), sum.to_le_bytes().to_vec())),
                }
            }
            OwnedWrite::PutStamped(..) | OwnedWrite::Note(_) => unreachable!("not among the random writes"),
        }
    }
}

fn put(store: &DiskStore, index: u64, keys: std::ops::Range<u32>, len: usize) {
    let mut batch = WriteBatch::new();
    for key in keys {
        batch.put(&key.to_be_bytes(), &vec![index as u8; len]);
    }
    store.apply(mark(index), &mut batch.iter()).unwrap();
}

/// The export of a state at a mark.
fn chunks_of(state: &Entries, index: u64) -> Vec<Bytes> {
    let source = MemoryStore::new();
    let mut batch = WriteBatch::new();
    for (key, value) in state {
        batch.put(key, value);
    }
    source.apply(mark(index), &mut batch.iter()).unwrap();
    source.snapshot().unwrap().export().unwrap().map(Result::unwrap).collect()
}

/// Applies, checkpoints, imports, crashes at any operation of the disk and reopens, over and over.
fn crash_run(seed: u64) {
    let mut random = StdRng::seed_from_u64(seed);
    let disk = if seed % 2 == 1 { SimDisk::with_large_sectors(seed) } else { SimDisk::new(seed) };
    // Every state that there ever was, by the index of its mark: an import may bring an old one back, at a later one.
    let mut history: BTreeMap<u64, Entries> = BTreeMap::from([(0, Entries::new())]);
    // What may be there after a crash: the last checkpoint that returned, or one that was under way.
    let mut certain = 0;
    let mut under_way: Vec<u64> = Vec::new();
    let mut next = 1;
    for _life in 0..6 {
        if random.random_range(0..3) == 0 {
            disk.power_off_after(random.random_range(0..40));
        }
        let mut opened = open(&disk);
        if opened.is_err() {
            disk.crash();
            opened = open(&disk);
        }
        let store = opened.unwrap_or_else(|error| panic!("seed {seed}: cannot open after a crash: {error:?}"));
        let at = store.mark().index;
        assert!(at == certain || under_way.contains(&at), "seed {seed}: at {at}, but {certain} was checkpointed");
        assert_eq!(store.checkpointed(), store.mark(), "seed {seed}");
        // Power to look around.
        disk.power_off_after(u64::MAX);
        assert_holds(&store, &history[&at]);
        if at > 0 {
            assert_eq!(store.mark().note, mark(at).note, "seed {seed}");
        }
        certain = at;
        under_way.clear();
        let mut current = history[&at].clone();
        disk.power_off_after(random.random_range(1..400));
        let mut exported: Option<u64> = None;
        for _step in 0..random.random_range(1..25) {
            match random.random_range(0..10) {
                0..6 => {
                    let writes = random_writes(&mut random);
                    let before = store.mark();
                    if let Err(error) = store.apply(mark(next), &mut writes.iter().map(OwnedWrite::as_write)) {
                        // Without power a counter that is on disk alone cannot be read.
                        assert!(
                            writes.iter().any(|write| matches!(write, OwnedWrite::Add(..))),
                            "seed {seed}: {error}"
                        );
                        assert_eq!(store.mark(), before, "seed {seed}: a failed apply has changed something");
                        break;
                    }
                    apply_to(&mut current, &writes);
                    history.insert(next, current.clone());
                    next += 1;
                }
                6..9 => {
                    under_way.push(store.mark().index);
                    if let Ok(saved) = store.checkpoint() {
                        certain = saved.index;
                        under_way.clear();
                    }
                    assert_eq!(store.checkpointed().index, certain, "seed {seed}");
                }
                _ => match exported {
                    None => {
                        let snapshot = store.snapshot().unwrap();
                        let chunks = snapshot.export().and_then(Iterator::collect::<Result<Vec<Bytes>>>);
                        exported = chunks.ok().map(|_| snapshot.mark().index);
                    }
                    Some(index) => {
                        // The state of that time, at a later mark: a store goes back in no other way.
                        let (state, at) = (history[&index].clone(), next);
                        next += 1;
                        let imported = store.import().and_then(|mut import| {
                            chunks_of(&state, at).iter().try_for_each(|chunk| import.push(chunk))?;
                            under_way.push(at);
                            import.finish()
                        });
                        if imported.is_ok() {
                            certain = at;
                            under_way.clear();
                        }
                        if store.mark().index == at {
                            current = state.clone();
                        }
                        history.insert(at, state);
                    }
                },
            }
        }
        drop(store);
        disk.crash();
    }
}

#[test]
fn after_a_crash_the_state_is_that_of_its_mark() {
    for seed in 0..300 {
        crash_run(seed);
    }
}

#[test]
fn a_crash_at_every_operation_of_a_checkpoint_leaves_one_of_two_states() {
    let mut seen = (0, 0);
    for operation in 0.. {
        let disk = SimDisk::new(operation);
        let store = open(&disk).unwrap();
        put(&store, 1, 0..60, 500);
        store.checkpoint().unwrap();
        let before = entries(&*store.snapshot().unwrap()).unwrap();
        put(&store, 2, 30..90, 700);
        let after = entries(&*store.snapshot().unwrap()).unwrap();
        disk.power_off_after(operation);
        let outcome = store.checkpoint();
        drop(store);
        disk.crash();
        let store = open(&disk).unwrap_or_else(|error| panic!("operation {operation}: {error:?}"));
        match store.mark().index {
            1 if outcome.is_err() => assert_holds(&store, &before),
            2 => assert_holds(&store, &after),
            other => panic!("operation {operation}: at {other} after {outcome:?}"),
        }
        if store.mark().index == 1 {
            seen.0 += 1;
        } else {
            seen.1 += 1;
        }
        if outcome.is_ok() {
            break;
        }
    }
    assert!(seen.0 > 3 && seen.1 > 0, "{seen:?}");
}

#[test]
fn a_crash_at_every_operation_of_an_import_leaves_one_of_two_states() {
    let source = open(&SimDisk::new(0)).unwrap();
    put(&source, 9, 0..80, 300);
    let new = entries(&*source.snapshot().unwrap()).unwrap();
    let chunks: Vec<Bytes> = source.snapshot().unwrap().export().unwrap().map(Result::unwrap).collect();
    for operation in 0.. {
        let disk = SimDisk::new(operation);
        let store = open(&disk).unwrap();
        put(&store, 1, 50..60, 500);
        store.checkpoint().unwrap();
        let old = entries(&*store.snapshot().unwrap()).unwrap();
        disk.power_off_after(operation);
        let outcome = store.import().and_then(|mut import| {
            chunks.iter().try_for_each(|chunk| import.push(chunk))?;
            import.finish()
        });
        drop(store);
        disk.crash();
        let store = open(&disk).unwrap_or_else(|error| panic!("operation {operation}: {error:?}"));
        match store.mark().index {
            1 if outcome.is_err() => assert_holds(&store, &old),
            9 => assert_holds(&store, &new),
            other => panic!("operation {operation}: at {other} after {outcome:?}"),
        }
        let names = disk.list(Path::new("/data")).unwrap();
        assert_eq!(names, ["set-0.state", "set-0.state.lock"], "operation {operation}: something was left behind");
        if outcome.is_ok() {
            break;
        }
    }
}

#[test]
fn a_state_that_was_found_after_a_kill_is_there_after_a_crash() {
    let source = open(&SimDisk::new(0)).unwrap();
    put(&source, 9, 0..80, 300);
    let chunks: Vec<Bytes> = source.snapshot().unwrap().export().unwrap().map(Result::unwrap).collect();
    for seed in 0..20 {
        let disk = SimDisk::new(seed);
        let store = open(&disk).unwrap();
        put(&store, 1, 50..60, 500);
        store.checkpoint().unwrap();
        // The process is killed between the rename of an import and the sync of the folder.
        disk.inject(Fault::on(DiskOp::SyncDir).path("/data"));
        let mut import = store.import().unwrap();
        chunks.iter().try_for_each(|chunk| import.push(chunk)).unwrap();
        import.finish().unwrap_err();
        drop(store);
        // The next one sees the new name, and its log is cut by what it finds.
        let store = open(&disk).unwrap();
        assert_eq!(store.checkpointed(), mark(9));
        drop(store);
        disk.crash();
        assert_eq!(open(&disk).unwrap().mark(), mark(9), "seed {seed}");
    }
}

#[test]
fn a_crash_at_every_operation_of_a_creation_can_be_opened() {
    for operation in 0.. {
        let disk = SimDisk::new(operation);
        disk.power_off_after(operation);
        let created = open(&disk).is_ok();
        disk.crash();
        assert_holds(&open(&disk).unwrap(), &Entries::new());
        if created {
            break;
        }
    }
}

#[test]
fn a_full_disk_fails_the_checkpoint_and_nothing_else() {
    let disk = SimDisk::new(1);
    let store = open(&disk).unwrap();
    put(&store, 1, 0..50, 1000);
    store.checkpoint().unwrap();
    let held = store.snapshot().unwrap();
    let held_entries = entries(&*held).unwrap();
    put(&store, 2, 25..2000, 1000);
    let all = entries(&*store.snapshot().unwrap()).unwrap();

    disk.set_capacity(Some(disk.used_bytes() + 8192));
    for _attempt in 0..3 {
        let error = store.checkpoint().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StorageFull, "{error:?}");
        assert!(error.to_string().contains(PATH), "{error}");
        assert_eq!(store.checkpointed(), mark(1));
        assert_holds(&store, &all);
    }
    assert_eq!(entries(&*held).unwrap(), held_entries, "a snapshot outlives a failed checkpoint");
    put(&store, 3, 0..5, 10);
    let all = entries(&*store.snapshot().unwrap()).unwrap();

    disk.set_capacity(None);
    assert_eq!(store.checkpoint().unwrap(), mark(3));
    assert_eq!(entries(&*held).unwrap(), held_entries);
    assert_holds(&store, &all);
    drop((store, held));
    disk.crash();
    assert_holds(&open(&disk).unwrap(), &all);
}

/// redb doubles its file when it needs a page more. That much need not be free.
#[test]
fn a_checkpoint_needs_no_more_room_than_it_writes() {
    let disk = SimDisk::new(1);
    let store = open(&disk).unwrap();
    put(&store, 1, 0..2000, 1000);
    store.checkpoint().unwrap();
    let file = disk.open(Path::new(PATH), OpenMode::Existing).unwrap();
    let len = file.len().unwrap();
    disk.set_capacity(Some(disk.used_bytes() + len / 2));
    let mut index = 1;
    while file.len().unwrap() == len {
        index += 1;
        let first = index as u32 * 100 + 2000;
        put(&store, index, first..first + 100, 1000);
        assert_eq!(store.checkpoint().unwrap(), mark(index));
    }
    let all = entries(&*store.snapshot().unwrap()).unwrap();
    // When there is no room for what is written either, that is told, and later made good for.
    while store.checkpoint().is_ok() {
        index += 1;
        let first = index as u32 * 100 + 2000;
        put(&store, index, first..first + 100, 1000);
    }
    let error = store.checkpoint().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StorageFull, "{error:?}");
    assert!(entries(&*store.snapshot().unwrap()).unwrap().len() > all.len());
    disk.set_capacity(None);
    assert_eq!(store.checkpoint().unwrap(), mark(index));
}

#[test]
fn a_failing_disk_fails_the_checkpoint_and_a_later_one_saves_all() {
    for op in [DiskOp::Write, DiskOp::Sync, DiskOp::Allocate] {
        for nth in 1.. {
            let disk = SimDisk::new(nth);
            let store = open(&disk).unwrap();
            put(&store, 1, 0..50, 1000);
            store.checkpoint().unwrap();
            let held = store.snapshot().unwrap();
            let held_entries = entries(&*held).unwrap();
            put(&store, 2, 25..400, 1000);
            disk.inject(Fault::on(op).path("set-0").nth(nth));
            let outcome = store.checkpoint();
            disk.heal();
            put(&store, 3, 390..410, 30);
            let all = entries(&*store.snapshot().unwrap()).unwrap();
            assert_holds(&store, &all);
            match &outcome {
                Ok(_) => {}
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Retry, "{error:?}");
                    assert_eq!(store.checkpointed(), mark(1));
                }
            }
            // Unless the failed commit took place after all, what was held is still to be had.
            match entries(&*held) {
                Ok(found) => assert_eq!(found, held_entries),
                Err(error) => {
                    assert!(matches!(op, DiskOp::Sync | DiskOp::Write), "{op:?}: {error:?}");
                    assert_eq!(error.kind(), ErrorKind::Retry, "{error:?}");
                }
            }
            assert_eq!(store.checkpoint().unwrap(), mark(3));
            assert_holds(&store, &all);
            drop((store, held));
            disk.crash();
            assert_holds(&open(&disk).unwrap_or_else(|error| panic!("{op:?} {nth}: {error:?}")), &all);
            if outcome.is_ok() {
                assert!(nth > 1 || op == DiskOp::Allocate, "no {op:?} has failed");
                break;
            }
        }
    }
}

#[test]
fn a_failing_read_is_told_and_the_next_one_works() {
    let disk = SimDisk::new(1);
    let store = open(&disk).unwrap();
    put(&store, 1, 0..2000, 1000);
    store.checkpoint().unwrap();
    let snapshot = store.snapshot().unwrap();
    let all = entries(&*snapshot).unwrap();
    for nth in 1..20 {
        disk.inject(Fault::on(DiskOp::Read).path("set-0").nth(nth));
        let error = entries(&*snapshot).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Retry, "{error:?}");
        disk.heal();
        assert_eq!(entries(&*snapshot).unwrap(), all);
    }
    put(&store, 2, 0..10, 1);
    assert_eq!(store.checkpoint().unwrap(), mark(2));
}

#[test]
fn no_flipped_bit_is_ever_read_as_data() {
    let disk = SimDisk::new(1);
    let store = open(&disk).unwrap();
    put(&store, 1, 0..300, 100);
    store.checkpoint().unwrap();
    put(&store, 2, 100..400, 90);
    store.checkpoint().unwrap();
    let all = entries(&*store.snapshot().unwrap()).unwrap();
    drop(store);
    let len = disk.open(Path::new(PATH), OpenMode::Existing).unwrap().len().unwrap();

    let mut random = StdRng::seed_from_u64(1);
    let (mut harmless, mut found_on_open, mut found_on_read) = (0, 0, 0);
    let in_head = 0..4096 + 2 * 4100;
    for attempt in 0..1200 {
        let offset = if attempt % 3 == 0 { random.random_range(in_head.clone()) } else { random.random_range(0..len) };
        let bit = random.random_range(0..8);
        disk.flip_bit(Path::new(PATH), offset, bit).unwrap();
        match open(&disk) {
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Corrupt, "byte {offset}: {error:?}");
                assert!(error.to_string().contains(PATH), "{error}");
                found_on_open += 1;
                disk.flip_bit(Path::new(PATH), offset, bit).unwrap();
            }
            Ok(store) => {
                let snapshot = store.snapshot().unwrap();
                match entries(&*snapshot) {
                    Ok(found) => {
                        assert_eq!(found, all, "byte {offset}");
                        harmless += 1;
                    }
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::Corrupt, "byte {offset}: {error:?}");
                        assert!(error.to_string().contains(PATH), "{error}");
                        found_on_read += 1;
                    }
                }
                for key in (0..400_u32).step_by(37) {
                    match store.get(&key.to_be_bytes()) {
                        Ok(value) => {
                            assert_eq!(value.as_deref(), all.get(&key.to_be_bytes()[..]).map(Vec::as_slice));
                        }
                        Err(error) => assert_eq!(error.kind(), ErrorKind::Corrupt, "byte {offset}: {error:?}"),
                    }
                }
                drop((snapshot, store));
                // Opening may have written the block anew from its copy; then there is nothing to take back.
                let healed = (4096..4096 + 2 * 4100).contains(&offset);
                if !healed {
                    disk.flip_bit(Path::new(PATH), offset, bit).unwrap();
                }
            }
        }
    }
    assert!(harmless > 0 && found_on_open > 0 && found_on_read > 0, "{harmless} {found_on_open} {found_on_read}");
    assert_holds(&open(&disk).unwrap(), &all);
}

#[test]
fn a_cut_file_is_corrupt() {
    let full = SimDisk::new(1);
    let store = open(&full).unwrap();
    put(&store, 1, 0..300, 1000);
    store.checkpoint().unwrap();
    drop(store);
    let len = full.open(Path::new(PATH), OpenMode::Existing).unwrap().len().unwrap();
    for cut in [0, 1, 4095, 4096, 4096 + 4100, 4096 + 8200, 20_000, len / 2] {
        full.cut(Path::new(PATH), cut).unwrap();
        let outcome = open(&full).and_then(|store| entries(&*store.snapshot()?));
        assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Corrupt, "cut to {cut} of {len}");
        full.remove(Path::new(PATH)).unwrap();
        let store = open(&full).unwrap();
        put(&store, 1, 0..300, 1000);
        store.checkpoint().unwrap();
    }
}

#[test]
fn a_value_that_no_checkpoint_could_write_is_refused() {
    let store = open(&SimDisk::new(1)).unwrap();
    put(&store, 1, 0..3, 10);
    // Memory that is never touched takes no room.
    let value = vec![0; 3 << 30];
    let long = Write::Put { key: b"long", value: &value };
    let error = store.apply(mark(2), &mut [Write::Put { key: b"short", value: b"" }, long].into_iter()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    assert!(error.to_string().contains("\"long\""), "{error}");
    assert_eq!((store.mark(), store.get(b"short").unwrap()), (mark(1), None));
}

#[test]
fn a_store_is_opened_by_its_owner_alone_and_once() {
    let disk = SimDisk::new(1);
    let open_as = |owner: &'static str, mode| {
        let options = DiskStoreOptions { owner: owner.into(), mode, ..DiskStoreOptions::default() };
        DiskStore::open(Arc::new(disk.clone()), Path::new(PATH), options)
    };
    assert_eq!(open_as("persisted-1", OpenMode::Existing).unwrap_err().kind(), ErrorKind::NotFound);
    let store = open_as("persisted-1", OpenMode::New).unwrap();
    let error = open_as("persisted-1", OpenMode::Either).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(error.to_string().contains("a node of this process that is still running or stopping"), "{error}");

    let snapshot = store.snapshot().unwrap();
    drop(store);
    assert_eq!(open_as("persisted-1", OpenMode::Either).unwrap_err().kind(), ErrorKind::Conflict, "it is still read");
    drop(snapshot);
    assert_eq!(open_as("persisted-1", OpenMode::New).unwrap_err().kind(), ErrorKind::Conflict);
    let error = open_as("persisted-2", OpenMode::Either).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("persisted-1") && error.to_string().contains("persisted-2"), "{error}");
    open_as("persisted-1", OpenMode::Existing).unwrap();
}

#[test]
fn another_version_and_no_permission_are_told() {
    let disk = SimDisk::new(1);
    drop(open(&disk).unwrap());
    let file = disk.open(Path::new(PATH), OpenMode::Existing).unwrap();
    let mut head = vec![0; 4096];
    file.read_exact_at(&mut head, 0).unwrap();
    head[8] = 2;
    let checksum = crc32c::crc32c(&head[..4092]).to_le_bytes();
    head[4092..].copy_from_slice(&checksum);
    file.write_all_at(&head, 0).unwrap();
    let error = open(&disk).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnknownVersion);
    assert!(error.to_string().contains("version 2") && error.to_string().contains(PATH), "{error}");

    for op in [DiskOp::Open, DiskOp::Lock, DiskOp::List] {
        disk.inject(Fault::on(op).kind(std::io::ErrorKind::PermissionDenied));
        let error = open(&disk).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error:?}");
        assert!(error.to_string().contains("allow this user"), "{error}");
    }
}

#[test]
fn a_name_that_is_not_durable_is_told_and_made_so_later() {
    let disk = SimDisk::new(3);
    let store = open(&disk).unwrap();
    put(&store, 5, 0..10, 10);
    let state = entries(&*store.snapshot().unwrap()).unwrap();
    put(&store, 6, 0..20, 20);
    store.checkpoint().unwrap();
    let chunks = chunks_of(&state, 7);
    let mut import = store.import().unwrap();
    chunks.iter().for_each(|chunk| import.push(chunk).unwrap());
    disk.inject(Fault::on(DiskOp::SyncDir));
    assert_eq!(import.finish().unwrap_err().kind(), ErrorKind::OutcomeUnknown);
    assert_eq!((store.mark(), store.checkpointed()), (mark(7), mark(6)));
    put(&store, 8, 0..3, 3);
    let all = entries(&*store.snapshot().unwrap()).unwrap();
    assert_eq!(store.checkpoint().unwrap(), mark(8));
    drop(store);
    disk.crash();
    assert_holds(&open(&disk).unwrap(), &all);
}

/// A sync that failed may leave a commit that can be read but is not on disk. What a store reports once it is opened
/// again, in a machine that never stopped, must still be there when the machine does stop.
#[test]
fn what_is_reported_after_a_failed_sync_is_durable() {
    for seed in 0..12 {
        for nth in 1.. {
            let disk = SimDisk::new(seed);
            let store = open(&disk).unwrap();
            put(&store, 1, 0..50, 100);
            store.checkpoint().unwrap();
            put(&store, 2, 25..90, 100);
            disk.inject(Fault::on(DiskOp::Sync).path("set-0").nth(nth));
            let outcome = store.checkpoint();
            disk.heal();
            drop(store);
            let reported = open(&disk).unwrap().mark();
            disk.crash();
            assert_eq!(open(&disk).unwrap().mark(), reported, "seed {seed}, sync {nth}");
            if outcome.is_ok() {
                break;
            }
        }
    }
}

/// The only block that is overwritten in place must outlive a torn write, whichever of its copies it hits.
#[test]
fn a_torn_header_is_survived() {
    for seed in 0..150 {
        let disk = SimDisk::new(seed);
        let store = open(&disk).unwrap();
        put(&store, 1, 0..3, 10);
        store.checkpoint().unwrap();
        put(&store, 2, 0..4, 10);
        // Right before one of the last syncs of the checkpoint.
        disk.inject(Fault::on(DiskOp::Sync).path("set-0").nth(1 + seed % 4).times(u64::MAX));
        let outcome = store.checkpoint();
        disk.heal();
        drop(store);
        disk.crash();
        let store = open(&disk).unwrap_or_else(|error| panic!("seed {seed}: {error:?}"));
        assert!(store.mark() == mark(2) || (store.mark() == mark(1) && outcome.is_err()), "seed {seed}");
    }
}
