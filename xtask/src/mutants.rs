//! `cargo xtask mutants`: which changes of the code no test notices. Run by hand, because it takes long.

mod findings;
mod room;
mod tree;

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum as _};

use self::findings::Findings;
use self::room::Room;
use crate::command::{Outcome, judge, not_started, output, target_dir, words};
use crate::tool::{CARGO_MUTANTS, CARGO_NEXTEST, Tool};
use crate::watchdog::Watchdog;

/// How cargo-mutants exits when it has tried what it was to try: nothing survived, something did, something did not end.
const TRIED: [i32; 3] = [0, 2, 3];

/// How long the tests of a mutant may take at least, in seconds. Otherwise it is a multiple of what they take without one.
const TEST_SECONDS_MIN: &str = "60";

/// What to change and test. Each mutant is one small change of the code, such as `<` that becomes `<=`.
#[derive(Debug, Args)]
pub(crate) struct Mutants {
    /// The rooms to look at, one after the other; all unless told otherwise
    rooms: Vec<Room>,
    /// Ends after so many minutes, and says what was not tried
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=24 * 60))]
    minutes: u64,
    /// Goes on where the last run of a room has ended: leaves out what was caught there, and tries the rest
    #[arg(long = "continue")]
    continues: bool,
    /// Tries one part of the mutants only, such as 1/10 for every tenth: 0/10 to 9/10 are all of them
    #[arg(long, value_name = "PART/PARTS")]
    shard: Option<String>,
}

impl Mutants {
    /// Tries the mutants of the rooms, and names those that survive.
    pub(crate) fn run(&self) -> Outcome {
        let (begun, budget) = (now(), Duration::from_secs(self.minutes * 60));
        let (tool, nextest) = (CARGO_MUTANTS.need()?, CARGO_NEXTEST.need()?);
        // Never in the folder in which a person works: a run that is ended leaves a mutant behind.
        tree::refresh(&folder().join("tree"))?;
        let mut survivors = 0;
        for room in self.rooms() {
            let left = budget.saturating_sub(now() - begun);
            let findings = self.try_room(room, left, &tool, &nextest)?;
            survivors += findings.survivors();
            println!("\n{room}: {findings}");
        }
        match survivors {
            0 => Ok(()),
            _ => Err(format!(
                "{survivors} mutants survive: for each, write the test that fails with it, or delete the code that nothing needs"
            )),
        }
    }

    /// In the order in which they were asked for, each once.
    fn rooms(&self) -> Vec<Room> {
        let asked = if self.rooms.is_empty() { Room::value_variants() } else { &self.rooms };
        let mut rooms = Vec::new();
        for room in asked {
            if !rooms.contains(room) {
                rooms.push(*room);
            }
        }
        rooms
    }

    /// Tries the mutants of a room until the time is up.
    fn try_room(&self, room: Room, left: Duration, tool: &Tool, nextest: &Tool) -> Outcome<Findings> {
        let listed = output(self.command(room, tool, nextest).arg("--list"));
        let all = listed
            .ok_or_else(|| format!("the mutants of {room} cannot be listed: run `cargo xtask mutants {room}`"))?;
        let results = folder().join(room.to_string());
        if left.is_zero() {
            return Ok(Findings::none(&all));
        }
        let mut command = self.command(room, tool, nextest);
        if self.continues {
            command.arg("--iterate");
        }
        command.args(["--minimum-test-timeout", TEST_SECONDS_MIN, "--test-tool", "nextest", "--output"]).arg(&results);
        command.arg("--").args(room.tests());
        std::fs::create_dir_all(&results).map_err(|error| format!("{} cannot be made: {error}", results.display()))?;
        println!("\n=== {room}: `{}` ===", words(&command));
        let mut child = command.spawn().map_err(|error| not_started(&command, &error))?;
        let watchdog = Watchdog::watch(child.id(), left);
        let status = child.wait().map_err(|error| format!("cargo-mutants could not be waited for: {error}"))?;
        let time_is_up = watchdog.call_off();
        if !time_is_up && !status.code().is_some_and(|code| TRIED.contains(&code)) {
            return judge(&command, status).and(Err("it has tried nothing".to_owned()));
        }
        Findings::read(&all, &results.join("mutants.out"))
    }

    /// A call of cargo-mutants for a room, in the copy of the workspace.
    fn command(&self, room: Room, tool: &Tool, nextest: &Tool) -> Command {
        let mut command = tool.command();
        command.current_dir(folder().join("tree")).env("CARGO_TARGET_DIR", folder().join("build"));
        // By which cargo finds nextest, wherever it was found.
        let path = std::env::var_os("PATH").unwrap_or_default();
        let places = nextest.folder().into_iter().chain(std::env::split_paths(&path));
        if let Ok(places) = std::env::join_paths(places) {
            command.env("PATH", places);
        }
        command.args(["mutants", "--in-place", "--colors", "never"]);
        for files in room.files() {
            command.args(["--file", files]);
        }
        if let Some(shard) = &self.shard {
            command.args(["--sharding", "round-robin", "--shard", shard]);
        }
        command
    }
}

/// Where the copy, its build and what was found are kept, so that the next run builds little.
fn folder() -> PathBuf {
    target_dir().join("mutants")
}

#[allow(clippy::disallowed_methods, reason = "a chore runs in real time, never in simulation")]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(rooms: &[Room]) -> Mutants {
        Mutants { rooms: rooms.to_vec(), minutes: 1, continues: false, shard: None }
    }

    #[test]
    fn rooms_are_tried_once_each_as_asked_for_or_all_of_them() {
        assert_eq!(of(&[Room::Pool, Room::Gate, Room::Pool]).rooms(), [Room::Pool, Room::Gate]);
        assert_eq!(of(&[]).rooms(), Room::value_variants());
    }
}
