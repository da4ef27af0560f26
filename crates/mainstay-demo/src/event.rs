//! What happens: events of three types, of two hundred users. An event follows from its number, so that what was written
//! can be held against what was sent.

use serde::{Deserialize, Serialize};

/// The types of events. There is a writer for each.
pub const KINDS: [&str; 3] = ["click", "purchase", "page view"];

/// How many users there are.
pub const USERS: u64 = 200;

/// What users live on: in each there are files of every type of event.
pub const RESOURCES: [&str; 2] = ["east", "west"];

/// Something that a user did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Its number, which no other event has.
    pub id: u64,
    /// Who did it.
    pub user: String,
    /// What was done.
    pub kind: String,
    /// How much, or how long.
    pub amount: u64,
    /// What was said. Some of it has to be quoted.
    pub note: String,
}

impl Event {
    /// The event of a number.
    pub fn of(id: u64) -> Self {
        // Any mixing will do that spreads numbers evenly.
        let mixed = (id ^ 0x5bd1_e995).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
        let kind = KINDS[(mixed % KINDS.len() as u64) as usize];
        let note = match mixed % 5 {
            0 => String::new(),
            1 => format!("plain {}", mixed % 1000),
            2 => format!("with a comma, {}", mixed % 100),
            3 => format!("\"quoted\" {}", mixed % 100),
            _ => format!("two\nlines {}", mixed % 100),
        };
        Self { id, user: user_name(mixed / 7 % USERS), kind: kind.to_owned(), amount: mixed % 10_000, note }
    }
}

/// The name of a user by its number.
pub fn user_name(number: u64) -> String {
    format!("user-{number:03}")
}

/// The number of a user by its name.
pub fn user_number(name: &str) -> Option<usize> {
    name.strip_prefix("user-")?.parse().ok().filter(|number| *number < USERS as usize)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn events_are_of_all_types_and_users_and_always_the_same() {
        let events: Vec<_> = (0..10_000).map(Event::of).collect();
        let kinds: BTreeSet<_> = events.iter().map(|event| event.kind.as_str()).collect();
        let users: BTreeSet<_> = events.iter().map(|event| user_number(&event.user).unwrap()).collect();
        assert_eq!((kinds.len(), users.len()), (KINDS.len(), USERS as usize));
        assert_eq!(Event::of(77), Event::of(77));
    }
}
