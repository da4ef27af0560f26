//! What is in the files, read as anybody would, and held against what was sent and acknowledged.

use std::path::Path;
use std::sync::Arc;

use mainstay::prelude::*;

use crate::event::{Event, KINDS, RESOURCES};
use crate::journal::Acknowledged;
use crate::numbers::Places;
use crate::origin::{Highest, Origin};
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

    /// Holds what is there against what was acknowledged, and where events are against where they were to be.
    pub fn judge(&self, acknowledged: &Acknowledged, expected: &Places) -> Verdict {
        let mut verdict = Verdict {
            acknowledged: acknowledged.lines,
            rows: self.rows,
            twice: self.twice.clone(),
            altered: self.altered.clone(),
            ..Verdict::default()
        };
        for id in acknowledged.ids.iter().filter(|id| !self.places.ids.has(*id)) {
            verdict.missing.add(id);
        }
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
    /// How many rows there are.
    pub rows: u64,
    /// Acknowledged, and not there.
    pub missing: Trouble,
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
    /// Events acknowledged are rows written, once each, as they were sent and where they belong.
    Proved,
    /// They are not.
    NotProved,
    /// No event was ever acknowledged and no row is there, so that nothing was shown either way.
    NothingProved,
}

impl Verdict {
    /// What it comes to.
    pub fn finding(&self) -> Finding {
        let troubles = [&self.missing, &self.twice, &self.altered, &self.misplaced];
        let is_sound = self.acknowledged == self.rows && troubles.iter().all(|trouble| trouble.count == 0);
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

    fn judge(found: &Found, ids: &[u64], expected: &[(u64, u8)]) -> Verdict {
        let mut acknowledged = Acknowledged { lines: ids.len() as u64, ..Acknowledged::default() };
        let mut places = Places::default();
        assert!(ids.iter().all(|id| acknowledged.ids.insert(*id).is_ok()));
        assert!(expected.iter().all(|(id, place)| places.insert(*id, *place).is_ok()));
        found.judge(&acknowledged, &places)
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
    fn nothing_acknowledged_and_nothing_there_proves_nothing() {
        assert_eq!(judge(&found(&[]), &[], &[]).finding(), Finding::NothingProved);
    }
}
