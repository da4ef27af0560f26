//! The demo as a person runs it: to its end, again, and killed in the middle.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "a process outside of the test is waited for in real time")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use mainstay_demo::event::{Event, KINDS, RESOURCES};
use mainstay_demo::journal;
use mainstay_demo::records::RecordFiles;
use mainstay_demo::writer::EventFiles;

/// A process that does not come that far in this time is stuck.
const STUCK: Duration = Duration::from_secs(120);

fn demo(folder: &Path, events: u64) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mainstay-demo"));
    command.arg("--data-dir").arg(folder.join("data")).args(["--events", &events.to_string(), "--callers", "32"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn text(output: &Output) -> String {
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{text}");
    text
}

fn records(folder: &Path) -> RecordFiles {
    RecordFiles::in_folder(&folder.join("data"))
}

fn acknowledged(folder: &Path) -> Vec<u64> {
    journal::read(&records(folder).acknowledged).unwrap().ids.iter().collect()
}

/// Those that a start has found without an acknowledgement.
fn unacknowledged(folder: &Path) -> Vec<u64> {
    journal::read(&records(folder).unacknowledged).unwrap().ids.iter().collect()
}

/// The rows of all files, by their event, as any reader of CSV sees them.
fn rows(folder: &Path) -> BTreeMap<u64, Vec<Event>> {
    let files = EventFiles::below(&folder.join("data/csv"));
    let mut rows: BTreeMap<u64, Vec<Event>> = BTreeMap::new();
    let all = RESOURCES.iter().flat_map(|resource| KINDS.map(|kind| files.of(resource, kind).unwrap())).flatten();
    for path in all.collect::<Vec<PathBuf>>() {
        for event in csv::Reader::from_path(path).unwrap().into_deserialize() {
            let event: Event = event.unwrap();
            rows.entry(event.id).or_default().push(event);
        }
    }
    rows
}

fn assert_all_once(folder: &Path, events: u64) {
    let rows = rows(folder);
    assert_eq!(rows.len() as u64, events);
    for (id, (found, events)) in (0..).zip(&rows) {
        assert_eq!((*found, events.as_slice()), (id, [Event::of(id)].as_slice()));
    }
    let mut recorded = [acknowledged(folder), unacknowledged(folder)].concat();
    recorded.sort_unstable();
    assert_eq!(recorded, (0..events).collect::<Vec<_>>());
}

#[test]
fn a_run_proves_what_it_says_and_the_next_one_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let first = text(&demo(folder.path(), 1500).output().unwrap());
    assert!(first.contains("found nothing: this is the first run"), "{first}");
    assert!(first.contains("while traffic ran"), "a user has moved: {first}");
    assert!(first.contains("PROVED: events acknowledged = rows written, once each"), "{first}");
    assert_all_once(folder.path(), 1500);
    let second = text(&demo(folder.path(), 500).output().unwrap());
    assert!(second.contains("found 1500 rows of earlier runs"), "{second}");
    assert!(second.contains("going on with event 1500") && second.contains("PROVED"), "{second}");
    assert_all_once(folder.path(), 2000);
}

/// Kills a process when it has had so many events acknowledged, however many it was to send.
fn kill_after(mut child: Child, folder: &Path, events: usize) {
    let begun = Instant::now();
    while acknowledged(folder).len() < events {
        assert!(begun.elapsed() < STUCK && child.try_wait().unwrap().is_none(), "it has not come so far");
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn whatever_was_acknowledged_before_a_kill_is_there_once() {
    let folder = tempfile::tempdir().unwrap();
    for round in 1..=2 {
        let child = demo(folder.path(), 1_000_000).spawn().unwrap();
        kill_after(child, folder.path(), 700 * round);
    }
    let known = acknowledged(folder.path());
    let last = text(&demo(folder.path(), 300).output().unwrap());
    assert!(last.contains(&format!("{0} of {0} acknowledged events are there", known.len())), "{last}");
    assert!(last.contains("PROVED"), "{last}");
    let rows = rows(folder.path());
    assert!(known.iter().all(|id| rows.contains_key(id)));
    assert_all_once(folder.path(), rows.len() as u64);
}

/// Killed, and with less on record than it had come to: as if that had been between a row and its acknowledgement.
#[test]
fn rows_that_a_kill_has_cut_off_from_their_acknowledgement_stay_a_number_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let child = demo(folder, 1_000_000).spawn().unwrap();
    kill_after(child, folder, 400);
    let path = records(folder).acknowledged;
    let recorded = acknowledged(folder);
    let lines = std::fs::read_to_string(&path).unwrap();
    let kept: String = lines.split_inclusive('\n').take(350).collect();
    std::fs::write(&path, kept).unwrap();
    let known = acknowledged(folder);

    let first = text(&demo(folder, 0).output().unwrap());
    let (found, cut_off) = (unacknowledged(folder), unacknowledged(folder).len());
    assert!(recorded.iter().filter(|id| !known.contains(id)).all(|id| found.contains(id)), "all that was cut off");
    assert!(first.contains("350 of 350 acknowledged events are there"), "{first}");
    assert!(first.contains(&format!("{cut_off} more are there without an acknowledgement")), "{first}");
    // What was left out in between is sent by this run, and acknowledged.
    let sent = acknowledged(folder).len() - 350;
    for (run, events) in [0, 100, 0].into_iter().enumerate() {
        let said = text(&demo(folder, events).output().unwrap());
        let in_all = 350 + sent + if run > 0 { 100 } else { 0 };
        for line in [
            format!("events acknowledged, in all runs: {in_all}\n"),
            format!("without an acknowledgement:       {cut_off}\n"),
            format!("rows in the files:                {}\n", in_all + cut_off),
            "events acknowledged + those without an acknowledgement = rows written, once each".to_owned(),
        ] {
            assert!(said.contains(&line), "{line}: {said}");
        }
        assert_eq!((acknowledged(folder).len(), unacknowledged(folder).len()), (in_all, cut_off));
        assert_all_once(folder, (in_all + cut_off) as u64);
    }
    let none_twice = unacknowledged(folder).iter().all(|id| !acknowledged(folder).contains(id));
    assert!(none_twice, "no event is on both records");
}

#[test]
fn rows_that_were_taken_away_are_missed() {
    let folder = tempfile::tempdir().unwrap();
    text(&demo(folder.path(), 300).output().unwrap());
    let files = EventFiles::below(&folder.path().join("data/csv"));
    let stolen = files.of(RESOURCES[0], KINDS[0]).unwrap().remove(0);
    std::fs::remove_file(stolen).unwrap();
    let output = demo(folder.path(), 10).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(!output.status.success(), "{text}");
    assert!(text.contains("NOT PROVED") && text.contains("acknowledged and missing: "), "{text}");
}

#[test]
fn a_run_without_an_event_proves_nothing_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let nothing = demo(folder.path(), 0).output().unwrap();
    let said = String::from_utf8_lossy(&nothing.stdout);
    assert_eq!(nothing.status.code(), Some(3), "{said}");
    assert!(said.contains("NOTHING PROVED: no event was acknowledged"), "{said}");
    text(&demo(folder.path(), 50).output().unwrap());
    let earlier = text(&demo(folder.path(), 0).output().unwrap());
    assert!(earlier.contains("PROVED of earlier runs"), "{earlier}");
    assert!(earlier.contains("of this run nothing was proved"), "{earlier}");
}

#[cfg(unix)]
#[test]
fn asked_to_stop_it_ends_what_is_under_way_and_proves_it() {
    let folder = tempfile::tempdir().unwrap();
    let child = demo(folder.path(), 1_000_000).spawn().unwrap();
    let begun = Instant::now();
    while acknowledged(folder.path()).len() < 200 {
        assert!(begun.elapsed() < STUCK);
        std::thread::sleep(Duration::from_millis(5));
    }
    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(kill.success());
    let text = text(&child.wait_with_output().unwrap());
    assert!(text.contains("stopping: what is under way ends first") && text.contains("PROVED"), "{text}");
}
