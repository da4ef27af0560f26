//! The demo in trouble: files that cannot be written, numbers that are damaged, readers that go away.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "a process outside of the test is waited for in real time")]

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

use mainstay::governance::sink::csv::file_stem;
use mainstay_demo::event::{KINDS, RESOURCES};
use mainstay_demo::journal;
use mainstay_demo::writer::EventFiles;

/// A process that does not come that far in this time is stuck.
const STUCK: Duration = Duration::from_secs(120);

fn demo(folder: &Path, events: u64) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mainstay-demo"));
    command.arg("--data-dir").arg(folder).args(["--events", &events.to_string(), "--callers", "32"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Reads lines until one has this in it.
fn read_until(lines: &mut BufReader<ChildStdout>, text: &str) {
    let mut line = String::new();
    while !line.contains(text) {
        line.clear();
        assert!(lines.read_line(&mut line).unwrap() > 0, "it has ended before it said {text:?}");
    }
}

fn interrupt(child: &Child) {
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
}

/// Reads the rest, so that nobody waits for room in the pipe, and waits for the end.
fn end(child: Child, lines: BufReader<ChildStdout>) -> Output {
    let reading = std::thread::spawn(move || lines.lines().for_each(drop));
    let output = child.wait_with_output().unwrap();
    reading.join().unwrap();
    output
}

fn acknowledged(folder: &Path) -> u64 {
    journal::read(&folder.join("acknowledged.txt")).unwrap().lines
}

#[test]
fn writers_that_cannot_write_are_reported_and_do_not_keep_the_demo_from_ending() {
    let folder = tempfile::tempdir().unwrap();
    // Folders where the writers have a file each.
    let files = RESOURCES.iter().flat_map(|resource| KINDS.map(|kind| format!("{resource}/{}", file_stem(kind))));
    let blocked: Vec<PathBuf> =
        files.map(|file| folder.path().join("csv").join(format!("{file}-owner.fence"))).collect();
    blocked.iter().for_each(|path| std::fs::create_dir_all(path).unwrap());
    let mut child = demo(folder.path(), 1_000_000).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    read_until(&mut lines, "a writer cannot write, and tries again: ");
    let reading = std::thread::spawn(move || lines.lines().for_each(drop));
    // Until the lines before the files are full, and all callers are told to slow down.
    let (begun, mut before) = (Instant::now(), 0);
    while before == 0 || acknowledged(folder.path()) > before {
        before = acknowledged(folder.path());
        assert!(begun.elapsed() < STUCK);
        std::thread::sleep(Duration::from_secs(1));
    }
    interrupt(&child);
    let output = child.wait_with_output().unwrap();
    reading.join().unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("are acknowledged and not in the files yet") && said.contains("-owner.fence"), "{said}");

    blocked.iter().for_each(|path| std::fs::remove_dir(path).unwrap());
    let output = demo(folder.path(), 10).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("PROVED"), "{said}{}", stderr(&output));
}

/// Waits for the end of a process that is to end by itself.
fn ends(mut child: Child) -> Output {
    let begun = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if begun.elapsed() > STUCK {
            child.kill().unwrap();
            panic!("it does not end: {:?}", child.wait_with_output());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    child.wait_with_output().unwrap()
}

#[test]
fn a_file_that_is_damaged_is_named_and_ends_the_demo_instead_of_being_tried_for_ever() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let stems = RESOURCES.iter().flat_map(|resource| KINDS.map(|kind| format!("{resource}/{}", file_stem(kind))));
    let stems: Vec<PathBuf> = stems.map(|stem| folder.join("csv").join(stem)).collect();
    let of = |end: &str| -> Vec<PathBuf> {
        stems.iter().map(|stem| PathBuf::from(format!("{}{end}", stem.display()))).collect()
    };
    // Events that wait, because there are folders where the writers have a file each.
    of("-owner.fence").iter().for_each(|path| std::fs::create_dir_all(path).unwrap());
    let mut child = demo(folder, 1_000_000).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    read_until(&mut lines, "a writer cannot write, and tries again: ");
    let begun = Instant::now();
    while acknowledged(folder) < 100 {
        assert!(begun.elapsed() < STUCK);
        std::thread::sleep(Duration::from_millis(20));
    }
    interrupt(&child);
    assert_eq!(end(child, lines).status.code(), Some(1));
    of("-owner.fence").iter().for_each(|path| std::fs::remove_dir(path).unwrap());

    let damaged = "id,user,kind,amount,note\n0,user\"000,click,1,\n";
    of("-000001.csv").iter().for_each(|path| std::fs::write(path, damaged).unwrap());
    let output = ends(demo(folder, 10).spawn().unwrap());
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    for part in ["are acknowledged and not in the files yet", "-000001.csv is damaged at byte 31", "move the file away"]
    {
        assert!(said.contains(part), "{part}: {said}");
    }
    for path in of("-000001.csv") {
        assert_eq!(std::fs::read_to_string(&path).unwrap(), damaged, "nothing was cut off");
        std::fs::remove_file(path).unwrap();
    }
    let output = ends(demo(folder, 10).spawn().unwrap());
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("PROVED"), "{said}{}", stderr(&output));
}

#[test]
fn asked_twice_to_stop_it_ends_at_once() {
    let folder = tempfile::tempdir().unwrap();
    // To open it takes until somebody writes to it, which is never.
    let pipe = Command::new("mkfifo").arg(folder.path().join("acknowledged.txt")).status().unwrap();
    assert!(pipe.success());
    let mut child = demo(folder.path(), 10).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    read_until(&mut lines, "an event pipeline");
    interrupt(&child);
    read_until(&mut lines, "stopping: ");
    interrupt(&child);
    assert_eq!(end(child, lines).status.code(), Some(130));
}

#[test]
fn a_number_that_is_damaged_is_named_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    assert!(demo(folder, 100).output().unwrap().status.success());
    let rows = EventFiles::below(&folder.join("csv")).of(RESOURCES[0], KINDS[0]).unwrap().remove(0);
    let names = |file: &Path, line: u64| {
        let said = demo(folder, 10).output().unwrap();
        assert_eq!(said.status.code(), Some(1));
        let place = format!("{}, line {line}", file.display());
        assert!(stderr(&said).contains(&place), "{place}: {}", stderr(&said));
    };
    // Beyond all events, and only beyond those that can have been sent.
    for damaged in ["18446744073709551615", "99999999"] {
        let journal = folder.join("acknowledged.txt");
        let before = std::fs::read_to_string(&journal).unwrap();
        std::fs::write(&journal, format!("{before}{damaged}\n")).unwrap();
        names(&journal, 101);
        std::fs::write(&journal, before).unwrap();
        let before = std::fs::read_to_string(&rows).unwrap();
        let (header, events) = before.split_once('\n').unwrap();
        let (_, rest) = events.split_once(',').unwrap();
        std::fs::write(&rows, format!("{header}\n{damaged},{rest}")).unwrap();
        names(&rows, 2);
        std::fs::write(&rows, before).unwrap();
    }
    assert!(demo(folder, 10).output().unwrap().status.success());
}

#[test]
fn a_reader_that_goes_away_ends_it_in_order_and_in_silence() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = demo(folder.path(), 1_000_000).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    read_until(&mut lines, "an event pipeline");
    drop(lines);
    let output = child.wait_with_output().unwrap();
    assert_eq!(stderr(&output), "");
    // With what had been sent by then, which may be nothing.
    assert!(matches!(output.status.code(), Some(0 | 3)), "{:?}", output.status);
}
