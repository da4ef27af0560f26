//! How replicas come to a node and leave it.
//!
//! What the folder says of a persisted replica goes first: it says *creating* before anything of the replica is made, and *live*
//! before it takes part in anything; it says *dropping* before anything is removed, and has a tombstone when all of it is. So a
//! crash at any moment leaves a folder from which the rest can be done, and the next start does it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use mainstay_core::{Epoch, Error, ErrorKind, Level, ReplicaId, Result, SetId};
use mainstay_store::log::{GroupId, LogBatch, NodeLog};
use mainstay_store::state::{MemoryStore, StateStore};

use super::NodeReplicas;
use super::folder::{open_store, remove_replica};
use crate::identity::{NodeIdentity, Phase, ReplicaRecord};
use crate::local::LocalSet;
use crate::log_storage::LogStorage;
use crate::replica::{Identity, Replica};

/// How many persisted replicas a folder has room for.
const REPLICAS_MAX: usize = u16::MAX as usize;

/// A replica to be created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplicaSpec {
    /// The set that it is to be a copy of.
    pub set: SetId,
    /// Its id, which no other replica of the cluster has or had.
    pub replica: ReplicaId,
    /// The data-loss number of the set: of a volatile set, its incarnation.
    pub data_loss: u32,
}

/// What is to be done about a replica that was asked for.
enum Step {
    /// It is there.
    Nothing(Replica),
    /// The folder has it already, and it does not run.
    Start,
    Record,
}

impl NodeReplicas {
    /// Creates a replica and starts it. It belongs to no configuration yet: a set is created by [`Replica::bootstrap`] on one of its
    /// replicas, or takes it in by [`Replica::set_members`] on its primary. One that is there already, the same by all parts of
    /// the spec, is returned.
    ///
    /// A persisted replica is recorded in the data folder, and comes back with it until it is [dropped](NodeReplicas::drop_replica). A
    /// volatile one ends with the process, and its id with it.
    ///
    /// # Errors
    /// `Invalid` for level none, for an id that was used on this node before, or for another data-loss number than the replica has;
    /// `Conflict` if the node has another replica of the set; `StorageFull` or `Fatal` if the disk fails, and then there is no replica.
    pub async fn create_replica(&self, spec: ReplicaSpec) -> Result<Replica> {
        let this = self.clone();
        let mut created = self.carry_out(async move { this.create_all(&[spec], Ids::Given).await }).await?;
        created.pop().ok_or_else(|| self.not_here(spec.set))
    }

    /// Drops a replica: stops it, removes what the node has of it, and sees to it that its id is not used here again. One that is not
    /// there, any more or ever, is fine. The members of the set are not changed by this: the primary is to remove it first.
    ///
    /// # Errors
    /// `StorageFull` or `Fatal` if the disk fails. The replica does not run then, and the rest is done by the next call, or when the
    /// folder is opened again.
    pub async fn drop_replica(&self, set: SetId, replica: ReplicaId) -> Result<()> {
        let this = self.clone();
        self.carry_out(async move { this.drop_one(set, replica).await }).await
    }

    /// Carries something out to its end even if the caller goes away.
    async fn carry_out<T: Send + 'static>(&self, work: impl Future<Output = Result<T>> + Send + 'static) -> Result<T> {
        self.inner.scope.spawn(work).await.unwrap_or_else(|_| Err(self.has_stopped()))
    }

    /// Creates replicas, of which all or none are there afterwards.
    pub(crate) async fn create_all(&self, specs: &[ReplicaSpec], ids: Ids) -> Result<Vec<Replica>> {
        let mut identity = self.inner.identity.lock().await;
        if self.inner.running.read().is_stopped {
            return Err(self.has_stopped());
        }
        for spec in specs {
            self.finish_drops(&mut identity, spec.set).await?;
        }
        let steps = specs.iter().map(|spec| self.next_step(&identity, *spec)).collect::<Result<Vec<_>>>()?;
        identity.change(&*self.inner.disk, &self.inner.folder, |next| {
            for (spec, _) in specs.iter().zip(&steps).filter(|(_, step)| matches!(step, Step::Record)) {
                match spec.set.level {
                    Level::Persisted => next.add(spec.set, spec.replica, spec.data_loss),
                    // What it promises ends with the process.
                    _ if ids == Ids::Given => next.bury(spec.set, spec.replica),
                    _ => {}
                }
            }
        })?;
        match self.start_all(&mut identity, specs, &steps).await {
            Ok(replicas) => Ok(replicas),
            Err(error) => {
                self.undo(&mut identity, specs, &steps).await;
                Err(error)
            }
        }
    }

    fn next_step(&self, identity: &NodeIdentity, spec: ReplicaSpec) -> Result<Step> {
        let ReplicaSpec { set, replica, data_loss } = spec;
        let node = self.inner.node;
        if set.level == Level::None {
            return Err(Error::invalid(format!("set {set} is of level none, which has no replicas")));
        }
        if data_loss > Epoch::DATA_LOSS_MAX {
            return Err(Error::invalid(format!(
                "replica {replica} of set {set} has the data-loss number {data_loss}, and an epoch has room for {} at most",
                Epoch::DATA_LOSS_MAX
            )));
        }
        let other_data_loss = |recorded: u32| {
            Error::invalid(format!(
                "replica {replica} of set {set} is on node {node} with the data-loss number {recorded}, not {data_loss}: a replica \
                 keeps its number, create one with a new id"
            ))
        };
        let taken = |other: ReplicaId| {
            Error::new(
                ErrorKind::Conflict,
                format!(
                    "node {node} has replica {other} of set {set}, and holds one of a set: drop that before {replica} is created"
                ),
            )
        };
        if let Some(running) = self.replica(set) {
            return match running.identity() {
                here if here.replica != replica => Err(taken(here.replica)),
                here if here.data_loss != data_loss => Err(other_data_loss(here.data_loss)),
                _ => Ok(Step::Nothing(running)),
            };
        }
        if let Some((other, record)) = identity.of_set(set).next() {
            return match record {
                _ if other != replica => Err(taken(other)),
                record if record.data_loss != data_loss => Err(other_data_loss(record.data_loss)),
                _ => Ok(Step::Start),
            };
        }
        if identity.is_buried(set, replica) {
            return Err(Error::invalid(format!(
                "replica {replica} of set {set} was on node {node} before, and no id is used twice: create one with a new id"
            )));
        }
        if set.level == Level::Persisted && identity.replicas.len() >= REPLICAS_MAX {
            return Err(Error::new(
                ErrorKind::Overloaded,
                format!("node {node} has {REPLICAS_MAX} replicas, which is as many as it can: drop one first"),
            ));
        }
        Ok(Step::Record)
    }

    async fn start_all(
        &self,
        identity: &mut NodeIdentity,
        specs: &[ReplicaSpec],
        steps: &[Step],
    ) -> Result<Vec<Replica>> {
        let mut started = Vec::new();
        let fail = |error, started: &[Replica]| {
            started.iter().for_each(Replica::kill);
            Err(error)
        };
        let mut replicas = Vec::new();
        for (spec, step) in specs.iter().zip(steps) {
            if let Step::Nothing(replica) = step {
                replicas.push(replica.clone());
                continue;
            }
            match self.start(identity, *spec).await {
                Ok(replica) => {
                    started.push(replica.clone());
                    replicas.push(replica);
                }
                Err(error) => return fail(error, &started),
            }
        }
        // Before they take part in anything.
        let live = |next: &mut NodeIdentity| {
            specs.iter().for_each(|spec| next.set_phase(spec.set, spec.replica, Phase::Live));
        };
        if let Err(error) = identity.change(&*self.inner.disk, &self.inner.folder, live) {
            return fail(error, &started);
        }
        if !self.admit(&started) {
            return fail(self.has_stopped(), &started);
        }
        Ok(replicas)
    }

    /// Starts a replica of which the folder says that it is to be there. It takes part in nothing yet.
    async fn start(&self, identity: &NodeIdentity, spec: ReplicaSpec) -> Result<Replica> {
        let ReplicaSpec { set, replica, data_loss } = spec;
        let inner = &self.inner;
        let identity_of_replica = Identity { cluster: inner.cluster, set, replica, node: inner.node, data_loss };
        let (log, store) = match identity.replicas.get(&(set, replica)) {
            Some(record) => {
                let log = self.log_of(record.group);
                let shares = inner.options.cache_shares(identity.replicas.len());
                let disk = inner.disk.clone();
                let store = open_store(disk, &inner.folder, identity_of_replica, &log, &inner.options, shares)?;
                (log, store)
            }
            None => {
                let group = GroupId(inner.next_volatile_group.fetch_add(1, Ordering::Relaxed));
                let store: Arc<dyn StateStore> = Arc::new(MemoryStore::new());
                (LogStorage::new(inner.memory_log.clone(), group), store)
            }
        };
        let options = inner.options.replica.clone();
        Replica::start_on(identity_of_replica, options, log, store, inner.transport.clone()).await
    }

    /// Lets replicas take part; false if the node has been stopped meanwhile.
    fn admit(&self, replicas: &[Replica]) -> bool {
        let mut running = self.inner.running.write();
        if running.is_stopped {
            return false;
        }
        for replica in replicas {
            let set = replica.identity().set;
            if set.level == Level::Persisted {
                let id = SetId { level: Level::None, number: set.number };
                let commit_bytes_max = self.inner.options.replica.commit.commit_bytes_max;
                // It follows the role of the persisted set of its number.
                running.local.insert(set.number, LocalSet::following(id, replica, commit_bytes_max));
            }
            running.replicas.insert(set, replica.clone());
        }
        true
    }

    /// Removes what was recorded and made of replicas that could not be started. What cannot be removed now stays recorded, and
    /// is taken up by the next attempt or start.
    async fn undo(&self, identity: &mut NodeIdentity, specs: &[ReplicaSpec], steps: &[Step]) {
        for (spec, _) in specs.iter().zip(steps).filter(|(_, step)| matches!(step, Step::Record)) {
            let Some(record) = identity.replicas.get(&(spec.set, spec.replica)).copied() else { continue };
            let undone = match self.remove_parts(spec.set, record).await {
                Ok(()) => identity.change(&*self.inner.disk, &self.inner.folder, |next| {
                    next.replicas.remove(&(spec.set, spec.replica));
                }),
                Err(error) => Err(error),
            };
            if let Err(error) = undone {
                let ReplicaSpec { set, replica, .. } = *spec;
                tracing::warn!(%set, %replica, %error, "what was made of a replica that could not be started stays for now");
            }
        }
    }

    async fn drop_one(&self, set: SetId, replica: ReplicaId) -> Result<()> {
        let mut identity = self.inner.identity.lock().await;
        if self.inner.running.read().is_stopped {
            return Err(self.has_stopped());
        }
        identity.change(&*self.inner.disk, &self.inner.folder, |next| match next.replicas.get(&(set, replica)) {
            Some(_) => next.set_phase(set, replica, Phase::Dropping),
            // Not even a request to create it that comes late brings it here.
            None => next.bury(set, replica),
        })?;
        let (leaving, local) = {
            let mut running = self.inner.running.write();
            let is_it = running.replicas.get(&set).is_some_and(|running| running.identity().replica == replica);
            let leaving = if is_it { running.replicas.remove(&set) } else { None };
            let local = if is_it && set.level == Level::Persisted { running.local.remove(&set.number) } else { None };
            (leaving, local)
        };
        if let Some(local) = local {
            local.stop();
        }
        if let Some(leaving) = leaving {
            leaving.stop().await;
            if set.level == Level::Volatile {
                leaving.forget_log().await;
            }
        }
        self.finish_drops(&mut identity, set).await
    }

    /// Does the rest for the replicas of a set that are being dropped, and do not run any more.
    async fn finish_drops(&self, identity: &mut NodeIdentity, set: SetId) -> Result<()> {
        let going: Vec<_> = identity.of_set(set).filter(|(_, record)| record.phase == Phase::Dropping).collect();
        for (replica, record) in going {
            self.remove_parts(set, record).await?;
            identity.change(&*self.inner.disk, &self.inner.folder, |next| next.bury(set, replica))?;
        }
        Ok(())
    }

    async fn remove_parts(&self, set: SetId, record: ReplicaRecord) -> Result<()> {
        remove_replica(&*self.inner.disk, &self.inner.folder, set, &self.log_of(record.group)).await
    }

    /// Takes up what the folder says: starts its replicas, and ends what was begun.
    pub(super) async fn take_up(&self) -> Result<()> {
        let mut identity = self.inner.identity.lock().await;
        let going = |record: &ReplicaRecord| record.phase == Phase::Dropping;
        let gone: Vec<SetId> =
            identity.replicas.iter().filter(|(_, record)| going(record)).map(|((set, _), _)| *set).collect();
        for set in gone {
            self.finish_drops(&mut identity, set).await?;
        }
        let spec = |((set, replica), record): (&(SetId, ReplicaId), &ReplicaRecord)| ReplicaSpec {
            set: *set,
            replica: *replica,
            data_loss: record.data_loss,
        };
        let specs: Vec<ReplicaSpec> = identity.replicas.iter().map(spec).collect();
        let steps: Vec<Step> = specs.iter().map(|_| Step::Start).collect();
        self.start_all(&mut identity, &specs, &steps).await.map(drop)
    }

    fn log_of(&self, group: GroupId) -> LogStorage {
        let log: Arc<dyn NodeLog> = self.inner.log.clone();
        LogStorage::new(log, group)
    }

    fn has_stopped(&self) -> Error {
        Error::fatal(format!("node {} has stopped", self.inner.node))
    }
}

/// Where the ids of replicas that are created come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ids {
    /// From others, who may give one twice by mistake.
    Given,
    /// Drawn at random for this very start.
    Drawn,
}

impl Replica {
    /// Gives back what a log in memory holds of a replica that was stopped.
    async fn forget_log(&self) {
        let mut batch = LogBatch::new();
        batch.remove(self.inner.log.group());
        if let Err(error) = self.inner.log.submit_durably(batch).await {
            tracing::warn!(set = %self.identity().set, %error, "the log of a replica that was dropped stays in memory");
        }
    }
}
