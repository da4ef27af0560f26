//! Sets of events by their numbers, with a bit for each.

use mainstay::prelude::*;

/// How many events a folder may have, in all runs together: a set of so many takes 12 MB, and there are half a dozen sets.
pub const EVENTS_MAX: u64 = 100_000_000;

/// Numbers of events.
#[derive(Debug, Clone, Default)]
pub struct Numbers {
    words: Vec<u64>,
    count: u64,
}

impl Numbers {
    /// Adds a number. False if it is there already.
    ///
    /// # Errors
    /// `TooLarge` for one that no event has.
    pub fn insert(&mut self, id: u64) -> Result<bool> {
        if id >= EVENTS_MAX {
            let text = format!("{id} is no number of an event: they are below {EVENTS_MAX} (EVENTS_MAX)");
            return Err(Error::new(ErrorKind::TooLarge, text));
        }
        let (word, bit) = place(id);
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        let is_new = self.words[word] & bit == 0;
        self.words[word] |= bit;
        self.count += u64::from(is_new);
        Ok(is_new)
    }

    /// True if a number is there.
    pub fn has(&self, id: u64) -> bool {
        let (word, bit) = place(id);
        self.words.get(word).is_some_and(|word| word & bit != 0)
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The number after the highest.
    pub fn next(&self) -> u64 {
        // Words are added for a number only, so that the last is not empty.
        let last = self.words.last().map_or(0, |word| 64 - u64::from(word.leading_zeros()));
        self.words.len().saturating_sub(1) as u64 * 64 + last
    }

    /// All of them, in their order.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        let words = (0..).zip(&self.words).filter(|(_, word)| **word != 0);
        words.flat_map(|(place, word)| (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| place * 64 + bit))
    }
}

fn place(id: u64) -> (usize, u64) {
    (usize::try_from(id / 64).unwrap_or(usize::MAX), 1 << (id % 64))
}

/// Events, and on which of the two resources each is, by its place in [`RESOURCES`](crate::event::RESOURCES).
#[derive(Debug, Clone, Default)]
pub struct Places {
    /// The events of which it is known.
    pub ids: Numbers,
    on_second: Numbers,
}

impl Places {
    /// Adds an event. False if it is there already.
    ///
    /// # Errors
    /// As [`Numbers::insert`].
    pub fn insert(&mut self, id: u64, place: u8) -> Result<bool> {
        if place > 0 {
            self.on_second.insert(id)?;
        }
        self.ids.insert(id)
    }

    /// Where an event is, if that is known.
    pub fn get(&self, id: u64) -> Option<u8> {
        self.ids.has(id).then(|| u8::from(self.on_second.has(id)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_there_once_in_their_order_and_below_a_limit() {
        let mut numbers = Numbers::default();
        assert_eq!((numbers.next(), numbers.iter().count()), (0, 0));
        for id in [64, 3, 127, 63, 0] {
            assert!(numbers.insert(id).unwrap() && !numbers.insert(id).unwrap());
        }
        assert_eq!(numbers.iter().collect::<Vec<_>>(), [0, 3, 63, 64, 127]);
        assert_eq!((numbers.count(), numbers.next()), (5, 128));
        assert!(!numbers.has(1) && !numbers.has(u64::MAX));
        for id in [EVENTS_MAX, u64::MAX] {
            assert_eq!(numbers.insert(id).unwrap_err().kind(), ErrorKind::TooLarge);
        }
        numbers.insert(EVENTS_MAX - 1).unwrap();
        assert_eq!(numbers.next(), EVENTS_MAX);
    }

    #[test]
    fn an_event_is_where_it_was_put() {
        let mut places = Places::default();
        places.insert(7, 1).unwrap();
        places.insert(8, 0).unwrap();
        assert_eq!([7, 8, 9].map(|id| places.get(id)), [Some(1), Some(0), None]);
    }
}
