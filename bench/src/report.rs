use std::io::{self, Write};

use serde::Serialize;

use crate::goal::{Goal, Target};
use crate::measurement::Measurement;
use crate::table::Table;

/// All that a section found out.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    section: &'static str,
    quick: bool,
    rounds: usize,
    groups: Vec<Group>,
    goals: Vec<Goal>,
    notes: Vec<String>,
}

/// Measurements that belong together.
#[derive(Debug, Serialize)]
struct Group {
    title: String,
    measurements: Vec<Measurement>,
}

impl Report {
    pub(crate) fn new(section: &'static str, quick: bool, rounds: usize) -> Self {
        Self { section, quick, rounds, groups: Vec::new(), goals: Vec::new(), notes: Vec::new() }
    }

    /// Adds measurements under a title.
    pub(crate) fn group(&mut self, title: &str, measurements: Vec<Measurement>) {
        self.groups.push(Group { title: title.to_owned(), measurements });
    }

    /// Holds a measurement against a target, if it could be taken.
    pub(crate) fn goal(&mut self, measurement: Option<Measurement>, target: Target) {
        if let Some(measurement) = measurement {
            self.goals.push(Goal::new(&measurement, target));
        }
    }

    /// Adds what a reader of the figures must know.
    pub(crate) fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// Writes the tables, then the lines for programs.
    ///
    /// # Errors
    /// If nobody reads.
    pub(crate) fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        for group in &self.groups {
            let mut table = Table::new(&["", "median", "min..max"]);
            for measurement in &group.measurements {
                let median = measurement.unit.show(measurement.median());
                table.row([measurement.name.clone(), median, measurement.spread()]);
            }
            writeln!(out, "{}\n{table}", group.title)?;
        }
        if !self.goals.is_empty() {
            let mut table = Table::new(&["", "median", "min..max", "target", ""]);
            for goal in &self.goals {
                let verdict = if goal.met { "met" } else { "missed" };
                let target = format!("{}{}", goal.target, goal.unit.suffix());
                table.row([goal.name.clone(), goal.unit.show(goal.value), goal.spread(), target, verdict.to_owned()]);
            }
            writeln!(out, "goals\n{table}")?;
        }
        for note in &self.notes {
            writeln!(out, "note: {note}")?;
        }
        for goal in &self.goals {
            writeln!(out, "{goal}")?;
        }
        out.flush()
    }

    /// The same for programs.
    ///
    /// # Errors
    /// None that could happen: all of it is text, numbers and lists.
    pub(crate) fn to_json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurement::Unit;

    fn report() -> Report {
        let mut log = Measurement::new("log", Unit::PerSecond);
        let mut commit = Measurement::new("commit", Unit::PerSecond);
        for round in 1..=3 {
            log.push(f64::from(round) * 1000.0);
            commit.push(f64::from(round) * 800.0);
        }
        let mut report = Report::new("foundations", false, 3);
        report.goal(Some(commit.over(&log, "commit-vs-log")), Target::AtLeast(0.7));
        report.goal(None, Target::AtLeast(2.0));
        report.group("durable writes", vec![log, commit]);
        report.note("raft-engine was not built in");
        report
    }

    #[test]
    fn every_goal_that_was_measured_has_one_line() {
        let mut out = Vec::new();
        report().print(&mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let goals: Vec<&str> = text.lines().filter(|line| line.starts_with("goal ")).collect();
        assert_eq!(goals, ["goal commit-vs-log 0.80x >=0.7x met"]);
        assert!(text.contains("durable writes\n"));
        assert!(text.contains("2000/s  1000/s..3000/s"));
        assert!(text.contains("note: raft-engine was not built in\n"));
    }

    #[test]
    fn json_has_the_same() {
        let json: serde_json::Value = serde_json::from_str(&report().to_json().unwrap()).unwrap();
        assert_eq!(json["section"], "foundations");
        assert_eq!(json["goals"][0]["name"], "commit-vs-log");
        assert_eq!(json["goals"][0]["target"], ">=0.7");
        assert_eq!(json["goals"][0]["met"], true);
        assert_eq!(json["groups"][0]["measurements"][1]["samples"][2], 2400.0);
        assert_eq!(json["groups"][0]["measurements"][1]["unit"], "/s");
    }

    #[test]
    fn json_of_what_is_not_a_number_is_null() {
        let mut report = Report::new("foundations", false, 3);
        report.goal(Some(Measurement::new("nothing", Unit::Ratio)), Target::AtLeast(1.0));
        let json: serde_json::Value = serde_json::from_str(&report.to_json().unwrap()).unwrap();
        assert!(json["goals"][0]["value"].is_null());
        assert_eq!(json["goals"][0]["met"], false);
    }
}
