use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::owner::Fence;

/// What an owner says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnerStatus {
    /// Whether it has the resource open.
    pub state: OwnerState,
    /// The token of its last opening.
    pub fence: Fence,
    /// How many jobs it has been given since it is in memory.
    pub jobs: u64,
    /// How often it has tried to open the resource since it is in memory.
    pub openings: u64,
}

/// Whether a resource is open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum OwnerState {
    /// It is not: nobody needs it.
    Closed,
    /// It is.
    Open,
    /// It has failed, and is not opened before a while has passed.
    Resting {
        /// The time that is left.
        left: Duration,
        /// What has failed.
        cause: String,
    },
}
