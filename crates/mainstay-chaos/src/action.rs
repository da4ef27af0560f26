//! What a caller can ask for, and what it can be told. Both are part of the [history](crate::history).

use std::fmt;

use serde::{Deserialize, Serialize};

/// One call of the workload. Objects of a kind are told apart by their number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
#[allow(missing_docs, reason = "the fields are the arguments of the methods in `workload`")]
pub enum Action {
    /// What a register holds.
    Read { register: u32 },
    /// Has a register hold a value that no other write has.
    Write { register: u32, value: u64 },
    /// Has a register hold a value if it holds the expected one.
    Swap { register: u32, expected: u64, value: u64 },
    /// Adds one to a counter.
    Add { counter: u32 },
    /// The total of a counter.
    Total { counter: u32 },
    /// Writes a line into a file outside that has one owner.
    Append { journal: u32, line: u64 },
    /// How often a reminder has fired; sets it if it was never set.
    Ticks { ticker: u32 },
    /// Moves money between two accounts of a bank.
    Transfer { bank: u32, id: u64, from: u32, to: u32, amount: u64 },
    /// The accounts of a bank at one moment.
    Balances { bank: u32 },
    /// The accounts of a bank and all transfers that have led there.
    Statement { bank: u32 },
}

/// What a call was answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// What a register holds, or held before a swap, which has happened if that is what it expected.
    Value(u64),
    /// Nothing more than that it was done.
    Done,
    /// The total of a counter, after the add if it was one.
    Total(u64),
    /// The fence in whose name the line was written.
    Fence(u64),
    /// What a ticker has counted.
    Ticks(Ticks),
    /// Whether there was enough money.
    Transferred(bool),
    /// The accounts.
    Balances(Vec<u64>),
    /// The accounts, and the ids of the transfers.
    Statement {
        /// What each account holds.
        balances: Vec<u64>,
        /// The transfers that have happened, by their ids.
        transfers: Vec<u64>,
    },
}

/// What a ticker knows of its reminder.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ticks {
    /// How often it has fired.
    pub count: u64,
    /// The time of day, in milliseconds, for which it was planned when it fired last.
    pub planned_ms: u64,
    /// How often it came with a number that was not the next one: it was settled twice, or not at all.
    pub miscounted: u64,
    /// How often it came for another time than the next of its schedule: one was lost, or came twice.
    pub misplanned: u64,
}

/// A thing that can be called, of those that the load must reach before it calls the system whole again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names are those of `Action`")]
pub enum Object {
    Register(u32),
    Counter(u32),
    Journal(u32),
    Ticker(u32),
    Bank(u32),
}

impl Action {
    /// Whom it concerns.
    pub fn object(&self) -> Object {
        match *self {
            Self::Read { register } | Self::Write { register, .. } | Self::Swap { register, .. } => {
                Object::Register(register)
            }
            Self::Add { counter } | Self::Total { counter } => Object::Counter(counter),
            Self::Append { journal, .. } => Object::Journal(journal),
            Self::Ticks { ticker } => Object::Ticker(ticker),
            Self::Transfer { bank, .. } | Self::Balances { bank } | Self::Statement { bank } => Object::Bank(bank),
        }
    }
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Register(number) => write!(f, "register {number}"),
            Self::Counter(number) => write!(f, "counter {number}"),
            Self::Journal(number) => write!(f, "journal {number}"),
            Self::Ticker(number) => write!(f, "ticker {number}"),
            Self::Bank(number) => write!(f, "bank {number}"),
        }
    }
}
