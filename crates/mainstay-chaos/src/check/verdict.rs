use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use crate::history::{History, Outcome};

/// How many violations of one kind are told: the first ones say what there is to say.
const TOLD_MAX: usize = 10;

/// What the judges have found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// How many operations were answered.
    pub ok: usize,
    /// How many failed.
    pub fail: usize,
    /// How many may have happened.
    pub unknown: usize,
    /// How often callers were told each kind of error.
    pub errors: BTreeMap<String, usize>,
    /// What cannot be.
    pub violations: Vec<String>,
    /// How many more there are of those.
    pub violations_more: usize,
    /// Promises of which there is nothing to judge by.
    pub not_shown: Vec<String>,
}

impl Verdict {
    /// Counts, before anything is judged.
    pub(crate) fn of(history: &History) -> Self {
        let mut verdict = Self::default();
        for operation in &history.operations {
            let failure = match &operation.outcome {
                Outcome::Ok(_) => {
                    verdict.ok += 1;
                    continue;
                }
                Outcome::Fail(failure) => {
                    verdict.fail += 1;
                    Some(failure)
                }
                Outcome::Unknown(failure) => {
                    verdict.unknown += 1;
                    failure.as_ref()
                }
            };
            let kind = failure.map_or("killed", |failure| failure.kind.as_str());
            *verdict.errors.entry(kind.to_owned()).or_default() += 1;
        }
        verdict
    }

    /// True if nothing speaks against the system, and something speaks for it.
    pub fn is_clean(&self) -> bool {
        self.violations.is_empty() && self.ok > 0
    }

    pub(crate) fn object(&mut self, violation: String) {
        if self.violations.len() < TOLD_MAX {
            self.violations.push(violation);
        } else {
            self.violations_more += 1;
        }
    }

    /// Says that a promise was not put to the test, unless it was.
    pub(crate) fn need(&mut self, is_shown: bool, what: &str) {
        if !is_shown {
            self.not_shown.push(what.to_owned());
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ok, fail, unknown, errors, violations, violations_more, not_shown } = self;
        writeln!(f, "{ok} operations ok, {fail} failed, {unknown} of unknown outcome")?;
        for (kind, count) in errors {
            writeln!(f, "  {count:>8} {kind}")?;
        }
        for what in not_shown {
            writeln!(f, "NOT SHOWN: {what}")?;
        }
        for violation in violations {
            writeln!(f, "VIOLATION: {violation}")?;
        }
        if *violations_more > 0 {
            writeln!(f, "VIOLATION: and {violations_more} more")?;
        }
        match (violations.is_empty(), *ok) {
            (true, 0) => write!(f, "nothing was shown: no operation was answered"),
            (true, _) => write!(f, "no violation"),
            (false, _) => write!(f, "{} violations", violations.len() + violations_more),
        }
    }
}
