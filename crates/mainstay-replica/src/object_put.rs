use std::sync::Arc;

use bytes::Bytes;
use mainstay_store::state::{Key, Object, WriteBatch};
use smallvec::SmallVec;

use crate::partition::PREFIX_BYTES;

/// A key that is set to an object, by a partition of level none: nothing of it is encoded unless somebody follows.
#[derive(Clone)]
pub(crate) struct ObjectPut {
    /// With the partition's prefix.
    pub(crate) key: Key,
    pub(crate) object: Arc<dyn Object>,
    /// What goes before it for those who follow.
    pub(crate) note: Option<Bytes>,
}

/// Most batches have one at most.
pub(crate) type ObjectPuts = SmallVec<[ObjectPut; 1]>;

impl ObjectPut {
    /// What it counts for in the size of a commit.
    pub(crate) fn bytes(&self) -> usize {
        self.key.len() + self.object.bytes().len() + self.note.as_ref().map_or(0, Bytes::len)
    }

    /// Writes it as any other write is written.
    pub(crate) fn encode(&self, batch: &mut WriteBatch) {
        if let Some(note) = &self.note {
            batch.note(&[&self.key[..PREFIX_BYTES], note].concat());
        }
        batch.put(&self.key, self.object.bytes());
    }
}

impl From<ObjectPut> for (Key, Arc<dyn Object>) {
    fn from(put: ObjectPut) -> Self {
        (put.key, put.object)
    }
}
