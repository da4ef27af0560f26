use std::sync::Arc;

use bytes::Bytes;
use mainstay_core::ErrorKind;

use super::model::{Model, export, import};
use super::{OwnedWrite, Subject};
use crate::state::{
    Counts, EXPORT_CHUNK_BYTES_MAX, KeyRange, Mark, Order, StateStore, Write, WriteBatch, WriteBatchRef, refused,
};

/// Runs every case against new stores.
///
/// # Panics
/// Where a store is wrong; the message names the case.
pub fn check(subject: &mut dyn Subject) {
    type Case = fn(&mut dyn Subject);
    let cases: [(&str, Case); 14] = [
        ("a new store is empty", new_is_empty),
        ("writes apply in order", writes_apply_in_order),
        ("counters add up", counters_add_up),
        ("an add to what is no counter changes nothing", bad_add_changes_nothing),
        ("stamped keys", stamped_keys),
        ("a mark does not go back", mark_does_not_go_back),
        ("values are copied", values_are_copied),
        ("bounds of scans", bounds_of_scans),
        ("a snapshot never changes", snapshot_never_changes),
        ("long scans", long_scans),
        ("unsaved bytes are told", unsaved_bytes_are_told),
        ("large entries travel", large_entries_travel),
        ("a bad stream changes nothing", bad_stream_changes_nothing),
        ("a checkpoint outlives the store", checkpoint_outlives_the_store),
    ];
    for (name, case) in cases {
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| case(subject)));
        if let Err(cause) = outcome {
            eprintln!("state store conformance: failed in \"{name}\"");
            std::panic::resume_unwind(cause);
        }
    }
}

fn mark(index: u64) -> Mark {
    Mark { index, note: Bytes::from(format!("n{index}")) }
}

fn put(store: &dyn StateStore, index: u64, entries: &[(&[u8], &[u8])]) {
    let mut batch = WriteBatch::new();
    for (key, value) in entries {
        batch.put(key, value);
    }
    store.apply(mark(index), &mut batch.iter()).unwrap();
}

fn keys(store: &dyn StateStore, range: KeyRange, order: Order) -> Vec<String> {
    let scan = store.snapshot().unwrap().scan(range, order).unwrap();
    scan.map(|entry| String::from_utf8(entry.unwrap().0.to_vec()).unwrap()).collect()
}

fn new_is_empty(subject: &mut dyn Subject) {
    let store = subject.create();
    assert_eq!(store.mark(), Mark::default());
    assert_eq!(store.checkpointed(), Mark::default());
    assert_eq!(store.unsaved_bytes(), 0);
    assert_eq!(store.get(b"").unwrap(), None);
    assert_eq!(store.multi_get(&[]).unwrap(), Vec::<Option<Bytes>>::new());
    assert_eq!(store.checkpoint().unwrap(), Mark::default());
    Model::default().assert_is(&*store.snapshot().unwrap());
    let other = subject.create();
    assert_eq!(import(&*other, &export(&*store.snapshot().unwrap())), Mark::default());
    Model::default().assert_is(&*other.snapshot().unwrap());
}

fn writes_apply_in_order(subject: &mut dyn Subject) {
    let store = subject.create();
    let mut batch = WriteBatch::new();
    batch.put(b"a", b"1").put(b"b", b"2").put(b"a", b"3").delete(b"b").put(b"", b"empty key").put(b"c", b"");
    batch.delete_range(b"x", None).put(b"x", b"kept").delete(b"missing");
    store.apply(mark(1), &mut WriteBatchRef::parse(batch.as_bytes()).unwrap().iter()).unwrap();
    assert_eq!(store.get(b"a").unwrap().as_deref(), Some(&b"3"[..]));
    assert_eq!(store.get(b"b").unwrap(), None);
    assert_eq!(store.get(b"").unwrap().as_deref(), Some(&b"empty key"[..]));
    assert_eq!(store.get(b"c").unwrap().as_deref(), Some(&b""[..]));
    assert_eq!(store.get(b"x").unwrap().as_deref(), Some(&b"kept"[..]));
    assert_eq!(store.snapshot().unwrap().counts().unwrap(), Counts { entries: 4, bytes: 2 + 9 + 1 + 5 });

    // The same on top of what a checkpoint has saved.
    store.checkpoint().unwrap();
    assert_eq!(store.checkpointed_counts(), Counts { entries: 4, bytes: 2 + 9 + 1 + 5 });
    let mut batch = WriteBatch::new();
    batch.delete_range(b"", Some(b"b")).put(b"a", b"4").delete(b"c").delete_range(b"z", Some(b"a"));
    store.apply(mark(2), &mut batch.iter()).unwrap();
    assert_eq!(keys(&*store, KeyRange::all(), Order::Ascending), ["a", "x"]);
    assert_eq!(store.multi_get(&[b"a", b"c", b"a"]).unwrap(), [Some("4".into()), None, Some("4".into())]);
    assert_eq!(store.snapshot().unwrap().counts().unwrap(), Counts { entries: 2, bytes: 2 + 5 });
}

fn counter(store: &dyn StateStore, key: &[u8]) -> Option<i64> {
    store.get(key).unwrap().map(|value| i64::from_le_bytes(value[..].try_into().unwrap()))
}

fn counters_add_up(subject: &mut dyn Subject) {
    let store = subject.create();
    let mut index = 0;
    let mut apply = |batch: &WriteBatch| {
        index += 1;
        store.apply(mark(index), &mut WriteBatchRef::parse(batch.as_bytes()).unwrap().iter()).unwrap();
    };
    let mut batch = WriteBatch::new();
    batch.add(b"n", 5).add(b"n", -7).add(b"gone", 3).add(b"gone", -3).add(b"none", 0).note(b"ignored");
    apply(&batch);
    assert_eq!(store.get(b"n").unwrap().as_deref(), Some(&(-2_i64).to_le_bytes()[..]));
    assert_eq!(keys(&*store, KeyRange::all(), Order::Ascending), ["n"]);
    assert_eq!(store.snapshot().unwrap().counts().unwrap(), Counts { entries: 1, bytes: 1 + 8 });

    // What is added to is in the layer where it was changed last, in the one below, or on disk.
    store.checkpoint().unwrap();
    let held = store.snapshot().unwrap();
    let mut one = WriteBatch::new();
    one.add(b"n", 1);
    apply(&one);
    assert_eq!(counter(&*store, b"n"), Some(-1));
    apply(&one);
    assert_eq!(counter(&*store, b"n"), None, "a counter that becomes 0 is removed");
    assert_eq!(store.snapshot().unwrap().counts().unwrap(), Counts::default());
    store.checkpoint().unwrap();
    apply(&one);
    assert_eq!(counter(&*store, b"n"), Some(1));
    assert_eq!(held.get(b"n").unwrap().as_deref(), Some(&(-2_i64).to_le_bytes()[..]), "a snapshot has changed");

    // In order with other writes to the same key.
    batch.clear();
    batch.delete_range(b"m", Some(b"o")).add(b"n", 10).put(b"p", &7_i64.to_le_bytes()).add(b"p", 1);
    batch.add(b"q", 1).delete(b"q").add(b"q", 2).add(b"r", 1).put(b"r", b"text").add(b"s", 1).delete_range(b"s", None);
    batch.add(b"t", 1).put(b"t", &[0; 8]).delete_range(b"u", Some(b"a")).put_stamped(b"v", b"", &[1; 8]);
    batch.add(b"v\0\0\0\0\0\0\0\0", -1);
    apply(&batch);
    assert_eq!([b"n", b"p", b"q", b"s"].map(|key| counter(&*store, key)), [Some(10), Some(8), Some(2), None]);
    assert_eq!(store.get(b"r").unwrap().as_deref(), Some(&b"text"[..]));
    assert_eq!(counter(&*store, b"t"), Some(0), "a put of 0 is a value like any other");
    assert_eq!(counter(&*store, b"v\0\0\0\0\0\0\0\0"), Some(i64::from_le_bytes([1; 8]) - 1));

    batch.clear();
    batch.add(b"n", i64::MAX).add(b"n", i64::MAX).add(b"p", i64::MIN).add(b"p", i64::MIN).add(b"q", i64::MIN);
    apply(&batch);
    assert_eq!([b"n", b"p"].map(|key| counter(&*store, key)), [Some(i64::MAX), Some(i64::MIN)], "a sum ends there");
    assert_eq!(counter(&*store, b"q"), Some(i64::MIN + 2));
}

fn bad_add_changes_nothing(subject: &mut dyn Subject) {
    let store = subject.create();
    put(&*store, 1, &[(b"text", b"7 bytes"), (b"n", &[0; 8])]);
    for saved in [false, true] {
        if saved {
            store.checkpoint().unwrap();
        }
        let before = export(&*store.snapshot().unwrap());
        let unsaved = store.unsaved_bytes();
        let mut own = WriteBatch::new();
        own.add(b"n", 1).put(b"x", b"1").delete_range(b"n", Some(b"o")).put(b"n", b"").add(b"n", 1);
        let mut other = WriteBatch::new();
        other.add(b"n", 1).delete(b"n").put(b"x", b"1").add(b"text", 1).delete(b"text");
        for (batch, key, len) in [(own, "\"n\"", "0 bytes"), (other, "\"text\"", "7 bytes")] {
            let error = store.apply(mark(2), &mut batch.iter()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid);
            let text = error.to_string();
            assert!(text.contains(key) && text.contains(len), "{text}");
            assert!(export(&*store.snapshot().unwrap()) == before, "a refused apply has changed something");
            assert_eq!((store.mark(), store.unsaved_bytes()), (mark(1), unsaved));
        }
    }
    // Of several groups those that are wrong are named, and what they would have done does not count for the others.
    let groups: [fn(&mut WriteBatch); 6] = [
        |batch| _ = batch.put(b"o", b"not 8").add(b"n", 1),
        |batch| _ = batch.delete(b"o").put(b"n", b"").add(b"text", 1),
        |batch| _ = batch.add(b"n", 1),
        |batch| _ = batch.add(b"o", 1),
        |batch| _ = batch.delete(b"o").add(b"o", 1),
        |batch| _ = batch.add(b"o", 1),
    ];
    let groups = groups.map(|fill| {
        let mut batch = WriteBatch::new();
        fill(&mut batch);
        batch
    });
    let named = refused(&*store, groups.iter().map(WriteBatch::iter).enumerate()).unwrap();
    assert_eq!(named.keys().copied().collect::<Vec<_>>(), [1, 3]);
    let rest = groups.iter().enumerate().filter(|(number, _)| !named.contains_key(number));
    store.apply(mark(2), &mut rest.flat_map(|(_, batch)| batch.iter())).unwrap();
    assert_eq!([b"n", b"o"].map(|key| counter(&*store, key)), [Some(2), Some(2)]);
}

fn stamped_keys(subject: &mut dyn Subject) {
    let store = subject.create();
    let mut batch = WriteBatch::with_prefix(b"p/");
    batch.put_stamped(b"q", b"1", b"first").put_stamped(b"q", b"2", b"second").put_stamped(&[b'l'; 60], b"", b"long");
    batch.put_stamped(b"q", b"1", b"again");
    let parsed = WriteBatchRef::parse(batch.as_bytes()).unwrap();
    store.apply(mark(1), &mut parsed.stamped(0x0102).chain(batch.stamped(u64::MAX))).unwrap();
    let at = |stamp: &[u8; 8], end: &[u8]| store.get(&[b"p/q", &stamp[..], end].concat()).unwrap();
    assert_eq!(at(&[0, 0, 0, 0, 0, 0, 1, 2], b"1").as_deref(), Some(&b"again"[..]));
    assert_eq!(at(&[0, 0, 0, 0, 0, 0, 1, 2], b"2").as_deref(), Some(&b"second"[..]));
    assert_eq!(at(&[0xff; 8], b"1").as_deref(), Some(&b"again"[..]));
    assert!(store.get(&[&b"p/"[..], &[b'l'; 60], &[0xff; 8]].concat()).unwrap().is_some());
    let bytes = 4 * (2 + 1 + 8 + 1) + 2 * (5 + 6) + 2 * (2 + 60 + 8 + 4);
    assert_eq!(store.snapshot().unwrap().counts().unwrap(), Counts { entries: 6, bytes });
    assert!(store.unsaved_bytes() >= bytes);

    // An ordinary key from then on, whichever layer it is in.
    store.checkpoint().unwrap();
    let mut batch = WriteBatch::new();
    batch.delete(b"p/q\0\0\0\0\0\0\x01\x021").delete_range(b"p/l", Some(b"p/m"));
    store.apply(mark(2), &mut batch.iter()).unwrap();
    assert_eq!(store.snapshot().unwrap().counts().unwrap().entries, 3);
    assert_eq!(at(&[0, 0, 0, 0, 0, 0, 1, 2], b"1"), None);
}

fn mark_does_not_go_back(subject: &mut dyn Subject) {
    let store = subject.create();
    put(&*store, 5, &[(b"a", b"1")]);
    for index in [4, 5] {
        let error = store.apply(mark(index), &mut [Write::Delete { key: b"a" }].into_iter()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "at {index}");
        assert_eq!(store.mark(), mark(5));
        assert_eq!(store.get(b"a").unwrap().as_deref(), Some(&b"1"[..]), "a refused apply has changed something");
    }
    let earlier = subject.create();
    put(&*earlier, 4, &[(b"a", b"earlier")]);
    let mut import = store.import().unwrap();
    export(&*earlier.snapshot().unwrap()).iter().for_each(|chunk| import.push(chunk).unwrap());
    assert_eq!(import.finish().unwrap_err().kind(), ErrorKind::Invalid, "an import that goes back");
    assert_eq!((store.mark(), store.get(b"a").unwrap().as_deref()), (mark(5), Some(&b"1"[..])));
    store.apply(mark(6), &mut std::iter::empty()).unwrap();
    assert_eq!(store.snapshot().unwrap().mark(), mark(6));
    assert_eq!(store.checkpoint().unwrap(), mark(6), "a mark without writes is saved, too");
}

fn values_are_copied(subject: &mut dyn Subject) {
    let store = subject.create();
    let mut buffer = b"key value".to_vec();
    store.apply(mark(1), &mut [Write::Put { key: &buffer[..3], value: &buffer[4..] }].into_iter()).unwrap();
    buffer.fill(b'-');
    assert_eq!(store.get(b"key").unwrap().as_deref(), Some(&b"value"[..]));
}

fn bounds_of_scans(subject: &mut dyn Subject) {
    use std::ops::Bound::{Excluded, Included, Unbounded};
    let store = subject.create();
    // In three layers, where the store has layers: some saved, some not, one saved and hidden, one erased.
    put(&*store, 1, &[(b"a", b""), (b"c", b""), (b"d", b""), (b"f", b"")]);
    store.checkpoint().unwrap();
    put(&*store, 2, &[(b"b", b""), (b"e", b""), (b"c", b"new")]);
    store.apply(mark(3), &mut [Write::DeleteRange { start: b"d", end: Some(b"e") }].into_iter()).unwrap();

    let of = |text: &'static str| Bytes::from_static(text.as_bytes());
    for order in [Order::Ascending, Order::Descending] {
        for (start, end, expected) in [
            (Unbounded, Unbounded, "abcef"),
            (Included(of("b")), Included(of("e")), "bce"),
            (Excluded(of("b")), Excluded(of("e")), "c"),
            (Included(of("b")), Excluded(of("e")), "bc"),
            (Excluded(of("a")), Unbounded, "bcef"),
            (Unbounded, Excluded(of("a")), ""),
            (Unbounded, Included(of("a")), "a"),
            (Included(of("d")), Included(of("d")), ""),
            (Included(of("c")), Included(of("c")), "c"),
            (Excluded(of("c")), Excluded(of("c")), ""),
            (Included(of("e")), Included(of("b")), ""),
            (Unbounded, Excluded(of("")), ""),
            (Excluded(of("f")), Unbounded, ""),
            (Included(of("bb")), Excluded(of("dd")), "c"),
        ] {
            let mut expected: Vec<String> = expected.chars().map(String::from).collect();
            if order == Order::Descending {
                expected.reverse();
            }
            let range = KeyRange { start, end };
            assert_eq!(keys(&*store, range.clone(), order), expected, "{range:?} {order:?}");
        }
    }
}

fn snapshot_never_changes(subject: &mut dyn Subject) {
    let store = subject.create();
    let mut model = Model::default();
    let mut held = Vec::new();
    for round in 1..=12_u64 {
        let writes: Vec<OwnedWrite> = (0..40_u64)
            .map(|n| {
                let key = format!("k{:03}", (n * 7 + round * 13) % 90).into_bytes();
                if n % 11 == round % 11 {
                    OwnedWrite::DeleteRange(key, Some(format!("k{:03}", (n * 5) % 90).into_bytes()))
                } else if n % 5 == 0 {
                    OwnedWrite::Delete(key)
                } else {
                    OwnedWrite::Put(key, format!("{round}-{n}").into_bytes())
                }
            })
            .collect();
        store.apply(mark(round), &mut writes.iter().map(OwnedWrite::as_write)).unwrap();
        model.apply(mark(round), &writes);
        let snapshot = store.snapshot().unwrap();
        let mut scan = snapshot.scan(KeyRange::all(), Order::Descending).unwrap();
        let first = scan.next();
        held.push((snapshot, scan, first, model.clone()));
        if round % 3 == 0 {
            assert_eq!(store.checkpoint().unwrap(), mark(round));
        }
    }
    drop(store);
    for (snapshot, scan, first, model) in held {
        model.assert_is(&*snapshot);
        drop(snapshot);
        // A scan that was begun goes on over what was there, on its own.
        let found: Vec<Vec<u8>> = first.into_iter().chain(scan).map(|entry| entry.unwrap().0.to_vec()).collect();
        assert_eq!(found, model.entries.keys().rev().cloned().collect::<Vec<_>>());
    }
}

/// More entries than a store reads at once, and ranges erased in the midst of them.
fn long_scans(subject: &mut dyn Subject) {
    let store = subject.create();
    let mut model = Model::default();
    let mut apply = |index, writes: Vec<OwnedWrite>| {
        store.apply(mark(index), &mut writes.iter().map(OwnedWrite::as_write)).unwrap();
        model.apply(mark(index), &writes);
        model.assert_is(&*store.snapshot().unwrap());
    };
    let key = |n: u32| n.to_be_bytes().to_vec();
    apply(1, (0..3000).map(|n| OwnedWrite::Put(key(n), vec![7; (n % 90) as usize])).collect());
    store.checkpoint().unwrap();
    apply(2, vec![OwnedWrite::DeleteRange(key(100), Some(key(1500)))]);
    apply(3, (0..3000).step_by(7).map(|n| OwnedWrite::Put(key(n), vec![8; 5])).collect());
    apply(4, vec![OwnedWrite::DeleteRange(key(1400), Some(key(2000))), OwnedWrite::Put(key(1700), vec![9])]);
    apply(5, vec![OwnedWrite::DeleteRange(key(2990), None)]);
    store.checkpoint().unwrap();
    apply(6, vec![OwnedWrite::Delete(key(0)), OwnedWrite::DeleteRange(key(0), Some(key(2985)))]);
    apply(7, vec![OwnedWrite::DeleteRange(Vec::new(), None)]);
    store.checkpoint().unwrap();
    apply(8, Vec::new());
}

fn unsaved_bytes_are_told(subject: &mut dyn Subject) {
    let store = subject.create();
    put(&*store, 1, &[(b"key", &[0; 1000])]);
    let one = store.unsaved_bytes();
    assert!(one >= 1003, "{one} bytes are unsaved after 1003 were applied");
    store.apply(mark(2), &mut [Write::DeleteRange { start: b"a", end: None }].into_iter()).unwrap();
    assert!(store.unsaved_bytes() > one, "a range that was dropped counts, too");
    store.checkpoint().unwrap();
    assert_eq!(store.unsaved_bytes(), 0);
}

fn large_entries_travel(subject: &mut dyn Subject) {
    let store = subject.create();
    let big = vec![3; EXPORT_CHUNK_BYTES_MAX + 1000];
    let near = vec![4; EXPORT_CHUNK_BYTES_MAX / 2 + 1];
    put(&*store, 1, &[(b"a", &near), (b"b", &near), (b"c", &big), (b"d", b"small"), (b"e", &near)]);
    let snapshot = store.snapshot().unwrap();
    let chunks: Vec<Bytes> = snapshot.export().unwrap().map(Result::unwrap).collect();
    let too_long = chunks.iter().filter(|chunk| chunk.len() > EXPORT_CHUNK_BYTES_MAX).count();
    assert_eq!(too_long, 1, "only the chunk of the entry that is longer than a chunk is longer");
    let other = subject.create();
    import(&*other, &chunks);
    let found = |store: &dyn StateStore| -> Vec<(Bytes, Bytes)> {
        let scan = store.snapshot().unwrap().scan(KeyRange::all(), Order::Ascending).unwrap();
        scan.map(Result::unwrap).collect()
    };
    assert!(found(&*store) == found(&*other), "what was imported differs from what was exported");
    assert_eq!(other.snapshot().unwrap().counts().unwrap(), snapshot.counts().unwrap());
    let again: Vec<Bytes> = other.snapshot().unwrap().export().unwrap().map(Result::unwrap).collect();
    assert!(again == chunks, "equal states have equal exports");
}

fn bad_stream_changes_nothing(subject: &mut dyn Subject) {
    let source = subject.create();
    let value = vec![5; EXPORT_CHUNK_BYTES_MAX / 3];
    let keys: Vec<String> = (0..8).map(|n| format!("k{n}")).collect();
    let entries: Vec<(&[u8], &[u8])> = keys.iter().map(|key| (key.as_bytes(), &value[..])).collect();
    put(&*source, 9, &entries);
    let chunks = export(&*source.snapshot().unwrap());
    assert!(chunks.len() >= 4, "the stream must have several chunks");

    let store = subject.create();
    put(&*store, 2, &[(b"old", b"state")]);
    let before = export(&*store.snapshot().unwrap());
    let refuses = |stream: &[Bytes], kind: ErrorKind, what: &str| {
        let mut import = store.import().unwrap();
        let pushed = stream.iter().try_for_each(|chunk| import.push(chunk));
        let told = match &pushed {
            Ok(()) => import.complete().map_err(|error| error.kind()),
            Err(error) => Err(error.kind()),
        };
        assert_eq!(told, Err(kind), "{what}, when asked whether it is complete");
        let outcome = pushed.and_then(|()| import.finish());
        assert_eq!(outcome.expect_err(what).kind(), kind, "{what}");
        assert!(export(&*store.snapshot().unwrap()) == before, "{what}: the store has changed");
    };
    refuses(&[], ErrorKind::Corrupt, "an empty stream");
    refuses(&chunks[..chunks.len() - 1], ErrorKind::Corrupt, "a stream without its end");
    let without_second = [&chunks[..1], &chunks[2..]].concat();
    refuses(&without_second, ErrorKind::Corrupt, "a stream with a hole");
    let mut swapped = chunks.clone();
    swapped.swap(0, 1);
    refuses(&swapped, ErrorKind::Corrupt, "a stream out of order");
    let doubled = [&chunks[..1], &chunks[..]].concat();
    refuses(&doubled, ErrorKind::Corrupt, "a stream with a chunk twice");
    let longer = [&chunks[..], &chunks[chunks.len() - 1..]].concat();
    refuses(&longer, ErrorKind::Corrupt, "a stream that goes on after its end");
    for at in [0, 4, 5, 8, 16, 20, 30, 40_000] {
        let mut damaged = chunks.clone();
        let mut bytes = damaged[1].to_vec();
        bytes[at] ^= 1;
        damaged[1] = bytes.into();
        let kind = if at == 4 { ErrorKind::UnknownVersion } else { ErrorKind::Corrupt };
        refuses(&damaged, kind, &format!("a chunk with byte {at} changed"));
    }
    let mut cut = chunks.clone();
    let whole = cut[0].len();
    cut[0].truncate(whole - 1);
    refuses(&cut, ErrorKind::Corrupt, "a chunk that is cut off");
    cut[0].truncate(7);
    refuses(&cut, ErrorKind::Corrupt, "a chunk that is cut off within its head");

    // Chunks of two exports, each whole and in its place, with the same counts: only the chain of checksums tells.
    put(&*source, 10, &[(b"k0", &vec![6; value.len()])]);
    let mut mixed = export(&*source.snapshot().unwrap());
    mixed[0] = chunks[0].clone();
    refuses(&mixed, ErrorKind::Corrupt, "chunks of two exports");

    // A chunk that is refused can be sent again.
    let mut import = store.import().unwrap();
    assert!(import.push(&chunks[1]).is_err());
    chunks.iter().for_each(|chunk| import.push(chunk).unwrap());
    assert_eq!(import.complete().unwrap(), mark(9), "the mark is known before anything is changed");
    drop(import);
    assert!(export(&*store.snapshot().unwrap()) == before, "an import that was dropped has changed the store");
    assert_eq!(super::model::import(&*store, &chunks), mark(9));
    assert!(export(&*store.snapshot().unwrap()) == chunks);
}

fn checkpoint_outlives_the_store(subject: &mut dyn Subject) {
    if !subject.is_durable() {
        return;
    }
    let mut store: Arc<dyn StateStore> = subject.create();
    put(&*store, 1, &[(b"a", b"1"), (b"b", b"1")]);
    assert_eq!(store.checkpoint().unwrap(), mark(1));
    put(&*store, 2, &[(b"a", b"2")]);
    assert_eq!(store.checkpointed(), mark(1));
    store = subject.reopen(store).expect("a durable store can be reopened");
    assert_eq!((store.mark(), store.checkpointed()), (mark(1), mark(1)));
    assert_eq!(store.get(b"a").unwrap().as_deref(), Some(&b"1"[..]));
    put(&*store, 2, &[(b"a", b"2")]);
    assert_eq!(store.checkpoint().unwrap(), mark(2));
    assert_eq!(store.checkpoint().unwrap(), mark(2), "a second checkpoint has nothing to do");
    store = subject.reopen(store).expect("a durable store can be reopened");
    assert_eq!(store.mark(), mark(2));
    assert_eq!(store.get(b"a").unwrap().as_deref(), Some(&b"2"[..]));
    assert_eq!(store.get(b"b").unwrap().as_deref(), Some(&b"1"[..]));
}
