//! What each version of the formats wrote is read by today's code. The files are never written again.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use mainstay_core::ErrorKind;
use mainstay_core::format::golden::damaged;
use mainstay_store::disk::{OpenMode, RealDisk};
use mainstay_store::state::{
    Counts, DiskStore, DiskStoreOptions, KeyRange, Mark, MemoryStore, Order, StateStore, Write, WriteBatch,
    WriteBatchRef,
};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

/// 200 entries; then a range dropped, one key of it put back, one removed, a large value and the empty key.
fn expected() -> BTreeMap<Bytes, Bytes> {
    let mut entries: BTreeMap<Bytes, Bytes> =
        (0..200).map(|n| (format!("key-{n:03}").into(), format!("value of {n}").into())).collect();
    entries.retain(|key, _| !(&b"key-050"[..]..&b"key-060"[..]).contains(&&key[..]));
    entries.insert("key-055".into(), "back".into());
    entries.remove(&b"key-100"[..]);
    entries.insert("large".into(), vec![9; 5000].into());
    entries.insert("".into(), "".into());
    entries
}

fn assert_is_expected(store: &dyn StateStore) {
    assert_eq!(store.mark(), Mark { index: 2, note: "second".into() });
    let snapshot = store.snapshot().unwrap();
    let found: BTreeMap<Bytes, Bytes> =
        snapshot.scan(KeyRange::all(), Order::Ascending).unwrap().map(Result::unwrap).collect();
    let expected = expected();
    assert_eq!(found, expected);
    let bytes = expected.iter().map(|(key, value)| (key.len() + value.len()) as u64).sum();
    assert_eq!(snapshot.counts().unwrap(), Counts { entries: expected.len() as u64, bytes });
}

#[test]
fn a_store_of_version_1_is_read_and_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("copy.state");
    std::fs::copy(data("state-v1.store"), &path).unwrap();
    let options = DiskStoreOptions { owner: "golden".into(), mode: OpenMode::Existing, ..DiskStoreOptions::default() };
    let open = || DiskStore::open(Arc::new(RealDisk), &path, options.clone()).unwrap();
    let store = open();
    assert_is_expected(&store);
    let mark = Mark { index: 3, note: Bytes::new() };
    store.apply(mark.clone(), &mut std::iter::empty()).unwrap();
    assert_eq!(store.checkpoint().unwrap(), mark);
    drop(store);
    assert_eq!(open().mark(), mark);
}

#[test]
fn an_export_of_version_1_is_imported_and_written_alike() {
    let chunks: Vec<Vec<u8>> = (0..2).map(|n| std::fs::read(data(&format!("export-v1.{n}.chunk"))).unwrap()).collect();
    let store = MemoryStore::new();
    let mut import = store.import().unwrap();
    chunks.iter().for_each(|chunk| import.push(chunk).unwrap());
    import.finish().unwrap();
    assert_is_expected(&store);
    let again: Vec<Bytes> = store.snapshot().unwrap().export().unwrap().map(Result::unwrap).collect();
    assert_eq!(again, chunks);
}

#[test]
fn no_damage_of_a_write_batch_makes_its_reader_panic() {
    for name in ["batch-v1.bin", "batch-v2.bin"] {
        for (what, bytes) in damaged(&std::fs::read(data(name)).unwrap()) {
            // A batch has no checksum of its own: what is not refused can be read to its end.
            match WriteBatchRef::parse(&bytes) {
                Ok(batch) => assert_eq!(batch.iter().count(), batch.len(), "{name} {what}"),
                Err(error) => assert!(matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::UnknownVersion)),
            }
        }
    }
}

#[test]
fn a_damaged_export_is_refused() {
    let chunks: Vec<Vec<u8>> = (0..2).map(|n| std::fs::read(data(&format!("export-v1.{n}.chunk"))).unwrap()).collect();
    for (what, last) in damaged(&chunks[1]) {
        let store = MemoryStore::new();
        let mut import = store.import().unwrap();
        import.push(&chunks[0]).unwrap();
        let error = import.push(&last).expect_err(&what);
        assert!(matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::UnknownVersion), "{what}: {error}");
        import.push(&chunks[1]).expect("the import goes on with the right chunk");
    }
}

#[test]
fn a_write_batch_of_version_1_is_applied_and_written_alike() {
    let bytes = std::fs::read(data("batch-v1.bin")).unwrap();
    let mut again = WriteBatch::new();
    again.delete_range(b"key-050", Some(b"key-060")).put(b"key-055", b"back").delete(b"key-100");
    again.put(b"large", &[9; 5000]).put(b"", b"");
    assert_eq!(again.as_bytes(), bytes);
    let batch = WriteBatchRef::parse(&bytes).unwrap();
    assert_eq!(batch.len(), 5);
    let store = MemoryStore::new();
    store.apply(Mark { index: 1, note: Bytes::new() }, &mut batch.iter()).unwrap();
    let mut expected = expected();
    expected.retain(|key, _| [&b""[..], b"key-055", b"large"].contains(&&key[..]));
    let scan = store.snapshot().unwrap().scan(KeyRange::all(), Order::Ascending).unwrap();
    assert_eq!(scan.map(Result::unwrap).collect::<BTreeMap<_, _>>(), expected);
}

#[test]
fn a_write_batch_of_version_2_is_applied_and_written_alike() {
    let bytes = std::fs::read(data("batch-v2.bin")).unwrap();
    let mut again = WriteBatch::with_prefix(b"p/");
    again.put(b"name", b"alice").add(b"count", -3).add(b"count", 300).put_stamped(b"queue/", b"/0", b"item");
    again.note(b"for those who follow").delete(b"mail").delete_range(b"x", None);
    assert_eq!(again.as_bytes(), bytes);

    let batch = WriteBatchRef::parse(&bytes).unwrap();
    assert_eq!(batch.iter().nth(4), Some(Write::Note { note: b"p/for those who follow" }));
    let store = MemoryStore::new();
    store.apply(Mark { index: 1, note: Bytes::new() }, &mut batch.stamped(0x0001_0203_0405_0607)).unwrap();
    let scan = store.snapshot().unwrap().scan(KeyRange::all(), Order::Ascending).unwrap();
    let expected: [(&[u8], &[u8]); 3] = [
        (b"p/count", &[0x29, 0x01, 0, 0, 0, 0, 0, 0]),
        (b"p/name", b"alice"),
        (b"p/queue/\x00\x01\x02\x03\x04\x05\x06\x07/0", b"item"),
    ];
    let expected = expected.map(|(key, value)| (Bytes::copy_from_slice(key), Bytes::copy_from_slice(value)));
    assert_eq!(scan.map(Result::unwrap).collect::<Vec<_>>(), expected);
}
