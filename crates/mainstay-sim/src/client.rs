use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use mainstay_core::time::{self, Duration, Instant};
use mainstay_core::{ErrorKind, NodeId, PartitionId, Result, SequenceNumber, random};
use mainstay_replica::{Batch, Partition, Snapshot};
use parking_lot::Mutex;
use rand::RngExt as _;

use crate::cluster::Cluster;
use crate::event;
use crate::planted::PlantedBug;
use crate::shared::{SHARED, SharedHistory};

/// How long a client waits for a commit before it gives up without knowing.
const PATIENCE: Duration = Duration::from_secs(20);

/// How often a client that repeats what is unknown, as a planted bug, tries to.
const REPETITIONS_MAX: usize = 20;

/// The key of the counter that the clients of a partition add to.
pub(crate) const COUNTER: &[u8] = b"n";

/// One client. It writes numbers, one after the other, each under a key of its own and into a register of its own, and adds to
/// a counter in the same commits; it reads register and counter back. And it writes and reads registers that all clients share.
#[derive(Debug)]
pub(crate) struct Client {
    pub id: u64,
    pub partition: PartitionId,
    pub history: Mutex<History>,
    shared: Arc<Mutex<SharedHistory>>,
    cluster: Arc<Cluster>,
}

/// What a client knows about its writes.
#[derive(Debug, Default)]
pub(crate) struct History {
    pub outcomes: BTreeMap<u64, Outcome>,
    /// The newest number that is known to be in the register.
    pub known: u64,
    pub reads: u64,
    /// Reads and writes of shared registers that were answered for certain.
    pub shared: u64,
    pub violation: Option<String>,
}

/// What became of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Acknowledged(SequenceNumber),
    Unknown,
    GivenUp,
    Refused,
}

impl Client {
    pub(crate) fn new(id: u64, cluster: Arc<Cluster>, shared: Arc<Mutex<SharedHistory>>) -> Self {
        Self { id, partition: PartitionId(id % 3), history: Mutex::default(), shared, cluster }
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
            let Some(replica) = self.cluster.replica(at) else { continue };
            let own = replica.partition(self.partition);
            let common = replica.partition(SHARED);
            drop(replica);
            let register = random::rng().random_range(0..self.cluster.scenario.shared_registers);
            let is_full = self.shared.lock().is_full();
            let hint = match random::rng().random_range(0..100) {
                30..55 if !is_full => {
                    number += 1;
                    self.write_shared(&common, at, register, number).await
                }
                55..80 if !is_full => self.read_shared(&common, at, register),
                0..40 => {
                    number += 1;
                    self.write(&own, at, number).await
                }
                _ => self.read(&own, at),
            };
            at = hint.unwrap_or(at);
        }
    }

    /// One write of its own; returns where the primary may be.
    pub(crate) async fn write(&self, partition: &Partition, at: NodeId, number: u64) -> Option<NodeId> {
        let padding = random::rng().random_range(0..self.cluster.scenario.value_bytes_max);
        let mut batch = partition.batch();
        let value = format!("{number:012}{}", "x".repeat(padding));
        let delta = delta(number);
        batch.put(&self.key(number), value.as_bytes()).put(&self.register(), value.as_bytes()).add(COUNTER, delta);
        self.shared.lock().adds(self.partition, delta);
        let again = (self.cluster.bug == Some(PlantedBug::RepeatUnknown)).then(|| batch.clone());
        let (outcome, hint) = commit(partition, batch, PATIENCE).await;
        event!(self.cluster.trace, "client {} wrote {number} at {at}: {outcome:?}", self.id);
        match outcome {
            Outcome::Acknowledged(_) => self.shared.lock().added(self.partition, delta),
            Outcome::Refused => self.shared.lock().not_added(self.partition, delta),
            Outcome::Unknown | Outcome::GivenUp => {}
        }
        self.note(number, outcome);
        if let (Outcome::Unknown, Some(batch)) = (outcome, again) {
            self.repeat(batch).await;
        }
        hint
    }

    fn note(&self, number: u64, outcome: Outcome) {
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
    }

    /// The planted bug: what has no known outcome is committed once more.
    async fn repeat(&self, batch: Batch) {
        for _ in 0..REPETITIONS_MAX {
            time::sleep(Duration::from_millis(100)).await;
            let Some(primary) = self.cluster.primary() else { continue };
            if primary.partition(self.partition).commit(batch.clone()).await.is_ok() {
                return;
            }
        }
    }

    fn read(&self, partition: &Partition, at: NodeId) -> Option<NodeId> {
        let read = || {
            let snapshot = partition.read()?;
            Ok((number_in(&snapshot, &self.register())?, counter_in(&snapshot)?))
        };
        let (found, count) = match self.served(read(), at) {
            Ok(found) => found,
            Err(hint) => return hint,
        };
        event!(self.cluster.trace, "client {} read {found} and {count} at {at}", self.id);
        self.shared.lock().counted(self.partition, count, &format!("client {} at {at}", self.id));
        let mut history = self.history.lock();
        history.reads += 1;
        let known = history.known;
        let plausible = found == known
            || (found > known && matches!(history.outcomes.get(&found), Some(Outcome::Unknown | Outcome::GivenUp)));
        if plausible {
            history.known = found;
        } else {
            let id = self.id;
            history.object(format!("client {id} read {found} at {at} although {known} was acknowledged before"));
        }
        None
    }

    /// What was read, or where the primary may be.
    fn served<T>(&self, read: Result<T>, at: NodeId) -> std::result::Result<T, Option<NodeId>> {
        read.map_err(|error| match error.kind() {
            ErrorKind::NotPrimary { hint } => hint,
            kind => {
                event!(self.cluster.trace, "client {} could not read at {at}: {kind:?}", self.id);
                None
            }
        })
    }

    /// One write of a shared register; now and then without the patience to wait for its answer.
    async fn write_shared(&self, partition: &Partition, at: NodeId, register: u64, number: u64) -> Option<NodeId> {
        let value = (self.id + 1) * 1_000_000 + number;
        let mut batch = partition.batch();
        batch.put(&shared_key(register), format!("{value:012}").as_bytes());
        let patience = match random::rng().random_bool(0.15) {
            true => Duration::from_micros(random::rng().random_range(0..50_000)),
            false => PATIENCE,
        };
        self.shared.lock().call(register, value);
        let (outcome, hint) = commit(partition, batch, patience).await;
        event!(self.cluster.trace, "client {} wrote {value} to register {register} at {at}: {outcome:?}", self.id);
        let mut shared = self.shared.lock();
        match outcome {
            Outcome::Acknowledged(_) => shared.acknowledged(register, value),
            Outcome::Unknown => shared.unknown(register, value),
            // Whatever it was proposed in, it is not later than what the node knows of now.
            Outcome::GivenUp => shared.given_up(register, value, partition.role_state().epoch),
            Outcome::Refused => shared.refused(register, value),
        }
        self.history.lock().shared += u64::from(matches!(outcome, Outcome::Acknowledged(_)));
        hint
    }

    /// One read of a shared register.
    pub(crate) fn read_shared(&self, partition: &Partition, at: NodeId, register: u64) -> Option<NodeId> {
        let read = || {
            let snapshot = match self.cluster.bug {
                Some(PlantedBug::ReadAnywhere) => partition.snapshot()?,
                _ => partition.read()?,
            };
            Ok((number_in(&snapshot, &shared_key(register))?, snapshot.epoch()))
        };
        let (found, epoch) = match self.served(read(), at) {
            Ok(found) => found,
            Err(hint) => return hint,
        };
        event!(self.cluster.trace, "client {} read {found} from register {register} at {at}", self.id);
        self.shared.lock().read(register, found, epoch);
        self.history.lock().shared += 1;
        None
    }
}

/// Commits, and tells what became of it and where the primary may be.
async fn commit(partition: &Partition, batch: Batch, patience: Duration) -> (Outcome, Option<NodeId>) {
    match time::timeout(patience, partition.commit(batch)).await {
        Ok(Ok(sequence)) => (Outcome::Acknowledged(sequence), None),
        Ok(Err(error)) => match error.kind() {
            ErrorKind::NotPrimary { hint } => (Outcome::Refused, hint),
            ErrorKind::Overloaded => (Outcome::Refused, None),
            _ => (Outcome::Unknown, None),
        },
        Err(_) => (Outcome::GivenUp, None),
    }
}

impl History {
    fn object(&mut self, what: String) {
        self.violation.get_or_insert(what);
    }
}

/// What a commit adds to the counter, by its number.
pub(crate) fn delta(number: u64) -> i64 {
    (number % 7 + 1) as i64
}

fn shared_key(register: u64) -> Bytes {
    Bytes::from(format!("s{register}"))
}

/// The number that a value starts with; 0 for none.
fn number_in(snapshot: &Snapshot, key: &[u8]) -> Result<u64> {
    let value = snapshot.get(key)?;
    let digits = value.as_deref().and_then(|value| value.get(..12)).and_then(|digits| std::str::from_utf8(digits).ok());
    Ok(digits.and_then(|digits| digits.parse().ok()).unwrap_or(0))
}

/// What the counter of a partition has come to.
fn counter_in(snapshot: &Snapshot) -> Result<i64> {
    Ok(count(snapshot.get(COUNTER)?.as_deref()))
}

/// The number in a counter's value; 0 for none.
pub(crate) fn count(value: Option<&[u8]>) -> i64 {
    value.and_then(|value| value.try_into().ok()).map_or(0, i64::from_le_bytes)
}
