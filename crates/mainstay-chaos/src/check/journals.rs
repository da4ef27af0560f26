//! What is outside is written by one owner at a time: no stale fence after a newer one, and what was acknowledged is there.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use mainstay::prelude::*;

use super::Verdict;
use crate::action::{Action, Answer};
use crate::history::History;
use crate::workload::journal::{self, JournalEntry};

/// The entries of each journal.
pub(super) type Journals = BTreeMap<u32, Vec<JournalEntry>>;

/// Reads the journals of a folder.
///
/// # Errors
/// A file that cannot be read, or that holds something else.
pub(super) fn read(folder: &Path) -> Result<Journals> {
    let mut journals = Journals::new();
    for number in 0.. {
        let path = journal::path(folder, number);
        if !path.exists() {
            break;
        }
        let text = std::fs::read_to_string(&path)
            .or_error_with(ErrorKind::Invalid, || format!("the journal {} cannot be read", path.display()))?;
        let entry = |(line, text): (usize, &str)| {
            serde_json::from_str(text)
                .map_err(|_| Error::corrupt(format!("{}, line {}: this is no entry", path.display(), line + 1)))
        };
        journals.insert(number, text.lines().enumerate().map(entry).collect::<Result<_>>()?);
    }
    Ok(journals)
}

pub(super) fn judge(history: &History, journals: &Journals, verdict: &mut Verdict) {
    let has_lines = journals.values().flatten().any(|entry| entry.line.is_some());
    verdict.need(has_lines, "that a stale owner never writes: no journal was written");
    for (number, entries) in journals {
        if let Err(violation) = check_fences(entries) {
            verdict.object(format!("journal {number}: {violation}"));
        }
    }
    let written: BTreeMap<u32, BTreeSet<(u64, u64)>> = journals
        .iter()
        .map(|(number, entries)| (*number, entries.iter().filter_map(|e| Some((e.line?, e.fence))).collect()))
        .collect();
    for operation in &history.operations {
        let Action::Append { journal, line } = operation.action else { continue };
        let fences: Vec<u64> = written
            .get(&journal)
            .map(|lines| lines.range((line, 0)..=(line, u64::MAX)).map(|(_, fence)| *fence).collect())
            .unwrap_or_default();
        match operation.answer() {
            Some(Answer::Fence(fence)) if !fences.contains(fence) => {
                verdict
                    .object(format!("journal {journal}: line {line} was acknowledged with fence {fence} and is lost"));
            }
            None if !operation.may_have_happened() && !fences.is_empty() => {
                verdict.object(format!("journal {journal}: line {line} was refused and is there"));
            }
            _ => {}
        }
    }
}

/// Fences rise with each opening, and a line is written in the name of the last one.
fn check_fences(entries: &[JournalEntry]) -> Result<(), String> {
    let mut current = 0;
    for JournalEntry { fence, line } in entries {
        match line {
            None if *fence <= current => {
                return Err(format!("it was opened with fence {fence} after {current}"));
            }
            Some(line) if *fence != current => {
                return Err(format!("line {line} was written with fence {fence} when the last opening had {current}"));
            }
            _ => current = *fence,
        }
    }
    Ok(())
}
