//! The names of things: nodes, replica sets, partitions, epochs and commits.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

macro_rules! number_id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }
    };
}

number_id!(
    /// A process that takes part in the system.
    NodeId, "n"
);
number_id!(
    /// One node's copy of a replica set. A persisted replica keeps its id; a volatile one that restarts has lost what
    /// it promised and gets a new one.
    ReplicaId, "r"
);
number_id!(
    /// One shard of a service.
    PartitionId, "p"
);
number_id!(
    /// The fencing token of a primary: grows with every change of primary, never goes back.
    Epoch, "e"
);
number_id!(
    /// The place of a commit in the order of its replica set. Grows, with gaps.
    SequenceNumber, "s"
);

/// How a partition keeps its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// On disk on a quorum of replicas: survives the loss of power everywhere.
    Persisted,
    /// In memory on a quorum of replicas: survives the loss of a minority.
    Volatile,
    /// In memory of one node: lost with it.
    None,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Level::Persisted => "persisted",
            Level::Volatile => "volatile",
            Level::None => "none",
        })
    }
}

impl FromStr for Level {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "persisted" => Ok(Level::Persisted),
            "volatile" => Ok(Level::Volatile),
            "none" => Ok(Level::None),
            other => Err(Error::invalid(format!(
                "unknown persistence level {other:?}: use \"persisted\", \"volatile\" or \"none\""
            ))),
        }
    }
}

/// One consensus group: a replicated log that many partitions of one level share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SetId {
    /// The level of all partitions in the set.
    pub level: Level,
    /// The number of the set within its level.
    pub number: u16,
}

impl fmt::Display for SetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.level, self.number)
    }
}
