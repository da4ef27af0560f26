//! Files whose blocks are whole and whose records are wrong.

use super::*;
use crate::disk::sim::SimDisk;
use crate::state::WriteBatch;

const PATH: &str = "/a.state";

fn open(disk: &SimDisk) -> Result<DiskStore> {
    DiskStore::open(Arc::new(disk.clone()), Path::new(PATH), DiskStoreOptions::default())
}

fn put(store: &DiskStore, index: u64, keys: std::ops::Range<u8>) {
    let mut batch = WriteBatch::new();
    for key in keys {
        batch.put(&[key], b"value");
    }
    store.apply(Mark { index, ..Mark::default() }, &mut batch.iter()).unwrap();
}

/// A disk with a store of ten entries whose last checkpoint has another record.
fn with_record(change: impl FnOnce(&mut Checkpoint)) -> SimDisk {
    let disk = SimDisk::new(1);
    let store = open(&disk).unwrap();
    put(&store, 1, 0..10);
    store.checkpoint().unwrap();
    let base = store.shared.layers.read().base.clone();
    let mut checkpoint = base.checkpoint().clone();
    change(&mut checkpoint);
    base.instance().try_write(|transaction| checkpoint.store(transaction)).unwrap();
    disk
}

fn assert_corrupt<T>(outcome: Result<T>) {
    let error = outcome.map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error:?}");
    assert!(error.to_string().contains(PATH) && error.to_string().contains("restore a copy"), "{error}");
}

#[test]
fn a_number_of_entries_that_differs_from_the_table_is_corrupt() {
    for entries in [0, 9, 11, u64::MAX] {
        assert_corrupt(open(&with_record(|checkpoint| checkpoint.counts.entries = entries)));
    }
}

#[test]
fn a_number_of_bytes_that_does_not_work_out_is_corrupt() {
    for bytes in [0, 5, u64::MAX] {
        let disk = with_record(|checkpoint| checkpoint.counts.bytes = bytes);
        let store = open(&disk).unwrap();
        let counts = |store: &DiskStore| store.snapshot().unwrap().counts();
        put(&store, 2, 0..12);
        assert_corrupt(counts(&store));
        assert_corrupt(store.checkpoint());
        let mut batch = WriteBatch::new();
        batch.delete_range(b"", None).put(b"long", &[1; 100]);
        store.apply(Mark { index: 3, ..Mark::default() }, &mut batch.iter()).unwrap();
        assert_corrupt(counts(&store));
        assert_corrupt(store.checkpoint());
        assert_eq!(store.checkpointed().index, 1);

        // The remedy that the errors name.
        let source = open(&SimDisk::new(2)).unwrap();
        put(&source, 4, 0..3);
        let mut import = store.import().unwrap();
        for chunk in source.snapshot().unwrap().export().unwrap() {
            import.push(&chunk.unwrap()).unwrap();
        }
        import.finish().unwrap();
        assert_eq!(counts(&store).unwrap(), Counts { entries: 3, bytes: 18 });
    }
}

#[test]
fn the_last_generation_is_followed_by_the_first() {
    let disk = with_record(|checkpoint| checkpoint.generation = u64::MAX);
    let store = open(&disk).unwrap();
    put(&store, 2, 0..12);
    store.checkpoint().unwrap();
    drop(store);

    let disk = with_record(|checkpoint| checkpoint.generation = u64::MAX);
    let store = open(&disk).unwrap();
    let chunks: Vec<_> = store.snapshot().unwrap().export().unwrap().map(Result::unwrap).collect();
    let mut import = store.import().unwrap();
    chunks.iter().for_each(|chunk| import.push(chunk).unwrap());
    import.finish().unwrap();
    put(&store, 2, 0..12);
    store.checkpoint().unwrap();
    drop(store);
    assert_eq!(open(&disk).unwrap().checkpointed_counts(), Counts { entries: 12, bytes: 72 });
}
