use serde::{Deserialize, Serialize};

/// Where the line of an actor begins and ends: the part of its state that every turn changes. It is small.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Book {
    /// The number of the oldest item that waits.
    pub(super) first: u64,
    /// The number of the next item that comes.
    pub(super) next: u64,
    /// How many bytes wait.
    pub(super) bytes: u64,
    /// How many batches were written.
    pub(super) batches: u64,
}

impl Book {
    pub(super) fn waiting(&self) -> u64 {
        self.next - self.first
    }
}

/// The name of the entry of an item that waits.
pub(super) fn item_name(number: u64) -> String {
    format!("item {number}")
}

/// The name of the entry that says why an item was set aside. The item stays where it was: a copy with the error beside it might
/// be larger than a value may be, and then the line would stop for good.
pub(super) fn refusal_name(number: u64) -> String {
    format!("refusal {number}")
}

/// The name under which earlier versions have set an item aside, together with the error.
pub(super) fn dead_name(number: u64) -> String {
    format!("dead {number}")
}

/// Why an item was set aside, as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ItemRefusal {
    /// What the writer said.
    pub(super) error: String,
}

/// An item that cannot be written, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadLetter<T> {
    /// Its number in the line.
    pub number: u64,
    /// The item.
    pub item: T,
    /// What the writer said.
    pub error: String,
}

/// How the line of an actor is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DurableStatus {
    /// How many items wait to be written.
    pub waiting: u64,
    /// How many bytes they have.
    pub waiting_bytes: u64,
    /// The number of the next item: how many were taken so far.
    pub next: u64,
    /// How many batches were written.
    pub batches: u64,
    /// How many items were set aside.
    pub dead_letters: u64,
    /// How many writes in a row have failed.
    pub failures: u32,
    /// What the last of them said.
    pub last_error: Option<String>,
    /// True if what it said does not pass by itself (`Corrupt`, `Fatal` and their kind), such as a file that is damaged:
    /// somebody has to see to it. The line tries again all the same, and goes on when that was done.
    pub is_stuck: bool,
}
