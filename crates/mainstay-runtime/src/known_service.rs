use mainstay_core::partitioning::Partitioning;
use mainstay_core::time::Duration;
use mainstay_core::{Error, PartitionId, Result};

use crate::service_type::ServiceKind;

/// What callers have to know of a service, without its type: a record that all nodes and clients of a cluster can have.
#[derive(Debug, Clone, PartialEq)]
pub struct KnownService {
    /// Its name.
    pub name: String,
    /// Whether it is one object per partition or many actors.
    pub kind: ServiceKind,
    /// The names of the interfaces that it implements.
    pub interfaces: Vec<String>,
    /// How keys are spread over its partitions.
    pub partitioning: Partitioning,
    /// The ids of its partitions, in their order.
    pub partitions: Vec<PartitionId>,
    /// The time limit of a call whose proxy sets none.
    pub call_timeout: Duration,
}

impl KnownService {
    /// Refuses a record that contradicts itself.
    ///
    /// # Errors
    /// `Invalid` if it has another number of partitions than its partitioning, or a partitioning that is not allowed.
    pub fn check(&self) -> Result<()> {
        self.partitioning.check()?;
        let (count, ids) = (self.partitioning.count() as usize, self.partitions.len());
        if count == ids {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "service {} has {count} partitions and was given the ids of {ids}: give it one id per partition",
            self.name
        )))
    }
}
