//! Whose the node log is: a log that was put into the folder of another node, or of the same one before it was emptied, would be
//! applied to a state that it does not belong to.

use std::path::Path;
use std::sync::Arc;

use bytes::{BufMut as _, Bytes, BytesMut};
use mainstay_core::{Error, NodeId, RESTORE, ReplicaId, Result};
use mainstay_store::log::{GroupId, LogBatch, NodeLog};

use crate::formats::LOG_OWNER;
use crate::log_storage::{LogStorage, error_kind};
use crate::wire::Reader;

/// The group whose hard state names the owner. No set has it: their groups have numbers of 16 bits.
const GROUP: GroupId = GroupId(u64::MAX);

/// The folder that a log belongs to, by its node and the id of its first persisted replica, which is drawn with the folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LogOwner {
    pub node: NodeId,
    pub replica: ReplicaId,
}

impl LogOwner {
    /// Refuses a log of another owner, and makes one its own that has none: a new one, or one of a build that named none.
    ///
    /// # Errors
    /// `Corrupt` if it is another's, `UnknownVersion`; what the node log refuses it for.
    pub(crate) async fn claim(self, log: &Arc<dyn NodeLog>, folder: &Path) -> Result<()> {
        let folder = folder.display();
        if let Some(found) = log.group(GROUP).hard_state {
            let found = Self::decode(found)?;
            if found == self {
                return Ok(());
            }
            return Err(Error::corrupt(format!(
                "the node log in {folder} belongs to replica {} of node {}, and the folder to replica {} of node {}: parts of two \
                 data folders were mixed; {RESTORE}",
                found.replica, found.node, self.replica, self.node
            )));
        }
        let mut batch = LogBatch::new();
        batch.hard_state(GROUP, self.encode());
        LogStorage::new(log.clone(), GROUP).submit_durably(batch).await.map_err(|error| {
            Error::new(error_kind(&error), format!("the node log in {folder} could not be given its owner"))
                .with_source(error)
        })
    }

    pub(crate) fn encode(self) -> Bytes {
        let mut bytes = BytesMut::with_capacity(17);
        bytes.put_u8(LOG_OWNER.written());
        bytes.put_u64_le(self.node.0);
        bytes.put_u64_le(self.replica.0);
        bytes.freeze()
    }

    pub(crate) fn decode(bytes: Bytes) -> Result<Self> {
        let mut reader = Reader::new(&LOG_OWNER, bytes)?;
        let owner = Self { node: NodeId(reader.u64()?), replica: ReplicaId(reader.u64()?) };
        reader.end()?;
        Ok(owner)
    }
}
