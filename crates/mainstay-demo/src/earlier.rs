//! What an earlier run has left behind, after what it had taken was written.

use std::path::Path;

use mainstay::prelude::*;

use crate::evidence::{Found, Verdict};
use crate::journal::{self, Acknowledged};
use crate::numbers::Places;
use crate::options::CALLERS_MAX;
use crate::output::Output;
use crate::writer::EventFiles;

/// What was found in a folder.
#[derive(Debug)]
pub struct Earlier {
    /// What is in the files.
    pub found: Found,
    /// What that is worth.
    pub verdict: Verdict,
    acknowledged: Acknowledged,
    /// Sent perhaps, and never taken. There are none if something is wrong with the rest.
    pub left_out: Vec<u64>,
    /// The first number that nobody has had.
    pub next: u64,
}

impl Earlier {
    /// Reads the files and the numbers that were acknowledged.
    ///
    /// # Errors
    /// `Corrupt` for a number that no event has, naming where it is; what keeps files from being read.
    pub fn find(csv: &Path, acknowledged: &Path) -> Result<Self> {
        let acknowledged = journal::read(acknowledged)?;
        let found = Found::in_files(&EventFiles::below(csv))?;
        let (there, known) = (&found.places.ids, &acknowledged.ids);
        let in_all = there.count() + known.iter().filter(|id| !there.has(*id)).count() as u64;
        for highest in [&acknowledged.highest, &found.highest] {
            highest.check(in_all, CALLERS_MAX)?;
        }
        let verdict = found.judge(&acknowledged, &Places::default());
        let next = there.next().max(known.next());
        // With all of these there, they are no more than were under way at once.
        let is_sound = verdict.missing.count == 0;
        let left_out = (0..next).filter(|id| is_sound && !there.has(*id)).collect();
        Ok(Self { found, verdict, acknowledged, left_out, next })
    }

    /// Written, and the process was gone before the caller had its acknowledgement on record.
    pub fn unheard(&self) -> impl Iterator<Item = u64> + '_ {
        self.found.places.ids.iter().filter(|id| !self.acknowledged.ids.has(*id))
    }

    /// True if there is nothing that should not be.
    pub fn is_sound(&self) -> bool {
        let Verdict { missing, twice, altered, .. } = &self.verdict;
        [missing, twice, altered].iter().all(|trouble| trouble.count == 0)
    }

    /// Says what was found.
    pub fn print(&self, output: &Output) {
        if self.next == 0 {
            output.say("found nothing: this is the first run");
            return;
        }
        let Verdict { acknowledged, rows, missing, .. } = &self.verdict;
        output.say(format!("found {rows} rows of earlier runs in {} files", self.found.files));
        let there = acknowledged.saturating_sub(missing.count);
        output.say(format!("  {there} of {acknowledged} acknowledged events are there"));
        let unheard = self.unheard().count();
        if unheard > 0 {
            let text = "more are there whose acknowledgement was cut off: they are not sent again";
            output.say(format!("  {unheard} {text}"));
        }
        if !self.left_out.is_empty() {
            output.say(format!("  {} were never taken: they are sent again", self.left_out.len()));
        }
        output.say(format!("going on with event {}", self.next));
    }
}
