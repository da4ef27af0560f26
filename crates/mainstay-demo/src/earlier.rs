//! What an earlier run has left behind, after what it had taken was written.

use std::path::Path;

use mainstay::prelude::*;

use crate::evidence::{Found, Verdict};
use crate::numbers::Places;
use crate::options::CALLERS_MAX;
use crate::output::Output;
use crate::records::{RecordFiles, Records};
use crate::writer::EventFiles;

/// What was found in a folder.
#[derive(Debug)]
pub struct Earlier {
    /// What is in the files.
    pub found: Found,
    /// What that is worth.
    pub verdict: Verdict,
    records: Records,
    /// Sent perhaps, and never taken. There are none if something is wrong with the rest.
    pub left_out: Vec<u64>,
    /// The first number that nobody has had.
    pub next: u64,
}

impl Earlier {
    /// Reads the files and what is on record.
    ///
    /// # Errors
    /// `Corrupt` for a number that no event has, naming where it is; what keeps files from being read.
    pub fn find(csv: &Path, records: &RecordFiles) -> Result<Self> {
        let records = records.read()?;
        let found = Found::in_files(&EventFiles::below(csv))?;
        let (there, recorded) = (&found.places.ids, [&records.acknowledged, &records.unacknowledged]);
        let absent = recorded.iter().flat_map(|recorded| recorded.ids.iter()).filter(|id| !there.has(*id)).count();
        let in_all = there.count() + absent as u64;
        for highest in recorded.iter().map(|recorded| &recorded.highest).chain([&found.highest]) {
            highest.check(in_all, CALLERS_MAX)?;
        }
        let verdict = found.judge(&records, &Places::default());
        let next = recorded.iter().map(|recorded| recorded.ids.next()).fold(there.next(), u64::max);
        // With all of these there, they are no more than were under way at once.
        let left_out = (0..next).filter(|id| absent == 0 && !there.has(*id)).collect();
        Ok(Self { found, verdict, records, left_out, next })
    }

    /// Written, and on no record yet: the process was gone before the caller had an acknowledgement.
    pub fn unrecorded(&self) -> impl Iterator<Item = u64> + '_ {
        self.found.places.ids.iter().filter(|id| !self.records.has(*id))
    }

    /// True if there is nothing that should not be.
    pub fn is_sound(&self) -> bool {
        let Verdict { missing, vanished, twice, altered, .. } = &self.verdict;
        [missing, vanished, twice, altered].iter().all(|trouble| trouble.count == 0)
    }

    /// Says what was found.
    pub fn print(&self, output: &Output) {
        if self.next == 0 {
            output.say("found nothing: this is the first run");
            return;
        }
        let Verdict { acknowledged, unacknowledged, rows, missing, unrecorded, .. } = &self.verdict;
        output.say(format!("found {rows} rows of earlier runs in {} files", self.found.files));
        let there = acknowledged.saturating_sub(missing.count);
        output.say(format!("  {there} of {acknowledged} acknowledged events are there"));
        let cut_off = unacknowledged + unrecorded.count;
        if cut_off > 0 {
            let text = "more are there without an acknowledgement, which was cut off: they are not sent again";
            output.say(format!("  {cut_off} {text}"));
        }
        if !self.left_out.is_empty() {
            output.say(format!("  {} were never taken: they are sent again", self.left_out.len()));
        }
        output.say(format!("going on with event {}", self.next));
    }
}
