use mainstay_governance::sink::csv::CsvRow;
use mainstay_governance::sink::postgres::{Row, Values};
use serde::{Deserialize, Serialize};

/// How long the text of an event is.
const TEXT_BYTES: usize = 100;

/// What everybody writes.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Event {
    pub(super) id: i64,
    pub(super) caller: i32,
    pub(super) text: String,
}

impl Event {
    /// The event of a caller's turn; no two are the same.
    pub(super) fn new(caller: i32, turn: u64) -> Self {
        // No caller gets to its four billionth turn.
        let id = i64::from(caller) << 32 | i64::from(turn as u32);
        Self { id, caller, text: format!("{turn:0>TEXT_BYTES$}") }
    }
}

impl Row for Event {
    const SERVICE: &'static str = "event-rows";
    const COLUMNS: &'static [&'static str] = &["id", "caller", "text"];

    fn put(&self, values: &mut Values<'_>) {
        values.push(&self.id).push(&self.caller).push(&self.text);
    }
}

impl CsvRow for Event {
    const OWNER: &'static str = "event-files";
    const QUEUE: &'static str = "event-queues";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_differ_and_are_of_one_size() {
        let (first, second) = (Event::new(1, 0), Event::new(0, 1));
        assert_ne!(first.id, second.id);
        assert_eq!((first.text.len(), second.text.len()), (TEXT_BYTES, TEXT_BYTES));
    }
}
