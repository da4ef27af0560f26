//! Callers are told errors that a fault explains, and no others.

use std::collections::BTreeSet;

use super::Verdict;
use crate::history::{History, Outcome};

/// Kinds of errors that no kill, cut, pause or full disk explains.
const UNEXPLAINED: &[&str] = &["Corrupt", "UnknownVersion", "Invalid", "TooLarge", "TooOld", "NotFound", "Conflict"];

pub(super) fn judge(history: &History, verdict: &mut Verdict) {
    let mut told = BTreeSet::new();
    for operation in &history.operations {
        let (Outcome::Fail(failure) | Outcome::Unknown(Some(failure))) = &operation.outcome else { continue };
        if UNEXPLAINED.contains(&failure.kind.as_str()) && told.insert(&failure.kind) {
            let object = operation.action.object();
            verdict.object(format!("{object} failed with {}, which no fault explains: {}", failure.kind, failure.text));
        }
    }
}
