use std::sync::Arc;

use mainstay_core::{Epoch, NodeId, Result, SequenceNumber, SetId};
use mainstay_store::state::{Mark, MemoryStore, StateStore, WriteBatch};
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::claim::Claims;
use crate::committer::{not_primary, too_large};
use crate::standing::{Role, Standing};

/// There is one primary for as long as the node lives, and so one epoch.
const EPOCH: Epoch = Epoch(1);

/// The set of a node's partitions of level none: no log and no peers, a commit is an apply.
#[derive(Debug)]
pub(crate) struct LocalSet {
    id: SetId,
    store: MemoryStore,
    commit_bytes_max: usize,
    claims: Arc<Claims>,
    next: Mutex<u64>,
    standing: watch::Sender<Standing>,
}

impl LocalSet {
    pub(crate) fn new(id: SetId, node: NodeId, commit_bytes_max: usize) -> Self {
        let standing = Standing { role: Role::Primary, epoch: EPOCH, primary: Some(node) };
        Self {
            id,
            store: MemoryStore::new(),
            commit_bytes_max,
            claims: Arc::default(),
            next: Mutex::new(1),
            standing: watch::Sender::new(standing),
        }
    }

    pub(crate) fn id(&self) -> SetId {
        self.id
    }

    pub(crate) fn store(&self) -> &dyn StateStore {
        &self.store
    }

    pub(crate) fn claims(&self) -> &Arc<Claims> {
        &self.claims
    }

    pub(crate) fn standing(&self) -> Standing {
        *self.standing.borrow()
    }

    pub(crate) fn watch(&self) -> watch::Receiver<Standing> {
        self.standing.subscribe()
    }

    pub(crate) fn commit(&self, batches: &[WriteBatch], epoch: Option<Epoch>) -> Result<SequenceNumber> {
        if epoch.is_some_and(|epoch| epoch != EPOCH) {
            return Err(not_primary(self.id, self.standing().primary));
        }
        let bytes: usize = batches.iter().map(|batch| batch.as_bytes().len()).sum();
        if bytes > self.commit_bytes_max {
            return Err(too_large(bytes, self.commit_bytes_max));
        }
        let mut next = self.next.lock();
        let mark = Mark { index: *next, note: bytes::Bytes::new() };
        let sequence = SequenceNumber(*next);
        self.store.apply(mark, &mut batches.iter().flat_map(|batch| batch.stamped(sequence.0)))?;
        *next += 1;
        Ok(sequence)
    }
}
