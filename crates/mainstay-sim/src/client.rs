use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use mainstay_core::time::{self, Duration, Instant};
use mainstay_core::{ErrorKind, NodeId, PartitionId, SequenceNumber, random};
use mainstay_replica::Partition;
use parking_lot::Mutex;
use rand::RngExt as _;

use crate::cluster::Cluster;
use crate::event;

/// How long a client waits for a commit before it gives up without knowing.
const PATIENCE: Duration = Duration::from_secs(20);

/// One client: it writes numbers, one after the other, each under a key of its own and into a register, and reads the
/// register back.
#[derive(Debug)]
pub(crate) struct Client {
    pub id: u64,
    pub partition: PartitionId,
    pub history: Mutex<History>,
    cluster: Arc<Cluster>,
}

/// What a client knows about its writes.
#[derive(Debug, Default)]
pub(crate) struct History {
    pub outcomes: BTreeMap<u64, Outcome>,
    /// The newest number that is known to be in the register.
    pub known: u64,
    pub reads: u64,
    pub violation: Option<String>,
}

/// What became of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Acknowledged(SequenceNumber),
    Unknown,
    Refused,
}

impl Client {
    pub(crate) fn new(id: u64, cluster: Arc<Cluster>) -> Self {
        Self { id, partition: PartitionId(id % 3), history: Mutex::default(), cluster }
    }

    pub(crate) fn key(&self, number: u64) -> Bytes {
        Bytes::from(format!("c{}/{number:06}", self.id))
    }

    fn register(&self) -> Bytes {
        Bytes::from(format!("r{}", self.id))
    }

    /// Writes and reads until a moment.
    pub(crate) async fn run(self: Arc<Self>, until: Instant) {
        let mut at = NodeId(1);
        let mut number = 0;
        while time::now() < until {
            time::sleep(Duration::from_micros(random::rng().random_range(0..30_000))).await;
            let nodes = self.cluster.running();
            if nodes.is_empty() {
                continue;
            }
            if !nodes.contains(&at) || random::rng().random_bool(0.2) {
                at = nodes[random::rng().random_range(0..nodes.len())];
            }
            let Some(partition) = self.cluster.partition(at, self.partition) else { continue };
            let hint = if random::rng().random_bool(0.6) {
                number += 1;
                self.write(&partition, at, number).await
            } else {
                self.read(&partition, at)
            };
            at = hint.unwrap_or(at);
        }
    }

    /// One write; returns where the primary may be.
    pub(crate) async fn write(&self, partition: &Partition, at: NodeId, number: u64) -> Option<NodeId> {
        let padding = random::rng().random_range(0..self.cluster.scenario.value_bytes_max);
        let mut batch = partition.batch();
        let value = format!("{number:012}{}", "x".repeat(padding));
        batch.put(&self.key(number), value.as_bytes()).put(&self.register(), value.as_bytes());
        let result = time::timeout(PATIENCE, partition.commit(batch)).await;
        let (outcome, hint) = match &result {
            Ok(Ok(sequence)) => (Outcome::Acknowledged(*sequence), None),
            Ok(Err(error)) => match error.kind() {
                ErrorKind::NotPrimary { hint } => (Outcome::Refused, hint),
                ErrorKind::Overloaded => (Outcome::Refused, None),
                _ => (Outcome::Unknown, None),
            },
            Err(_) => (Outcome::Unknown, None),
        };
        event!(self.cluster.trace, "client {} wrote {number} at {at}: {outcome:?}", self.id);
        let mut history = self.history.lock();
        if let Outcome::Acknowledged(sequence) = outcome {
            history.known = number;
            let before = history.outcomes.values().filter_map(|outcome| match outcome {
                Outcome::Acknowledged(before) => Some(*before),
                _ => None,
            });
            if before.max().is_some_and(|before| before >= sequence) {
                let id = self.id;
                history.object(format!("client {id}: commit {number} got the number {sequence}, which is not new"));
            }
        }
        history.outcomes.insert(number, outcome);
        hint
    }

    fn read(&self, partition: &Partition, at: NodeId) -> Option<NodeId> {
        let value = match partition.get(&self.register()) {
            Ok(value) => value,
            Err(error) => match error.kind() {
                ErrorKind::NotPrimary { hint } => return hint,
                _ => {
                    event!(self.cluster.trace, "client {} could not read at {at}: {error:?}", self.id);
                    return None;
                }
            },
        };
        let found = number_in(value.as_deref());
        event!(self.cluster.trace, "client {} read {found} at {at}", self.id);
        let mut history = self.history.lock();
        history.reads += 1;
        let known = history.known;
        let plausible = found == known || (found > known && history.outcomes.get(&found) == Some(&Outcome::Unknown));
        if plausible {
            history.known = found;
        } else {
            let id = self.id;
            history.object(format!("client {id} read {found} at {at} although {known} was acknowledged before"));
        }
        None
    }
}

impl History {
    fn object(&mut self, what: String) {
        self.violation.get_or_insert(what);
    }
}

/// The number that a value starts with; 0 for none.
pub(crate) fn number_in(value: Option<&[u8]>) -> u64 {
    value
        .and_then(|value| value.get(..12))
        .and_then(|digits| std::str::from_utf8(digits).ok())
        .and_then(|digits| digits.parse().ok())
        .unwrap_or(0)
}
