use mainstay_store::state::{Key, Object};
use smallvec::SmallVec;

/// A key, with its partition's prefix, that is set to an object, by a partition of level none. Nothing of it is encoded unless
/// somebody follows.
pub(crate) type ObjectPut = (Key, Object);

/// Most batches have one at most.
pub(crate) type ObjectPuts = SmallVec<[ObjectPut; 1]>;

/// What it counts for in the size of a commit.
pub(crate) fn object_put_bytes((key, object): &ObjectPut) -> usize {
    key.len() + object.len as usize
}
