use std::fmt;
use std::path::Path;

use serde_json::{Value, json};

use super::fault::Fault;
use crate::command::Outcome;

/// What became of a round.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RoundReport {
    pub(super) fault: Fault,
    pub(super) text: String,
    /// How long every object took to answer again after the fault was healed; none if it did not.
    pub(super) whole_after_ms: Option<u128>,
    /// The longest time without any answer, from the beginning of the fault on.
    pub(super) pause_ms: u64,
}

/// What a run has shown.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Report {
    pub(super) seed: u64,
    pub(super) nodes: usize,
    pub(super) hosts: String,
    pub(super) rounds: Vec<RoundReport>,
    /// What was asked for and could not be shown here, with the reason.
    pub(super) not_shown: Vec<String>,
    /// What the checkers have counted.
    pub(super) counts: Value,
    /// How often a node was started again because its full disk had stopped it.
    pub(super) restarts: usize,
    /// What must not be.
    pub(super) violations: Vec<String>,
    pub(super) seconds: u64,
}

impl Report {
    /// Takes what the checkers have said, as JSON.
    pub(super) fn judge(&mut self, verdict: &str) -> Outcome {
        let verdict: Value = serde_json::from_str(verdict)
            .map_err(|error| format!("the verdict of the checkers is not understood: {error}: {verdict}"))?;
        let texts = |name: &str| -> Vec<String> {
            let all = verdict.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
            all.iter().filter_map(|text| text.as_str().map(str::to_owned)).collect()
        };
        self.violations.extend(texts("violations"));
        self.not_shown.extend(texts("not_shown"));
        let number = |name: &str| verdict.get(name).and_then(Value::as_u64).unwrap_or_default();
        if number("violations_more") > 0 {
            self.violations.push(format!("and {} more", number("violations_more")));
        }
        if number("ok") == 0 {
            self.violations.push("no call was answered: nothing was shown".to_owned());
        }
        self.counts = json!({
            "ok": number("ok"), "fail": number("fail"), "unknown": number("unknown"),
            "errors": verdict.get("errors").cloned().unwrap_or_default(),
        });
        Ok(())
    }

    /// Writes it as JSON.
    pub(super) fn write(&self, path: &Path) -> Outcome {
        let rounds: Vec<Value> = self
            .rounds
            .iter()
            .map(|round| {
                json!({
                    "fault": round.fault.to_string(), "text": round.text,
                    "whole_after_ms": round.whole_after_ms.map(|ms| ms as u64), "pause_ms": round.pause_ms,
                })
            })
            .collect();
        let report = json!({
            "chaos": 1, "seed": self.seed, "nodes": self.nodes, "hosts": self.hosts, "seconds": self.seconds,
            "rounds": rounds, "calls": self.counts, "restarts": self.restarts, "not_shown": self.not_shown, "violations": self.violations,
        });
        let text = format!("{report:#}\n");
        std::fs::write(path, text).map_err(|error| format!("{} cannot be written: {error}", path.display()))
    }

    fn worst(&self, fault: Fault) -> (usize, u64, u128) {
        let rounds: Vec<_> = self.rounds.iter().filter(|round| round.fault == fault).collect();
        let pause = rounds.iter().map(|round| round.pause_ms).max().unwrap_or_default();
        let whole = rounds.iter().filter_map(|round| round.whole_after_ms).max().unwrap_or_default();
        (rounds.len(), pause, whole)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, nodes, hosts, rounds, seconds, .. } = self;
        writeln!(f, "\n=== chaos: nodes: {nodes}, on {hosts}, seed {seed}, {} rounds, {seconds} s ===", rounds.len())?;
        writeln!(f, "{:<12} {:>6} {:>22} {:>22}", "fault", "rounds", "longest pause", "whole again after")?;
        for fault in Fault::ALL {
            let (count, pause, whole) = self.worst(fault);
            if count > 0 {
                let name = fault.to_string();
                writeln!(f, "{name:<12} {count:>6} {pause:>19} ms {whole:>19} ms")?;
            }
        }
        if let Some(calls) = self.counts.as_object() {
            let of = |name: &str| calls.get(name).and_then(Value::as_u64).unwrap_or_default();
            writeln!(f, "{} calls ok, {} failed, {} of unknown outcome", of("ok"), of("fail"), of("unknown"))?;
            for (kind, count) in calls.get("errors").and_then(Value::as_object).into_iter().flatten() {
                writeln!(f, "  {:>8} {kind}", count.as_u64().unwrap_or_default())?;
            }
        }
        if self.restarts > 0 {
            writeln!(f, "{} times a full disk has stopped a node, which was started again", self.restarts)?;
        }
        for what in &self.not_shown {
            writeln!(f, "NOT SHOWN: {what}")?;
        }
        for violation in &self.violations {
            writeln!(f, "VIOLATION: {violation}")?;
        }
        match self.violations.len() {
            0 => write!(f, "no violation"),
            count => write!(f, "violations: {count}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let round = |fault, pause_ms, whole_after_ms| RoundReport {
            fault,
            text: format!("{fault} of node 1"),
            whole_after_ms,
            pause_ms,
        };
        let rounds = vec![round(Fault::Kill, 700, Some(900)), round(Fault::Kill, 1200, None)];
        Report { seed: 7, nodes: 3, hosts: "loopback".to_owned(), rounds, seconds: 60, ..Report::default() }
    }

    #[test]
    fn a_report_names_what_the_checkers_found_and_what_was_not_shown() {
        let mut report = report();
        let verdict = r#"{"ok":5,"fail":2,"unknown":1,"errors":{"Retry":2},"violations":["register 1 is wrong"],
            "violations_more":3,"not_shown":["that x"]}"#;
        report.judge(verdict).unwrap();
        let text = report.to_string();
        for part in [
            "nodes: 3, on loopback, seed 7, 2 rounds, 60 s",
            "kill              2                1200 ms                 900 ms",
            "5 calls ok, 2 failed, 1 of unknown outcome",
            "2 Retry",
            "NOT SHOWN: that x",
            "VIOLATION: register 1 is wrong",
            "VIOLATION: and 3 more",
            "violations: 2",
        ] {
            assert!(text.contains(part), "{text}\nhas not {part:?}");
        }
    }

    #[test]
    fn a_run_without_an_answer_is_a_violation_and_rubbish_is_refused() {
        let mut report = report();
        report.judge(r#"{"ok":0,"violations":[]}"#).unwrap();
        assert_eq!(report.violations, ["no call was answered: nothing was shown"]);
        assert!(report.judge("rubbish").unwrap_err().contains("rubbish"));
    }
}
