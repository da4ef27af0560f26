use std::collections::BTreeSet;
use std::sync::Arc;

use mainstay_core::{Error, ErrorKind, PartitionId, Result};
use parking_lot::Mutex;

/// The partitions of a set that somebody here has for himself.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    taken: Mutex<BTreeSet<PartitionId>>,
}

/// The right to be the only one in this process who keeps locks and values of a partition in memory. Given back on drop.
#[derive(Debug)]
pub struct Claim {
    claims: Arc<Claims>,
    partition: PartitionId,
}

impl Claims {
    pub(crate) fn claim(self: &Arc<Self>, partition: PartitionId) -> Result<Claim> {
        if self.taken.lock().insert(partition) {
            return Ok(Claim { claims: self.clone(), partition });
        }
        Err(Error::new(
            ErrorKind::Conflict,
            format!("the state of partition {partition} is open already: share that, or wait until it is closed"),
        ))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.claims.taken.lock().remove(&self.partition);
    }
}
