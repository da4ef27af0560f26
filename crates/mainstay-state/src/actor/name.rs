use std::fmt;

use mainstay_core::{Error, ErrorKind, Result};
use smallvec::SmallVec;

/// The most bytes of the name of a state.
pub const STATE_NAME_BYTES_MAX: usize = 1024;

/// The most bytes of the name of a reminder.
pub const REMINDER_NAME_BYTES_MAX: usize = 1024;

/// The most bytes of the key by which a call is made at most once.
pub const IDEMPOTENCY_KEY_BYTES_MAX: usize = 1024;

/// The most bytes of the name of a lane.
pub const LANE_NAME_BYTES_MAX: usize = 64;

/// The most bytes of the name of an event type.
pub const EVENT_NAME_BYTES_MAX: usize = 1024;

/// How long a name may be to need no allocation.
const NAME_BYTES_IN_PLACE: usize = 24;

/// The kinds of entries that an actor has by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    State,
    Reminder,
    Answer,
    Event,
    Lane,
}

impl Kind {
    pub(super) const ALL: [Self; 5] = [Self::State, Self::Reminder, Self::Answer, Self::Event, Self::Lane];

    /// True if its entries have places in an index by time.
    pub(super) fn is_timely(self) -> bool {
        matches!(self, Self::Reminder | Self::Answer | Self::Lane)
    }

    /// Refuses a name that is too long.
    pub(super) fn check(self, name: &str) -> Result<()> {
        if self.is_name(name) {
            return Ok(());
        }
        let (limit, bytes_max) = match self {
            Self::State => ("STATE_NAME_BYTES_MAX", STATE_NAME_BYTES_MAX),
            Self::Reminder => ("REMINDER_NAME_BYTES_MAX", REMINDER_NAME_BYTES_MAX),
            Self::Answer => ("IDEMPOTENCY_KEY_BYTES_MAX", IDEMPOTENCY_KEY_BYTES_MAX),
            Self::Event => ("EVENT_NAME_BYTES_MAX", EVENT_NAME_BYTES_MAX),
            Self::Lane => ("LANE_NAME_BYTES_MAX", LANE_NAME_BYTES_MAX),
        };
        let what = match self {
            Self::Answer => "an idempotency key".to_owned(),
            Self::Event => "the name of an event".to_owned(),
            Self::State | Self::Reminder | Self::Lane => format!("the name of a {self}"),
        };
        Err(Error::new(
            ErrorKind::TooLarge,
            format!("{what} has {} bytes, and {limit} is {bytes_max}: use a hash of it", name.len()),
        ))
    }

    /// Whether there can be an entry of that name.
    pub(super) fn is_name(self, name: &str) -> bool {
        name.len()
            <= match self {
                Self::State => STATE_NAME_BYTES_MAX,
                Self::Reminder => REMINDER_NAME_BYTES_MAX,
                Self::Answer => IDEMPOTENCY_KEY_BYTES_MAX,
                Self::Event => EVENT_NAME_BYTES_MAX,
                Self::Lane => LANE_NAME_BYTES_MAX,
            }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::State => "state",
            Self::Reminder => "reminder",
            Self::Answer => "answer",
            Self::Event => "event",
            Self::Lane => "lane",
        })
    }
}

/// A name that needs no allocation if it is as short as most are.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Name(SmallVec<[u8; NAME_BYTES_IN_PLACE]>);

impl Name {
    pub(super) fn new(name: &str) -> Self {
        Self(SmallVec::from_slice(name.as_bytes()))
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub(super) fn as_str(&self) -> &str {
        // Made from a text and never changed, so that it is one.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_name_is_accepted_and_one_more_byte_is_not() {
        for (kind, bytes_max, limit) in [
            (Kind::State, STATE_NAME_BYTES_MAX, "STATE_NAME_BYTES_MAX"),
            (Kind::Reminder, REMINDER_NAME_BYTES_MAX, "REMINDER_NAME_BYTES_MAX"),
            (Kind::Answer, IDEMPOTENCY_KEY_BYTES_MAX, "IDEMPOTENCY_KEY_BYTES_MAX"),
            (Kind::Event, EVENT_NAME_BYTES_MAX, "EVENT_NAME_BYTES_MAX"),
            (Kind::Lane, LANE_NAME_BYTES_MAX, "LANE_NAME_BYTES_MAX"),
        ] {
            kind.check(&"x".repeat(bytes_max)).unwrap();
            let error = kind.check(&"x".repeat(bytes_max + 1)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::TooLarge);
            assert!(error.to_string().contains(limit), "{error}");
        }
    }

    #[test]
    fn a_name_is_the_text_that_it_was_made_from() {
        for text in ["", "balance", "größer als vierundzwanzig Bytes, und deshalb anderswo"] {
            assert_eq!(Name::new(text).as_str(), text);
            assert_eq!(Name::new(text).as_bytes(), text.as_bytes());
        }
    }
}
