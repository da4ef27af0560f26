//! What is in the files, read as anybody would, and held against what was sent and acknowledged.

use std::collections::BTreeMap;

use mainstay::prelude::*;

use crate::event::{Event, KINDS, RESOURCES};
use crate::writer::EventFiles;

/// How many numbers of a kind of trouble are kept, to be shown.
const SHOWN_MAX: usize = 10;

/// What is in the files.
#[derive(Debug, Default)]
pub struct Found {
    /// The resource on which the event of a number is, by its place in [`RESOURCES`].
    places: BTreeMap<u64, u8>,
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
    /// `Corrupt` for a file that is no CSV; what keeps one from being read.
    pub fn in_files(files: &EventFiles) -> Result<Self> {
        let mut found = Self::default();
        for (place, resource) in (0..).zip(RESOURCES) {
            for kind in KINDS {
                for path in files.of(resource, kind)? {
                    let unread = |error: csv::Error| {
                        Error::corrupt(format!("{} is no CSV file of events", path.display())).with_source(error)
                    };
                    found.files += 1;
                    found.bytes += std::fs::metadata(&path).map_or(0, |data| data.len());
                    for event in csv::Reader::from_path(&path).map_err(unread)?.into_deserialize() {
                        found.add(event.map_err(unread)?, kind, place);
                    }
                }
            }
        }
        Ok(found)
    }

    fn add(&mut self, event: Event, kind: &str, place: u8) {
        self.rows += 1;
        if event.kind != kind || event != Event::of(event.id) {
            self.altered.add(event.id);
        }
        if self.places.insert(event.id, place).is_some() {
            self.twice.add(event.id);
        }
    }

    /// The number after the highest.
    pub fn next(&self) -> u64 {
        self.places.last_key_value().map_or(0, |(id, _)| id + 1)
    }

    /// True if an event is there.
    pub fn has(&self, id: u64) -> bool {
        self.places.contains_key(&id)
    }

    /// The numbers of the events that are there.
    pub fn ids(&self) -> impl Iterator<Item = u64> + '_ {
        self.places.keys().copied()
    }

    /// Holds what is there against what was acknowledged, and where events are against where they were to be.
    pub fn judge(&self, acknowledged: &[u64], expected: &[(u64, u8)]) -> Verdict {
        let mut verdict = Verdict {
            acknowledged: acknowledged.len() as u64,
            rows: self.rows,
            twice: self.twice.clone(),
            altered: self.altered.clone(),
            ..Verdict::default()
        };
        for id in acknowledged.iter().filter(|id| !self.has(**id)) {
            verdict.missing.add(*id);
        }
        for (id, _) in expected.iter().filter(|(id, place)| self.places.get(id).is_some_and(|found| found != place)) {
            verdict.misplaced.add(*id);
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

    fn found(ids: &[u64]) -> Found {
        let mut found = Found::default();
        for id in ids {
            let event = Event::of(*id);
            found.add(event.clone(), &event.kind, (id % 2) as u8);
        }
        found
    }

    #[test]
    fn whatever_is_wrong_is_found() {
        assert_eq!(found(&[0, 1, 2]).judge(&[2, 0, 1], &[(0, 0), (1, 1)]).finding(), Finding::Proved);
        assert_eq!(found(&[0, 2]).judge(&[0, 1], &[]).missing, Trouble { count: 1, shown: vec![1] });
        assert_eq!(found(&[0, 1, 1]).judge(&[0, 1, 2], &[]).twice.shown, [1]);
        assert_eq!(found(&[0]).judge(&[0], &[(0, 1)]).misplaced.shown, [0]);
        let unheard = found(&[0, 1]).judge(&[0], &[]).finding();
        assert_eq!(unheard, Finding::NotProved, "a row that nobody was told of");
        assert_eq!(found(&[0]).judge(&[], &[]).finding(), Finding::NotProved);
        assert_eq!(found(&[]).judge(&[0], &[]).finding(), Finding::NotProved);
        let mut altered = found(&[0]);
        altered.add(Event { amount: 10_001, ..Event::of(1) }, &Event::of(1).kind, 0);
        altered.add(Event::of(2), "another type", 0);
        assert_eq!(altered.judge(&[0, 1, 2], &[]).altered.shown, [1, 2]);
    }

    #[test]
    fn nothing_acknowledged_and_nothing_there_proves_nothing() {
        assert_eq!(found(&[]).judge(&[], &[]).finding(), Finding::NothingProved);
    }
}
