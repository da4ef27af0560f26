//! The records of this crate: which versions are read, and which is written. `docs/internals/actor-state.md` and
//! `docs/internals/collections.md` have their bytes.
//!
//! The first byte of a record is its version. Behind its last field a record may have more, which is skipped; where the last
//! field is a data contract, that has rules of its own for what it does not know.

use mainstay_core::format::Format;

/// How the keys of a partition of actors are laid out.
pub(crate) const ACTOR_LAYOUT: Format = Format::new("layout of actors", 1..=1);

/// That an actor is known, and that its deletion has left places.
pub(crate) const KNOWN: Format = Format::new("record of an actor", 1..=1);

/// A state: a data contract.
pub(crate) const STATE: Format = Format::new("state", 1..=1);

/// A reminder. Versions 1 and 2 end with the payload; 1 has no length of time that it waits for.
pub(crate) const REMINDER: Format = Format::new("reminder", 1..=3);

/// The notation of cron expressions, within a reminder.
pub(crate) const CRON: Format = Format::new("cron expression", 1..=1);

/// A kept answer. Versions 1 and 2 end with the reply; 1 has neither interface nor arguments.
pub(crate) const ANSWER: Format = Format::new("answer", 1..=3);

/// The last answer in a lane.
pub(crate) const LANE: Format = Format::new("answer in a lane", 1..=1);

/// How many events of a type an actor has published.
pub(crate) const EVENT_COUNT: Format = Format::new("count of events", 1..=1);

/// What a collection is: a data contract. It speaks for how its entries are laid out, too.
pub(crate) const COLLECTION: Format = Format::new("record of a collection", 1..=1);

/// The number of the next collection. Before version 1 it had no version: four bytes are the number alone.
pub(crate) const NEXT_COLLECTION: Format = Format::new("number of the next collection", 1..=1);

/// An entry of a dictionary or an item of a queue. The version is the upper half of the first byte.
pub(crate) const ENTRY: Format = Format::new("stored entry", 1..=1);

/// That a gate is on: a record of whatever version says so by being there.
pub(crate) const GATE: Format = Format::new("record of a gate", 1..=1);

#[cfg(test)]
mod tests {
    use mainstay_core::format::golden::Golden;

    use super::*;

    /// Records that are a version and no more, or a version and a data contract.
    #[test]
    fn golden_records_of_a_version_alone_are_what_is_written() {
        let golden = Golden::of(env!("CARGO_MANIFEST_DIR"));
        golden.check("actor-layout", &ACTOR_LAYOUT, &[ACTOR_LAYOUT.written()]);
        golden.check("known", &KNOWN, &[KNOWN.written()]);
        golden.check("state", &STATE, &[&[STATE.written()][..], b"\xa5value"].concat());
        golden.check("gate", &GATE, crate::gates::RECORD);
        for (name, format) in [("actor-layout", ACTOR_LAYOUT), ("known", KNOWN), ("state", STATE), ("gate", GATE)] {
            assert_eq!(format.check(golden.read(name, 1)[0]).unwrap(), 1, "{name}");
        }
    }
}
