use serde::{Deserialize, Serialize};

/// How urgent a lease is: the higher, the sooner. Those of one priority come in the order in which they asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Priority(pub u8);

impl Priority {
    /// What can wait.
    pub const LOW: Self = Self(0);
    /// What most callers are.
    pub const NORMAL: Self = Self(1);
    /// What is to go first.
    pub const HIGH: Self = Self(2);
}

impl Default for Priority {
    fn default() -> Self {
        Self::NORMAL
    }
}
