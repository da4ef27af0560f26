//! What is in the files, read as anybody would, and held against what was sent and acknowledged.

use std::path::Path;
use std::sync::Arc;

use mainstay::prelude::*;

use crate::event::{Event, KINDS, RESOURCES};
use crate::numbers::Places;
use crate::origin::{Highest, Origin};
use crate::records::Records;
use crate::writer::EventFiles;

/// How many numbers of a kind of trouble are kept, to be shown.
const SHOWN_MAX: usize = 10;

/// What is in the files.
#[derive(Debug, Default)]
pub struct Found {
    /// On which resource each event is.
    pub places: Places,
    /// The event with the highest number.
    pub highest: Highest,
    /// How many rows there are.
    pub rows: u64,
    /// How many files.
    pub files: u64,
    /// How many bytes.
    pub bytes: u64,
    /// Events that are there more than once.
    pub twice: Trouble,
    /// Rows that are not what was sent.
    pub altered: Trouble,
}

/// Events with which something is wrong.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trouble {
    /// How many.
    pub count: u64,
    /// The first of them.
    pub shown: Vec<u64>,
}

impl Trouble {
    fn add(&mut self, id: u64) {
        self.count += 1;
        if self.shown.len() < SHOWN_MAX {
            self.shown.push(id);
        }
    }
}

impl Found {
    /// Reads all files.
    ///
    /// # Errors
    /// `Corrupt` for a file that is no CSV, and for a row with a number that no event has, naming it; what keeps one from being
    /// read.
    pub fn in_files(files: &EventFiles) -> Result<Self> {
        let mut found = Self::default();
        for (place, resource) in (0..).zip(RESOURCES) {
            for kind in KINDS {
                for path in files.of(resource, kind)? {
                    found.files += 1;
                    found.bytes += std::fs::metadata(&path).map_or(0, |data| data.len());
                    found.read(&path.into(), kind, place)?;
                }
            }
        }
        Ok(found)
    }

    fn read(&mut self, file: &Arc<Path>, kind: &str, place: u8) -> Result<()> {
        let unread = |error: csv::Error| {
            Error::corrupt(format!("{} is no CSV file of events", file.display())).with_source(error)
        };
        let mut reader = csv::Reader::from_path(file).map_err(unread)?;
        let (header, mut row) = (reader.headers().map_err(unread)?.clone(), csv::StringRecord::new());
        while reader.read_record(&mut row).map_err(unread)? {
            let origin = Origin::new(file, row.position().map_or(0, csv::Position::line));
            let event: Event = row.deserialize(Some(&header)).map_err(unread)?;
            self.add(event, kind, place, origin)?;
        }
        Ok(())
    }

    fn add(&mut self, event: Event, kind: &str, place: u8, origin: Origin) -> Result<()> {
        let id = event.id;
        let is_new = self.places.insert(id, place).map_err(|error| origin.corrupt(&error.to_string()))?;
        self.highest.see(id, origin);
        self.rows += 1;
        if event.kind != kind || event != Event::of(id) {
            self.altered.add(id);
        }
        if !is_new {
            self.twice.add(id);
        }
        Ok(())
    }

    /// Holds what is there against what is on record, and where events are against where they were to be.
    pub fn judge(&self, records: &Records, expected: &Places) -> Verdict {
        let mut verdict = Verdict {
            acknowledged: records.acknowledged.lines,
            unacknowledged: records.unacknowledged.lines,
            rows: self.rows,
            twice: self.twice.clone(),
            altered: self.altered.clone(),
            ..Verdict::default()
        };
        let is_absent = |id: &u64| !self.places.ids.has(*id);
        records.acknowledged.ids.iter().filter(is_absent).for_each(|id| verdict.missing.add(id));
        records.unacknowledged.ids.iter().filter(is_absent).for_each(|id| verdict.vanished.add(id));
        self.places.ids.iter().filter(|id| !records.has(*id)).for_each(|id| verdict.unrecorded.add(id));
        let is_misplaced = |id: &u64| self.places.get(*id).is_some_and(|found| Some(found) != expected.get(*id));
        for id in expected.ids.iter().filter(is_misplaced) {
            verdict.misplaced.add(id);
        }
        verdict
    }
}

/// What was proved, or not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verdict {
    /// How many events were acknowledged.
    pub acknowledged: u64,
    /// How many more an earlier start has found, whose process had ended before it could acknowledge them.
    pub unacknowledged: u64,
    /// How many rows there are.
    pub rows: u64,
    /// Acknowledged, and not there.
    pub missing: Trouble,
    /// Found by an earlier start, and not there any more.
    pub vanished: Trouble,
    /// There, and neither acknowledged nor found by an earlier start. Of a process that was killed, that is no trouble.
    pub unrecorded: Trouble,
    /// There more than once.
    pub twice: Trouble,
    /// There, and not what was sent.
    pub altered: Trouble,
    /// On another resource than the one that the user lived on.
    pub misplaced: Trouble,
}

/// What a verdict comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finding {
    /// Events acknowledged, and those that were cut off from their acknowledgement, are rows written, once each, as they were
    /// sent and where they belong.
    Proved,
    /// They are not.
    NotProved,
    /// No event was ever acknowledged and no row is there, so that nothing was shown either way.
    NothingProved,
}

impl Verdict {
    /// All that can be wrong, in words, with what is.
    pub fn troubles(&self) -> impl Iterator<Item = (&'static str, &Trouble)> {
        let words = [
            "acknowledged and missing",
            "found by an earlier start and missing",
            "there and on no record",
            "there more than once",
            "not as they were sent",
            "on another resource than their user",
        ];
        let Self { missing, vanished, unrecorded, twice, altered, misplaced, .. } = self;
        words.into_iter().zip([missing, vanished, unrecorded, twice, altered, misplaced])
    }

    /// What it comes to.
    pub fn finding(&self) -> Finding {
        let Self { acknowledged, unacknowledged, rows, .. } = self;
        let is_sound = acknowledged + unacknowledged == *rows && self.troubles().all(|(_, trouble)| trouble.count == 0);
        match is_sound {
            true if self.acknowledged == 0 => Finding::NothingProved,
            true => Finding::Proved,
            false => Finding::NotProved,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::Recorded;

    fn add(found: &mut Found, event: Event, kind: &str, place: u8) {
        found.add(event, kind, place, Origin::new(&Path::new("rows").into(), 1)).unwrap();
    }

    fn found(ids: &[u64]) -> Found {
        let mut found = Found::default();
        for id in ids {
            let event = Event::of(*id);
            add(&mut found, event.clone(), &event.kind, (id % 2) as u8);
        }
        found
    }

    fn recorded(ids: &[u64]) -> Recorded {
        let mut recorded = Recorded { lines: ids.len() as u64, ..Recorded::default() };
        assert!(ids.iter().all(|id| recorded.ids.insert(*id).is_ok()));
        recorded
    }

    fn judge(found: &Found, ids: &[u64], expected: &[(u64, u8)]) -> Verdict {
        let mut places = Places::default();
        assert!(expected.iter().all(|(id, place)| places.insert(*id, *place).is_ok()));
        found.judge(&Records { acknowledged: recorded(ids), ..Records::default() }, &places)
    }

    #[test]
    fn whatever_is_wrong_is_found() {
        assert_eq!(judge(&found(&[0, 1, 2]), &[2, 0, 1], &[(0, 0), (1, 1)]).finding(), Finding::Proved);
        assert_eq!(judge(&found(&[0, 2]), &[0, 1], &[]).missing, Trouble { count: 1, shown: vec![1] });
        assert_eq!(judge(&found(&[0, 1, 1]), &[0, 1, 2], &[]).twice.shown, [1]);
        assert_eq!(judge(&found(&[0]), &[0], &[(0, 1)]).misplaced.shown, [0]);
        let unheard = judge(&found(&[0, 1]), &[0], &[]).finding();
        assert_eq!(unheard, Finding::NotProved, "a row that nobody was told of");
        assert_eq!(judge(&found(&[0]), &[], &[]).finding(), Finding::NotProved);
        assert_eq!(judge(&found(&[]), &[0], &[]).finding(), Finding::NotProved);
        let mut altered = found(&[0]);
        add(&mut altered, Event { amount: 10_001, ..Event::of(1) }, &Event::of(1).kind, 0);
        add(&mut altered, Event::of(2), "another type", 0);
        assert_eq!(judge(&altered, &[0, 1, 2], &[]).altered.shown, [1, 2]);
    }

    #[test]
    fn rows_without_an_acknowledgement_are_a_number_of_their_own() {
        let judge = |rows: &[u64], acknowledged: &[u64], unacknowledged: &[u64]| {
            let records = Records { acknowledged: recorded(acknowledged), unacknowledged: recorded(unacknowledged) };
            found(rows).judge(&records, &Places::default())
        };
        let cut_off = judge(&[0, 1, 2], &[0, 1], &[2]);
        assert_eq!((cut_off.acknowledged, cut_off.unacknowledged, cut_off.rows), (2, 1, 3));
        assert_eq!(cut_off.finding(), Finding::Proved);
        let gone = judge(&[0, 1], &[0, 1], &[2]);
        assert_eq!((gone.vanished.shown.as_slice(), gone.finding()), (&[2][..], Finding::NotProved));
        let unknown = judge(&[0, 1, 2, 3], &[0, 1], &[2]);
        assert_eq!((unknown.unrecorded.shown.as_slice(), unknown.finding()), (&[3][..], Finding::NotProved));
        assert_eq!(judge(&[0, 1], &[0, 1], &[1]).finding(), Finding::NotProved, "it is on two records");
        assert_eq!(judge(&[0], &[], &[0]).finding(), Finding::NothingProved, "nothing was promised");
    }

    #[test]
    fn nothing_acknowledged_and_nothing_there_proves_nothing() {
        assert_eq!(judge(&found(&[]), &[], &[]).finding(), Finding::NothingProved);
    }
}
