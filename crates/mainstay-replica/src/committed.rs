use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;
use mainstay_core::{PartitionId, SequenceNumber};
use mainstay_store::state::{Write, WriteBatchRef};

use crate::partition::{PREFIX_BYTES, prefix};

/// A commit that was applied, as one of the partitions that it changed sees it.
#[derive(Clone, PartialEq, Eq)]
pub struct Committed {
    /// Its place in the order of the set; what [`Partition::commit`](crate::Partition::commit) returned for it.
    pub sequence_number: SequenceNumber,
    partition: PartitionId,
    /// Encoded, and checked when they were read.
    batches: Vec<Bytes>,
}

/// One thing that a commit did to a partition. Keys are the partition's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation<'a> {
    /// Set a key, which has its stamp if it was [stamped](crate::Batch::put_stamped).
    Put {
        /// The key.
        key: Cow<'a, [u8]>,
        /// The value that it got.
        value: &'a [u8],
    },
    /// Removed a key, if it was there.
    Delete {
        /// The key.
        key: &'a [u8],
    },
    /// Removed all keys from `start` and before `end`.
    DeleteRange {
        /// The first key removed.
        start: &'a [u8],
        /// The first key kept; `None` for the end of the partition.
        end: Option<&'a [u8]>,
    },
    /// Added to a counter.
    Add {
        /// The counter's key.
        key: &'a [u8],
        /// What was added.
        delta: i64,
    },
    /// Left a message and changed nothing.
    Note {
        /// The message.
        note: &'a [u8],
    },
}

impl fmt::Debug for Committed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Committed({} in {})", self.sequence_number.0, self.partition)
    }
}

impl Committed {
    /// What a commit did to a partition; `None` if nothing.
    pub(crate) fn new<'a>(
        partition: PartitionId,
        sequence_number: SequenceNumber,
        batches: impl Iterator<Item = (Bytes, WriteBatchRef<'a>)>,
    ) -> Option<Self> {
        let own = prefix(partition);
        let touches = |batch: &WriteBatchRef<'_>| batch.iter().any(|write| belongs(&write, &own));
        let batches: Vec<Bytes> = batches.filter(|(_, batch)| touches(batch)).map(|(encoded, _)| encoded).collect();
        (!batches.is_empty()).then_some(Self { sequence_number, partition, batches })
    }

    /// What the commit did to the partition, in order.
    pub fn operations(&self) -> impl Iterator<Item = Operation<'_>> {
        let own = prefix(self.partition);
        self.batches
            .iter()
            // Every batch has been checked when it was read.
            .filter_map(|batch| WriteBatchRef::parse(batch).ok())
            .flat_map(|batch| batch.stamped(self.sequence_number.0))
            .filter(move |write| belongs(write, &own))
            .map(operation)
    }
}

/// True if a write is one of the partition with a prefix: a batch touches no key outside of its own.
fn belongs(write: &Write<'_>, prefix: &[u8; PREFIX_BYTES]) -> bool {
    let (Write::Put { key: start, .. }
    | Write::Delete { key: start }
    | Write::DeleteRange { start, .. }
    | Write::Add { key: start, .. }
    | Write::PutStamped { start, .. }
    | Write::Note { note: start }) = write;
    start.starts_with(prefix)
}

/// A write that [`belongs`], without the prefix.
fn operation(write: Write<'_>) -> Operation<'_> {
    match write {
        Write::Put { key, value } => Operation::Put { key: Cow::Borrowed(&key[PREFIX_BYTES..]), value },
        Write::PutStamped { start, stamp, end, value } => {
            Operation::Put { key: Cow::Owned([&start[PREFIX_BYTES..], &stamp.to_be_bytes(), end].concat()), value }
        }
        Write::Delete { key } => Operation::Delete { key: &key[PREFIX_BYTES..] },
        Write::DeleteRange { start, end } => {
            let (own, start) = start.split_at(PREFIX_BYTES);
            // What ends where the next partition begins ends with this one.
            Operation::DeleteRange { start, end: end.and_then(|end| end.strip_prefix(own)) }
        }
        Write::Add { key, delta } => Operation::Add { key: &key[PREFIX_BYTES..], delta },
        Write::Note { note } => Operation::Note { note: &note[PREFIX_BYTES..] },
    }
}
