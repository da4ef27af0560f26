use std::fmt;

use serde::{Deserialize, Serialize};

/// An unbroken line of fencing tokens of one holder: a number that is drawn when the line begins.
///
/// Tokens are counted in the state of an actor. If that is lost, because the actor was deleted, a backup was restored or
/// the cluster got a new folder of data, counting goes on from what the outside remembers, and a new lineage begins. What the
/// outside has of an earlier lineage is not known to the new one: it may have been acknowledged, and is not to be taken back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FenceLineage(u64);

impl FenceLineage {
    /// That of a program which counts its tokens itself, or does not count.
    pub const NONE: Self = Self(0);

    /// A lineage by its number, as it was stored.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Its number, to be stored. A signed column of 64 bits has room for it.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// One that nobody has had.
    pub(crate) fn draw() -> Self {
        let positive = rand::random::<u64>() >> 1;
        Self(positive.max(1))
    }
}

impl fmt::Display for FenceLineage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
