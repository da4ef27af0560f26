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
    /// One node's copy of a replica set. A persisted replica keeps its id for as long as its data folder; a volatile one that
    /// restarts has lost what it promised and gets a new one, as does an empty folder. No id is used twice.
    ReplicaId, "r"
);
number_id!(
    /// One shard of a service.
    PartitionId, "p"
);
number_id!(
    /// The place of a commit in the order of its replica set. Grows, with gaps.
    SequenceNumber, "s"
);

/// The fencing token of a primary: grows with every change of primary, never goes back.
///
/// It is the data-loss number of the replica set in its upper 24 bits, and the term of its primary in the lower 40. A set that
/// is created again, because what it held was lost, starts with term 1 and a higher data-loss number, so that all of
/// its epochs are above those before.
///
/// ```
/// use mainstay_core::Epoch;
///
/// assert!(Epoch::new(1, 1) > Epoch::new(0, 1_000_000));
/// assert_eq!(Epoch::new(0, 7), Epoch(7));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Epoch(pub u64);

impl Epoch {
    /// The highest data-loss number that an epoch has room for.
    pub const DATA_LOSS_MAX: u32 = (1 << (u64::BITS - Self::TERM_BITS)) - 1;

    /// The highest term that an epoch has room for: a thousand elections in a second, for 34 years.
    pub const TERM_MAX: u64 = (1 << Self::TERM_BITS) - 1;

    const TERM_BITS: u32 = 40;

    /// The epoch of a term, in a set with a data-loss number. Neither is ever above its maximum, [`DATA_LOSS_MAX`](Epoch::DATA_LOSS_MAX)
    /// and [`TERM_MAX`](Epoch::TERM_MAX): what comes from elsewhere is checked where it is read. One that were is taken for the maximum.
    pub const fn new(data_loss: u32, term: u64) -> Self {
        let data_loss = if data_loss > Self::DATA_LOSS_MAX { Self::DATA_LOSS_MAX } else { data_loss };
        let term = if term > Self::TERM_MAX { Self::TERM_MAX } else { term };
        Self(((data_loss as u64) << Self::TERM_BITS) | term)
    }

    /// How often what the set held was given up as lost. Epochs from before this was counted have 0.
    pub const fn data_loss(self) -> u32 {
        (self.0 >> Self::TERM_BITS) as u32
    }

    /// The term of the primary.
    pub const fn term(self) -> u64 {
        self.0 & Self::TERM_MAX
    }
}

/// `e7`, and `e2.7` for term 7 after two data losses.
impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.data_loss() {
            0 => write!(f, "e{}", self.term()),
            data_loss => write!(f, "e{data_loss}.{}", self.term()),
        }
    }
}

/// All nodes that belong together. Drawn at random when the first of them is founded, so that no two clusters have the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ClusterId(pub u128);

impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "c{:032x}", self.0)
    }
}

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

/// The replica set that holds what a cluster knows of itself. It is apart from the sets of services, and every node has a replica of it.
pub const CONTROL_SET: SetId = SetId { level: Level::Persisted, number: u16::MAX };

/// `persisted-3`, and `control` for the [control set](CONTROL_SET).
impl fmt::Display for SetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            CONTROL_SET => f.write_str("control"),
            SetId { level, number } => write!(f, "{level}-{number}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ErrorKind, contract, key};

    #[test]
    fn names_are_written_for_people() {
        let names = [NodeId(7).to_string(), PartitionId(8).to_string(), Epoch(9).to_string()];
        assert_eq!(names, ["n7", "p8", "e9"]);
        assert_eq!(SequenceNumber(10).to_string(), "s10");
        assert_eq!(ClusterId(0xab).to_string(), "c000000000000000000000000000000ab");
        assert_eq!(SetId { level: Level::Volatile, number: 3 }.to_string(), "volatile-3");
        assert_eq!(CONTROL_SET.to_string(), "control");
    }

    #[test]
    fn a_level_is_read_as_it_is_written() {
        for level in [Level::Persisted, Level::Volatile, Level::None] {
            assert_eq!(level.to_string().parse::<Level>().unwrap(), level);
            // Stored under the same name.
            assert_eq!(contract::encode(&level).unwrap(), contract::encode(&level.to_string()).unwrap());
        }
        for wrong in ["", "Persisted", "disk"] {
            let error = wrong.parse::<Level>().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid);
            assert!(error.to_string().contains(&format!("{wrong:?}")), "{error}");
        }
    }

    #[test]
    fn an_epoch_after_a_data_loss_is_above_all_before() {
        let (first, later, last) =
            (Epoch::new(0, 1), Epoch::new(0, Epoch::TERM_MAX), Epoch::new(Epoch::DATA_LOSS_MAX, Epoch::TERM_MAX));
        assert!(first < later && later < Epoch::new(1, 1) && Epoch::new(1, 9) < Epoch::new(2, 0));
        assert_eq!((last, Epoch::new(u32::MAX, u64::MAX)), (Epoch(u64::MAX), Epoch(u64::MAX)));
        for (data_loss, term) in [(0, 0), (0, 7), (3, 0), (3, 7), (Epoch::DATA_LOSS_MAX, 1), (1, Epoch::TERM_MAX)] {
            let epoch = Epoch::new(data_loss, term);
            assert_eq!((epoch.data_loss(), epoch.term()), (data_loss, term));
        }
        assert_eq!([first, Epoch::new(2, 7)].map(|epoch| epoch.to_string()), ["e1", "e2.7"]);
        // Those that were stored before are the terms alone.
        assert_eq!(contract::decode::<Epoch>(&contract::encode(&7u64).unwrap()).unwrap(), Epoch::new(0, 7));
    }

    #[test]
    fn ids_are_stored_as_their_numbers_and_sort_as_keys() {
        assert_eq!(contract::encode(&NodeId(300)).unwrap(), contract::encode(&300u64).unwrap());
        assert_eq!(contract::decode::<Epoch>(&contract::encode(&u64::MAX).unwrap()).unwrap(), Epoch(u64::MAX));
        let sets = [(Level::Persisted, 9), (Level::Volatile, 1), (Level::Volatile, 300), (Level::None, 0)];
        let sets = sets.map(|(level, number)| SetId { level, number });
        assert!(sets.is_sorted());
        assert!(sets.map(|set| key::encode(&set).unwrap()).is_sorted());
        for set in sets {
            assert_eq!(contract::decode::<SetId>(&contract::encode(&set).unwrap()).unwrap(), set);
            assert_eq!(key::decode::<SetId>(&key::encode(&set).unwrap()).unwrap(), set);
        }
    }
}
