//! What transactions have seen and done, and whether it is as if they had run one after the other.

use std::collections::{BTreeMap, BTreeSet};

/// A collection and one of its keys.
pub type Place = (usize, u8);

/// One step of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    Read(Place, Seen),
    /// `None` removes.
    Write(Place, Option<u64>),
    /// How many keys a collection has.
    Count(usize, u64),
}

/// What a step tells of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    Is(Option<u64>),
    IsNot(u64),
    Present(bool),
}

/// A transaction that was committed, or may have been.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    /// For people.
    pub name: String,
    pub events: Vec<Event>,
    /// Moments: it began after all that ended before.
    pub begun: u64,
    pub ended: u64,
    /// What the commit returned; `None` if nobody waited for it.
    pub sequence_number: Option<u64>,
}

impl Recorded {
    fn writes(&self) -> bool {
        self.events.iter().any(|event| matches!(event, Event::Write(..)))
    }

    /// Its place in the serial order. Who has only read saw all that is committed up to its number.
    fn order(&self) -> (u64, bool) {
        (self.sequence_number.unwrap_or(u64::MAX), !self.writes())
    }
}

type Model = BTreeMap<Place, u64>;

/// Replays all transactions one after the other, in the order of the numbers that their commits returned, and says what
/// does not fit: a read of something else than was there, two with one number, or one that began after another had
/// ended and comes before it.
///
/// Those whose number nobody knows may stand anywhere, or have never happened.
pub fn check(history: &[Recorded]) -> Result<(), String> {
    let (mut order, unknown): (Vec<&Recorded>, Vec<&Recorded>) =
        history.iter().partition(|transaction| transaction.sequence_number.is_some());
    order.sort_by_key(|transaction| transaction.order());
    let mut numbers = BTreeSet::new();
    for writer in order.iter().filter(|transaction| transaction.writes()) {
        if !numbers.insert(writer.sequence_number) {
            return Err(format!("{}: another has the same number {:?}", writer.name, writer.sequence_number));
        }
    }
    for (place, later) in order.iter().enumerate() {
        if let Some(early) = order[place + 1..].iter().find(|other| other.ended < later.begun) {
            // Readers of one number have no order among each other.
            if early.order() != later.order() {
                return Err(format!("{} had ended when {} began, and comes after it", early.name, later.name));
            }
        }
    }
    let mut search = Search { order, furthest: (0, String::new()) };
    match search.replay(Model::new(), 0, &unknown) {
        true => Ok(()),
        false => Err(search.furthest.1),
    }
}

struct Search<'a> {
    order: Vec<&'a Recorded>,
    /// How far the best try came, and what did not fit there.
    furthest: (usize, String),
}

impl Search<'_> {
    fn replay(&mut self, mut model: Model, start: usize, unknown: &[&Recorded]) -> bool {
        for next in start..=self.order.len() {
            for (chosen, candidate) in unknown.iter().enumerate() {
                let mut with = model.clone();
                if run(&mut with, candidate).is_ok() {
                    let mut left = unknown.to_vec();
                    left.remove(chosen);
                    if self.replay(with, next, &left) {
                        return true;
                    }
                }
            }
            let Some(transaction) = self.order.get(next) else { break };
            if let Err(why) = run(&mut model, transaction) {
                if self.furthest.1.is_empty() || next > self.furthest.0 {
                    self.furthest = (next, why);
                }
                return false;
            }
        }
        true
    }
}

fn run(model: &mut Model, transaction: &Recorded) -> Result<(), String> {
    for event in &transaction.events {
        match event {
            Event::Write(place, Some(value)) => _ = model.insert(*place, *value),
            Event::Write(place, None) => _ = model.remove(place),
            Event::Count(collection, count) => {
                let there = model.keys().filter(|(of, _)| of == collection).count() as u64;
                if *count != there {
                    return Err(format!("{} counted {count} in {collection}, where {there} were", transaction.name));
                }
            }
            Event::Read(place, seen) => {
                let there = model.get(place).copied();
                let fits = match seen {
                    Seen::Is(value) => *value == there,
                    Seen::IsNot(value) => Some(*value) != there,
                    Seen::Present(present) => *present == there.is_some(),
                };
                if !fits {
                    return Err(format!("{} saw {seen:?} at {place:?}, where {there:?} was", transaction.name));
                }
            }
        }
    }
    Ok(())
}
