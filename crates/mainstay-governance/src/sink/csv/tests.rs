//! Files on a real disk: what is written, what a crash leaves, and who may write. What a disk that fails leaves is in `faults`.

mod faults;
mod fragile;

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use mainstay::ErrorKind;
use serde::{Deserialize, Serialize};

use super::*;
use crate::batch::{BatchExecutor, BatchSettings, BatchWriter as _, SplitPolicy};
use crate::owner::Fence;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Event {
    id: u64,
    text: String,
}

fn events(ids: std::ops::Range<u64>) -> Vec<Event> {
    ids.map(|id| Event { id, text: format!("\"{id}\", and\na line") }).collect()
}

async fn open(folder: &Path, fence: u64) -> CsvSink<Event> {
    CsvSink::open(CsvSettings::in_folder(folder), "clicks", Fence::new(fence)).await.unwrap()
}

/// What a reader sees in a file.
fn read(folder: &Path, name: &str) -> Vec<Event> {
    let mut reader = csv::Reader::from_path(folder.join(name)).unwrap();
    reader.deserialize().map(Result::unwrap).collect()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = entries.filter(|name| name.ends_with(".csv")).collect();
    names.sort();
    names
}

const FIRST: &str = "clicks-000001.csv";

#[tokio::test]
async fn rows_are_appended_behind_one_header_across_openings() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let all = events(0..5);
    open(folder, 1).await.append(&all[..2]).await.unwrap();
    let sink = open(folder, 2).await;
    sink.append(&all[2..4]).await.unwrap();
    sink.append(&[]).await.unwrap();
    sink.append(&all[4..]).await.unwrap();
    assert_eq!(read(folder, FIRST), all);
    let text = fs::read_to_string(folder.join(FIRST)).unwrap();
    assert!(text.starts_with("id,text\n0,\"\"\"0\"\", and\na line\"\n1,"), "{text}");
    assert_eq!(text.matches("id,text").count(), 1);
}

#[tokio::test]
async fn what_a_crash_has_torn_is_cut_to_the_last_whole_record() {
    let whole = {
        let folder = tempfile::tempdir().unwrap();
        open(folder.path(), 1).await.append(&events(0..3)).await.unwrap();
        fs::read(folder.path().join(FIRST)).unwrap()
    };
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for torn in 0..whole.len() {
        for keeps_sidecar in [false, true] {
            drop(fs::remove_dir_all(folder));
            if keeps_sidecar {
                open(folder, 1).await.append(&events(0..1)).await.unwrap();
            }
            let noted = fs::metadata(folder.join(FIRST)).map_or(0, |data| data.len() as usize);
            fs::create_dir_all(folder).unwrap();
            fs::write(folder.join(FIRST), &whole[..torn]).unwrap();
            if torn < noted {
                let settings = CsvSettings::in_folder(folder);
                let error = CsvSink::<Event>::open(settings, "clicks", Fence::new(2)).await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Corrupt, "rows are missing: {error}");
                continue;
            }
            let sink = open(folder, 2).await;
            assert_eq!(fs::read(folder.join(FIRST)).unwrap(), whole[..torn], "whoever has a mark may know better");
            let end = sink.end().await.unwrap();
            sink.append(&events(7..9)).await.unwrap();
            assert_eq!(read(folder, FIRST), [events(0..end.rows), events(7..9)].concat(), "torn at {torn}");
            let length = end.length as usize;
            assert!(whole[length..torn].iter().filter(|byte| **byte == b'\n').count() <= 1, "torn at {torn}");
            let kept = kept(folder);
            match torn > length {
                true => assert_eq!(fs::read(folder.join(&kept[0])).unwrap(), whole[length..torn]),
                false => assert!(kept.is_empty(), "{kept:?}"),
            }
        }
    }
}

/// The files with what was cut off.
fn kept(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut kept: Vec<_> = entries.filter(|name| name.ends_with(".cut")).collect();
    kept.sort();
    kept
}

/// A thousand rows in batches of ten, and the bytes of their file.
async fn a_thousand(folder: &Path) -> Vec<u8> {
    let sink = open(folder, 1).await;
    for batch in 0..100 {
        let row = |id| Event { id, text: "text".to_owned() };
        sink.append(&(batch * 10..batch * 10 + 10).map(row).collect::<Vec<_>>()).await.unwrap();
    }
    fs::read(folder.join(FIRST)).unwrap()
}

#[tokio::test]
async fn one_byte_that_was_damaged_costs_no_row_that_was_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let bytes = a_thousand(folder).await;
    let last = bytes.len() - 1;
    // In all columns of a row at the start, in the middle and at the end.
    for place in (80..96).chain(4000..4016).chain(last - 15..=last) {
        let mut damaged = bytes.clone();
        damaged[place] = b'"';
        fs::write(folder.join(FIRST), &damaged).unwrap();
        let opened = CsvSink::<Event>::open(CsvSettings::in_folder(folder), "clicks", Fence::new(2)).await;
        let error = opened.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{place}: {error}");
        let text = error.to_string();
        let named = text.split("is damaged at byte ").nth(1).and_then(|rest| rest.split(',').next());
        let named: usize = named.unwrap().parse().unwrap();
        assert!((place.saturating_sub(12)..=place).contains(&named), "{place}: {text}");
        assert!(text.contains(FIRST) && text.contains("move the file away to go on"), "{text}");
        assert_eq!(fs::read(folder.join(FIRST)).unwrap(), damaged);
    }
    assert!(kept(folder).is_empty());
    // What the error advises: the byte as it was, or the file out of the way.
    fs::write(folder.join(FIRST), &bytes).unwrap();
    open(folder, 2).await.append(&events(1000..1001)).await.unwrap();
    assert_eq!(read(folder, FIRST).len(), 1001);
    fs::rename(folder.join(FIRST), folder.join("away")).unwrap();
    open(folder, 3).await.append(&events(1001..1002)).await.unwrap();
    assert_eq!(read(folder, "clicks-000002.csv"), events(1001..1002));
}

/// The power has failed, and with it went what was noted since the start.
#[tokio::test]
async fn damage_behind_the_last_note_is_no_torn_record() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let bytes = a_thousand(folder).await;
    let sidecar = fs::read(folder.join("clicks-owner.fence")).unwrap();
    fs::write(folder.join("clicks-owner.fence"), &sidecar[..1024]).unwrap();
    let place = bytes.len() - 100;
    let mut damaged = bytes.clone();
    // Within a field.
    let within = bytes[..place].iter().rposition(|byte| *byte == b'x').unwrap();
    damaged[within] = b'"';
    damaged.extend_from_slice(b"1000,\"torn");
    fs::write(folder.join(FIRST), &damaged).unwrap();
    let sink = open(folder, 2).await;
    let end = CsvMark { file: 1, length: bytes.len() as u64, rows: 1000 };
    let errors = [
        sink.end().await.unwrap_err(),
        sink.append(&events(0..1)).await.unwrap_err(),
        sink.append_after(end, &events(0..1)).await.unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.to_string().contains("is damaged at byte"), "{error}");
    }
    assert_eq!(fs::read(folder.join(FIRST)).unwrap(), damaged);
    assert!(kept(folder).is_empty());
    // Mended while it is open, without another opening: what was torn is cut off, by whoever knows that it was not acknowledged.
    fs::write(folder.join(FIRST), [&*bytes, b"1000,\"torn"].concat()).unwrap();
    sink.append_after(end, &events(1000..1001)).await.unwrap();
    assert_eq!(read(folder, FIRST).len(), 1001);
    assert_eq!(kept(folder).len(), 1);
    assert_eq!(fs::read(folder.join(&kept(folder)[0])).unwrap(), b"1000,\"torn");
}

#[tokio::test]
async fn a_writer_that_was_replaced_writes_nothing_and_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let old = open(folder, 1).await;
    old.append(&events(0..1)).await.unwrap();
    let new = open(folder, 2).await;
    let error = old.append(&events(1..2)).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::NotPrimary { .. }));
    assert!(error.to_string().contains("token 1 is stale, because 2 has been seen"), "{error}");
    assert!(old.end().await.is_err());
    new.append(&events(2..3)).await.unwrap();
    assert_eq!(read(folder, FIRST), [events(0..1), events(2..3)].concat());
    let settings = CsvSettings::in_folder(folder);
    let late = CsvSink::<Event>::open(settings, "clicks", Fence::new(1)).await.unwrap_err();
    assert!(matches!(late.kind(), ErrorKind::NotPrimary { .. }));
}

#[tokio::test]
async fn a_writer_whose_sidecar_was_deleted_or_replaced_writes_nothing_and_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let sidecar = folder.join("clicks-owner.fence");
    let sink = open(folder, 1).await;
    sink.append(&events(0..1)).await.unwrap();
    for is_replaced in [false, true] {
        match is_replaced {
            false => fs::rename(&sidecar, folder.join("aside")).unwrap(),
            // With the same in it: nothing but the lock tells the two apart.
            true => drop(fs::copy(folder.join("aside"), &sidecar).unwrap()),
        }
        let error = sink.append(&events(1..2)).await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::NotPrimary { .. }), "{error}");
        assert!(error.to_string().contains("was deleted or replaced"), "{error}");
    }
    let next = open(folder, 2).await;
    next.append(&events(2..3)).await.unwrap();
    assert_eq!(read(folder, FIRST), [events(0..1), events(2..3)].concat());
}

#[tokio::test]
async fn rows_behind_a_mark_are_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let sink = open(folder, 1).await;
    let start = sink.end().await.unwrap();
    let one = sink.append_after(start, &events(0..2)).await.unwrap();
    assert_eq!(one.rows, 2);
    // Written, and its outcome never heard of: twice.
    sink.append_after(one, &events(2..9)).await.unwrap();
    let two = sink.append_after(one, &events(2..4)).await.unwrap();
    let sink = open(folder, 2).await;
    sink.append_after(two, &events(4..9)).await.unwrap();
    let sink = open(folder, 3).await;
    assert_eq!(kept(folder).len(), 1);
    sink.append_after(two, &events(4..6)).await.unwrap();
    assert_eq!(read(folder, FIRST), events(0..6));
    let cut: Vec<_> = kept(folder).iter().map(|name| fs::read(folder.join(name)).unwrap()).collect();
    assert!(
        cut.contains(&encode::encode(&events(2..9)).unwrap()) && cut.contains(&encode::encode(&events(4..9)).unwrap())
    );
    // From the very start, header included.
    sink.append_after(start, &events(5..6)).await.unwrap();
    assert_eq!(read(folder, FIRST), events(5..6));
}

#[tokio::test]
async fn a_note_from_before_a_cut_is_not_believed() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let sink = open(folder, 1).await;
    let mark = sink.append(&events(0..1)).await.unwrap();
    sink.append(&events(1..40)).await.unwrap();
    let length = fs::metadata(folder.join(FIRST)).unwrap().len();
    sink.append_after(mark, &events(1..2)).await.unwrap();
    drop(sink);
    // More rows, of which the process did not live to note the end, and a torn one.
    let mut text = fs::read(folder.join(FIRST)).unwrap();
    while (text.len() as u64) < length {
        text.extend_from_slice(b"5,\"a\n b\"\n");
    }
    text.extend_from_slice(b"6,\"torn");
    fs::write(folder.join(FIRST), text).unwrap();
    open(folder, 2).await.append(&events(9..10)).await.unwrap();
    assert_eq!(read(folder, FIRST).last(), events(9..10).last());
    assert!(read(folder, FIRST).iter().all(|event| event.id != 6));
}

#[tokio::test]
async fn rows_on_record_that_are_gone_are_an_error_and_a_file_that_was_moved_away_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let sink = open(folder, 1).await;
    let mark = sink.append(&events(0..3)).await.unwrap();
    let file = fs::OpenOptions::new().write(true).open(folder.join(FIRST)).unwrap();
    file.set_len(20).unwrap();
    let error = sink.append_after(mark, &events(3..4)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().contains("were on record"), "{error}");
    fs::remove_file(folder.join(FIRST)).unwrap();
    sink.append_after(mark, &events(3..4)).await.unwrap();
    assert_eq!(names(folder), ["clicks-000002.csv"]);
    assert_eq!(read(folder, "clicks-000002.csv"), events(3..4));
}

#[tokio::test]
async fn the_next_file_begins_by_bytes_and_by_rows_and_every_file_has_a_header() {
    for rotation in [
        CsvRotation { bytes_max: 60, ..CsvRotation::default() },
        CsvRotation { rows_max: Some(3), ..CsvRotation::default() },
    ] {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        for part in 0..4 {
            // Each with an opening of its own, which finds the last file.
            let settings = CsvSettings::in_folder(folder).with_rotation(rotation.clone());
            let sink = CsvSink::open(settings, "clicks", Fence::new(1)).await.unwrap();
            sink.append(&events(part * 4..part * 4 + 4)).await.unwrap();
        }
        assert_eq!(names(folder).len(), 4);
        for (part, name) in (0..).zip(names(folder)) {
            assert_eq!(read(folder, &name), events(part * 4..part * 4 + 4));
        }
    }
}

#[tokio::test]
async fn the_next_file_begins_when_one_is_old_even_after_a_restart() {
    static NOW: AtomicU64 = AtomicU64::new(1_000_000);
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let settings = CsvSettings {
        clock: || UNIX_EPOCH + Duration::from_secs(NOW.load(Ordering::Relaxed)),
        rotation: CsvRotation { age_max: Some(Duration::from_secs(60)), ..CsvRotation::default() },
        ..CsvSettings::in_folder(folder)
    };
    for (id, wait) in [(0, 59), (1, 1), (2, 0), (3, 60)] {
        let sink = CsvSink::open(settings.clone(), "clicks", Fence::new(id + 1)).await.unwrap();
        sink.append(&events(id..id + 1)).await.unwrap();
        NOW.fetch_add(wait, Ordering::Relaxed);
    }
    assert_eq!(names(folder).len(), 2);
    assert_eq!(read(folder, FIRST), events(0..2));
    assert_eq!(read(folder, "clicks-000002.csv"), events(2..4));
}

#[tokio::test]
async fn a_clock_that_is_set_back_keeps_no_file_from_growing_old() {
    static NOW: AtomicU64 = AtomicU64::new(1_000_000);
    for is_opened_anew in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let settings = CsvSettings {
            clock: || UNIX_EPOCH + Duration::from_secs(NOW.load(Ordering::Relaxed)),
            rotation: CsvRotation { age_max: Some(Duration::from_secs(60)), ..CsvRotation::default() },
            ..CsvSettings::in_folder(folder)
        };
        let mut sink = CsvSink::open(settings.clone(), "clicks", Fence::new(1)).await.unwrap();
        for id in 0..4 {
            sink.append(&events(id..id + 1)).await.unwrap();
            match id {
                0 => NOW.fetch_sub(3600, Ordering::Relaxed),
                _ => NOW.fetch_add(30, Ordering::Relaxed),
            };
            if is_opened_anew {
                sink = CsvSink::open(settings.clone(), "clicks", Fence::new(id + 2)).await.unwrap();
            }
        }
        assert_eq!(read(folder, FIRST), events(0..3));
        assert_eq!(read(folder, "clicks-000002.csv"), events(3..4));
    }
}

#[tokio::test]
async fn a_mark_in_an_earlier_file_removes_the_later_ones() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let rotation = CsvRotation { rows_max: Some(2), ..CsvRotation::default() };
    let settings = CsvSettings::in_folder(folder).with_rotation(rotation);
    let sink = CsvSink::open(settings, "clicks", Fence::new(1)).await.unwrap();
    let mark = sink.append(&events(0..2)).await.unwrap();
    sink.append(&events(50..52)).await.unwrap();
    sink.append(&events(52..54)).await.unwrap();
    assert_eq!(names(folder).len(), 3);
    sink.append_after(mark, &events(2..4)).await.unwrap();
    assert_eq!(names(folder), [FIRST, "clicks-000002.csv"]);
    assert_eq!(kept(folder), ["clicks-000002.0-1.cut", "clicks-000003.0-1.cut"]);
    assert_eq!(read(folder, &kept(folder)[1]), events(52..54));
    assert_eq!(read(folder, "clicks-000002.csv"), events(2..4));
}

#[tokio::test]
async fn rows_with_other_columns_begin_the_next_file() {
    #[derive(Serialize)]
    struct Wider {
        id: u64,
        text: &'static str,
        place: &'static str,
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    open(folder, 1).await.append(&events(0..1)).await.unwrap();
    let sink = CsvSink::open(CsvSettings::in_folder(folder), "clicks", Fence::new(2)).await.unwrap();
    sink.append(&[Wider { id: 1, text: "x", place: "y" }]).await.unwrap();
    assert_eq!(fs::read_to_string(folder.join("clicks-000002.csv")).unwrap(), "id,text,place\n1,x,y\n");
    assert_eq!(read(folder, FIRST), events(0..1));
}

#[tokio::test]
async fn keys_that_are_no_names_stay_in_the_folder() {
    let outside = tempfile::tempdir().unwrap();
    let folder = outside.path().join("csv");
    let keys = ["../../etc/passwd", "/etc/x", "CON", "con", "", "a/b", "a%2fb", "ünï", &"k".repeat(1000)];
    for key in keys {
        let sink = CsvSink::open(CsvSettings::in_folder(&folder), key, Fence::new(1)).await.unwrap();
        sink.append(&events(0..1)).await.unwrap();
    }
    assert_eq!(names(&folder).len(), keys.len(), "{:?}", names(&folder));
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
}

#[tokio::test]
async fn a_row_that_is_none_fails_alone_behind_an_executor() {
    /// What serializes to nothing that a line can hold, if it is odd.
    struct Odd(u64);
    impl Serialize for Odd {
        fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            match self.0 % 2 {
                0 => (self.0, "even").serialize(serializer),
                _ => Err(serde::ser::Error::custom("odd")),
            }
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let sink = CsvSink::open(CsvSettings::in_folder(folder), "clicks", Fence::new(1)).await.unwrap();
    assert_eq!(sink.write(&[Odd(2), Odd(3)]).await.unwrap_err().kind(), ErrorKind::Invalid);
    let settings =
        BatchSettings { linger: Duration::from_millis(1), split: SplitPolicy::bisect(), ..BatchSettings::default() };
    let batch = BatchExecutor::start("clicks", sink, settings).unwrap();
    let calls: Vec<_> = (0..6).map(|n| batch.try_submit(Odd(n)).unwrap()).collect();
    for (n, call) in (0..).zip(calls) {
        assert_eq!(call.await.is_ok(), n % 2 == 0, "{n}");
    }
    assert_eq!(fs::read_to_string(folder.join(FIRST)).unwrap(), "0,even\n2,even\n4,even\n");
}

#[tokio::test]
async fn settings_and_folders_that_cannot_be_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let rotation = CsvRotation { bytes_max: 0, ..CsvRotation::default() };
    let settings = CsvSettings::in_folder(folder.path()).with_rotation(rotation);
    let error = CsvSink::<Event>::open(settings, "x", Fence::new(1)).await.unwrap_err();
    assert!(error.to_string().starts_with("rotation.bytes_max is zero"), "{error}");
    fs::write(folder.path().join("file"), "").unwrap();
    let settings = CsvSettings::in_folder(folder.path().join("file/below"));
    let error = CsvSink::<Event>::open(settings, "x", Fence::new(1)).await.unwrap_err();
    assert!(error.to_string().starts_with("cannot create the folder"), "{error}");
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

#[tokio::test]
async fn numbers_that_a_series_does_not_reach_are_no_part_of_it_and_the_last_is_an_end() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let rotation = CsvRotation { rows_max: Some(1), ..CsvRotation::default() };
    let settings = CsvSettings::in_folder(folder).with_rotation(rotation);
    let sink = CsvSink::open(settings.clone(), "clicks", Fence::new(1)).await.unwrap();
    let mark = sink.append(&events(0..1)).await.unwrap();
    for stray in ["clicks-4294967295.csv", "clicks-7.csv", "clicks-+00009.csv"] {
        fs::write(folder.join(stray), "id,text\n").unwrap();
    }
    for part in 1..3 {
        let sink = CsvSink::open(settings.clone(), "clicks", Fence::new(1)).await.unwrap();
        sink.append(&events(part..part + 1)).await.unwrap();
    }
    assert_eq!(read(folder, "clicks-000003.csv"), events(2..3));
    // Back to the first: the strays are neither counted up to nor removed.
    let sink = CsvSink::open(settings.clone(), "clicks", Fence::new(1)).await.unwrap();
    sink.append_after(mark, &events(5..6)).await.unwrap();
    assert_eq!(names(folder).len(), 5, "{:?}", names(folder));
    assert_eq!(read(folder, "clicks-000002.csv"), events(5..6));
    // One that could be of the series: it is written, and then there is no next one.
    fs::write(folder.join("clicks-999999999.csv"), "id,text\n").unwrap();
    let sink = CsvSink::open(settings, "clicks", Fence::new(1)).await.unwrap();
    sink.append(&events(6..7)).await.unwrap();
    let error = sink.append(&events(7..8)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Fatal);
    assert!(error.to_string().contains("clicks-999999999.csv is the last"), "{error}");
    // Moved away, as the error says: it goes on behind what is left.
    fs::remove_file(folder.join("clicks-999999999.csv")).unwrap();
    sink.append(&events(7..8)).await.unwrap();
    assert_eq!(read(folder, "clicks-000003.csv"), events(7..8));
}

#[tokio::test]
async fn rows_go_to_the_file_of_the_name_also_when_another_took_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let sink = open(folder, 1).await;
    sink.append(&events(0..2)).await.unwrap();
    // Of the same length, and another file.
    fs::copy(folder.join(FIRST), folder.join("copy")).unwrap();
    fs::rename(folder.join("copy"), folder.join(FIRST)).unwrap();
    sink.append(&events(2..3)).await.unwrap();
    assert_eq!(read(folder, FIRST), events(0..3));
}

#[tokio::test]
async fn rows_are_counted_from_an_old_note_on() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let sink = open(folder, 1).await;
    let (mut rows, mut length) = (0, 0);
    // Past the next note, and on.
    while length < 3 << 19 {
        let mark = sink.append(&events(rows..rows + 5_000)).await.unwrap();
        (rows, length) = (rows + 5_000, mark.length);
        assert_eq!(mark.rows, rows);
        assert_eq!(open(folder, 1).await.end().await.unwrap(), mark);
    }
}

/// By the executor, which writes in place on a runtime like this one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_are_written_in_place_as_they_are_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let sink = open(folder, 1).await;
    let batch = BatchExecutor::start("clicks", sink, BatchSettings::default()).unwrap();
    let calls: Vec<_> = events(0..500).into_iter().map(|event| batch.try_submit(event).unwrap()).collect();
    for call in calls {
        call.await.unwrap();
    }
    assert_eq!(read(folder, FIRST), events(0..500));
    let newer = open(folder, 2).await;
    let error = batch.submit(events(500..501).remove(0)).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::NotPrimary { .. }), "{error}");
    assert_eq!(newer.end().await.unwrap().rows, 500);
}
