use std::sync::Arc;

use mainstay_store::state::{Key, Object};
use smallvec::SmallVec;

/// A key that is set to an object, by a partition of level none.
#[derive(Clone)]
pub(crate) struct ObjectPut {
    /// With the partition's prefix.
    pub(crate) key: Key,
    pub(crate) object: Arc<dyn Object>,
    /// The batch sets the key to its bytes as well. Otherwise nothing of it is encoded unless somebody follows.
    pub(crate) is_written: bool,
}

/// Most batches have one at most.
pub(crate) type ObjectPuts = SmallVec<[ObjectPut; 1]>;

impl ObjectPut {
    /// What it counts for in the size of a commit.
    pub(crate) fn bytes(&self) -> usize {
        if self.is_written { 0 } else { self.key.len() + self.object.bytes().len() }
    }
}

impl From<ObjectPut> for (Key, Arc<dyn Object>) {
    fn from(put: ObjectPut) -> Self {
        (put.key, put.object)
    }
}
