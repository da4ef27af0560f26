use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use mainstay_core::{
    ClusterId, Error, ErrorKind, NodeId, PartitionId, RESTORE, ReplicaId, Result, SequenceNumber, SetId, task, time,
};
use mainstay_store::log::NodeLog;
use mainstay_store::state::StateStore;
use openraft::async_runtime::watch::WatchReceiver as _;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use crate::activity::{SetActivity, Upkeep};
use crate::checkpoint_scheduler::CheckpointScheduler;
use crate::claim::Claims;
use crate::committer::{Commit, Committer, stopped};
use crate::election_watch::watch_for_elections;
use crate::inline_executor::InlineExecutor;
use crate::lease::Lease;
use crate::log_storage::LogStorage;
use crate::lost_voters::LostVoters;
use crate::members::MemberChanges;
use crate::message::{Envelope, Request, Response, answer_version};
use crate::network::Network;
use crate::options::ReplicaOptions;
use crate::partition::Partition;
use crate::progress::Progress;
use crate::quiescence::Participants;
use crate::quiet::quiet;
use crate::raft::{Member, Raft, Types};
use crate::receiver::Receiver;
use crate::retention::{Bounds, Retention};
use crate::role_state::{RoleState, RoleTracker};
use crate::senders::Senders;
use crate::state_machine::{Position, StateMachine};
use crate::transport::Transport;
use crate::unfinished::finish_changes;

/// How long one piece of a state may take to be sent and taken in.
pub(crate) const SNAPSHOT_CHUNK_TIMEOUT: time::Duration = time::Duration::from_secs(60);

/// For how many election timeouts a replica that gives no answer is still waited for before the log is cut behind it.
const SILENT_ELECTIONS_MAX: u32 = 2;

/// How long openraft may take to hear of a checkpoint, and how often it is told.
const ANNOUNCEMENT_TIMEOUT: time::Duration = time::Duration::from_secs(1);
const ANNOUNCEMENTS_MAX: usize = 10;

/// How long the tasks of a replica that stops may take to end; they only wait for their turn to be dropped.
const STOP_TIMEOUT: time::Duration = time::Duration::from_secs(5);

/// How long to wait after a checkpoint that failed.
const CHECKPOINT_RETRY: time::Duration = time::Duration::from_secs(1);

/// A node's copy of a replica set. Cheap to clone.
#[derive(Clone)]
pub struct Replica {
    pub(crate) inner: Arc<Inner>,
}

/// Which replica this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// The cluster that it belongs to: it has nothing to do with replicas of another.
    pub cluster: ClusterId,
    /// The set that it is a copy of.
    pub set: SetId,
    /// The replica's own id. It must never come back without what it has promised: a volatile replica has a new one after every
    /// start, a persisted one as soon as its log is lost.
    pub replica: ReplicaId,
    /// The node that it lives on.
    pub node: NodeId,
    /// How often what the set held was given up as lost: all replicas of a set have the same, and its epochs begin with it.
    pub data_loss: u32,
}

pub(crate) struct Inner {
    pub(crate) identity: Identity,
    pub(crate) options: ReplicaOptions,
    pub(crate) raft: Raft,
    pub(crate) log: LogStorage,
    pub(crate) progress: Arc<Progress>,
    pub(crate) store: Arc<dyn StateStore>,
    pub(crate) committer: Arc<Committer>,
    pub(crate) role_tracker: Arc<RoleTracker>,
    pub(crate) scheduler: Arc<CheckpointScheduler>,
    retention: Arc<Retention>,
    pub(crate) lost: Arc<LostVoters>,
    forgetful: Arc<Mutex<BTreeSet<ReplicaId>>>,
    upkeep: Arc<Upkeep>,
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) receiver: Receiver,
    senders: Senders,
    pub(crate) scope: task::Scope,
    pub(crate) member_changes: MemberChanges,
    pub(crate) claims: Arc<Claims>,
    pub(crate) participants: Arc<Participants>,
    /// The replica may stand for election: every lease that it may have had a part in has run out.
    may_stand: AtomicBool,
    /// Wakes the task that stands for election.
    pub(crate) election_nudge: Arc<Notify>,
    /// Held while a checkpoint is made: openraft hears of one at a time.
    checkpointing: tokio::sync::Mutex<()>,
}

/// A replica without a handle ends where it stands: nobody could stop it, and it would hold the log and the store for ever.
impl Drop for Inner {
    fn drop(&mut self) {
        self.scope.stop();
        self.role_tracker.retire();
    }
}

/// Stops the tasks of a replica that is being started, unless it has started.
struct StopOnDrop(Option<task::Scope>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        if let Some(scope) = &self.0 {
            scope.stop();
        }
    }
}

impl fmt::Debug for Replica {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replica").field("identity", &self.inner.identity).field("standing", &self.role_state()).finish()
    }
}

impl Inner {
    /// From now on the replica stands for election when it misses a primary.
    fn let_stand(&self) {
        self.may_stand.store(true, Ordering::Release);
        self.raft.runtime_config().elect(true);
        self.election_nudge.notify_one();
    }

    pub(crate) fn may_stand(&self) -> bool {
        self.may_stand.load(Ordering::Acquire)
    }
}

/// What a replica is and knows, for people and tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// Which replica this is.
    pub identity: Identity,
    /// Its role.
    pub role_state: RoleState,
    /// The replicas that vote, with their nodes.
    pub voters: BTreeMap<ReplicaId, NodeId>,
    /// The replicas that only learn.
    pub learners: BTreeMap<ReplicaId, NodeId>,
    /// The index after the last log entry.
    pub log_next: u64,
    /// The index after the last entry that was compacted away.
    pub log_first: u64,
    /// The index after the last entry applied.
    pub applied_next: u64,
    /// The replicas that lack entries which they had acknowledged to this one: their folder was replaced by an older copy, or
    /// their disk loses writes.
    pub forgetful: BTreeSet<ReplicaId>,
    /// Why the replica has stopped, if it has.
    pub failure: Option<String>,
}

impl Replica {
    /// Starts a replica on its part of a node log and its state store. A set that was never founded waits for
    /// [`bootstrap`](Replica::bootstrap) on one node, or to be taken in by [`join`](Replica::join).
    ///
    /// # Errors
    /// `Invalid` if options contradict each other; `Corrupt` or `UnknownVersion` if what is stored cannot be used, or the
    /// state and the log do not belong together.
    pub async fn start(
        identity: Identity,
        options: ReplicaOptions,
        log: Arc<dyn NodeLog>,
        store: Arc<dyn StateStore>,
        transport: Arc<dyn Transport>,
    ) -> Result<Self> {
        let log = LogStorage::of_set(log, identity.set);
        Self::start_on(identity, options, log, store, transport).await
    }

    /// Starts a replica on its part of a log that may have had others of the set.
    pub(crate) async fn start_on(
        identity: Identity,
        options: ReplicaOptions,
        log: LogStorage,
        store: Arc<dyn StateStore>,
        transport: Arc<dyn Transport>,
    ) -> Result<Self> {
        options.check()?;
        let scope = task::Scope::new();
        // On the heap: it is large, and who starts many replicas carries it along.
        let starting = Box::pin(quiet(Self::start_in(identity, options, log, store, transport, scope.clone())));
        // What runs already holds the log and the store, also where this is given up half way.
        let mut unless_started = StopOnDrop(Some(scope.clone()));
        let started = scope.enter(starting).await;
        if started.is_ok() {
            unless_started.0 = None;
        }
        started
    }

    async fn start_in(
        identity: Identity,
        options: ReplicaOptions,
        log_storage: LogStorage,
        store: Arc<dyn StateStore>,
        transport: Arc<dyn Transport>,
        scope: task::Scope,
    ) -> Result<Self> {
        let options = ReplicaOptions { checkpoint: options.checkpoint.staggered(identity.set), ..options };
        let lease = Arc::new(Lease::new(identity.set, identity.data_loss));
        let log_storage = log_storage.with_lease(identity.replica.0, lease.clone());
        log_storage.check()?;
        log_storage.check_joins(store.mark().index, &format!("the state of set {}", identity.set))?;
        let fresh = log_storage.is_pristine();
        if fresh && store.mark().index > 0 {
            return Err(log_lost(identity.set));
        }
        if let Some(state) = Position::from_mark(&store.mark())?.applied {
            log_storage.cut_to(state).await?;
        }
        let scheduler = Arc::new(CheckpointScheduler::new(options.checkpoint.bytes));
        for (index, bytes) in log_storage.lengths_before(store.mark().index)? {
            scheduler.logged(index + 1, bytes);
        }
        let progress = Arc::new(Progress::new(store.mark().index));
        let state_machine = StateMachine::new(store.clone(), scheduler.clone(), progress.clone())?;
        let upkeep = Arc::new(Upkeep::default());
        let retention = Arc::new(Retention::new(options.timing.election_timeout_max * SILENT_ELECTIONS_MAX));
        let lost = Arc::new(LostVoters::new(identity.set, identity.replica));
        let forgetful = Arc::<Mutex<BTreeSet<ReplicaId>>>::default();
        let network = Network {
            transport: transport.clone(),
            cluster: identity.cluster,
            set: identity.set,
            me: identity.replica,
            retention: retention.clone(),
            lost: lost.clone(),
            forgetful: forgetful.clone(),
            upkeep: upkeep.clone(),
        };
        let config = raft_config(identity.set, &options)?;
        let id = identity.replica.0;
        let executor = InlineExecutor::new(&scope);
        let raft = executor
            .gather(Raft::new(id, Arc::new(config), network, log_storage.clone(), state_machine))
            .await
            .map_err(|error| {
                Error::fatal(format!("cannot start the replica of set {}", identity.set)).with_source(error)
            })?;
        lost.follow(&raft);
        let committer = Arc::new(Committer::new(identity.set, options.commit.clone(), executor.clone()));
        let answering = Arc::downgrade(&committer);
        executor.after_each_round(move || {
            if let Some(committer) = answering.upgrade() {
                committer.answer();
            }
        });
        let (timing, applied) = (&options.timing, progress.clone());
        let role_tracker = Arc::new(RoleTracker::new(&identity, &raft, timing, committer.clone(), applied, lease));
        let receiver = Receiver::new(
            identity,
            raft.clone(),
            executor,
            (store.clone(), scheduler.clone(), log_storage.clone()),
            scope.clone(),
            fresh,
            &options,
        );
        let senders = Senders::new(identity, &raft);
        let inner = Inner {
            identity,
            options,
            raft,
            log: log_storage,
            progress,
            store,
            committer,
            role_tracker,
            scheduler,
            retention,
            lost,
            forgetful,
            upkeep,
            transport,
            receiver,
            senders,
            scope,
            member_changes: MemberChanges::default(),
            claims: Arc::default(),
            participants: Arc::default(),
            may_stand: AtomicBool::new(false),
            election_nudge: Arc::default(),
            checkpointing: tokio::sync::Mutex::default(),
        };
        let replica = Self { inner: Arc::new(inner) };
        replica.spawn_tasks();
        replica.stand_for_election_when_safe(fresh).await?;
        Ok(replica)
    }

    fn spawn_tasks(&self) {
        let inner = &self.inner;
        inner.scope.spawn(inner.committer.clone().run(inner.raft.clone()));
        inner.scope.spawn(quiet(inner.role_tracker.clone().run(inner.raft.clone())));
        inner.scope.spawn(quiet(housekeep(Arc::downgrade(inner))));
        inner.scope.spawn(quiet(finish_changes(Arc::downgrade(inner))));
        inner.scope.spawn(quiet(watch_for_elections(Arc::downgrade(inner))));
    }

    /// A replica that restarts has forgotten which primary it acknowledged last. It keeps out of elections until every
    /// lease that it may have had a part in has run out; a replica that is alone has promised nothing to anybody.
    async fn stand_for_election_when_safe(&self, fresh: bool) -> Result<()> {
        let raft = self.inner.raft.clone();
        let me = self.inner.identity.replica.0;
        let alone = raft
            .with_raft_state(move |state| state.membership_state.effective().voter_ids().eq([me]))
            .await
            .map_err(|error| self.stopped().with_source(error))?;
        if alone {
            self.inner.let_stand();
            return raft.trigger().elect(false).await.map_err(|error| self.stopped().with_source(error));
        }
        let pause = if fresh { time::Duration::ZERO } else { self.inner.options.timing.election_timeout_max };
        let inner = Arc::downgrade(&self.inner);
        self.inner.scope.spawn(async move {
            time::sleep(pause).await;
            if let Some(inner) = inner.upgrade() {
                inner.let_stand();
            }
        });
        Ok(())
    }

    /// Creates the set with its first replicas. To be called on one of them, once in the life of a set; on a set that
    /// exists it does nothing.
    ///
    /// # Errors
    /// `Invalid` if the members do not contain this replica.
    pub async fn bootstrap(&self, members: &BTreeMap<ReplicaId, NodeId>) -> Result<()> {
        if !members.contains_key(&self.inner.identity.replica) {
            return Err(Error::invalid(format!(
                "the first members of set {} must contain replica {}",
                self.inner.identity.set, self.inner.identity.replica
            )));
        }
        let initialized = quiet(self.inner.raft.is_initialized()).await.map_err(|e| self.stopped().with_source(e))?;
        if initialized {
            return Ok(());
        }
        let members: BTreeMap<u64, Member> = members.iter().map(|(id, node)| (id.0, Member { node: *node })).collect();
        quiet(self.inner.raft.initialize(members))
            .await
            .map_err(|e| Error::fatal(format!("cannot found set {}", self.inner.identity.set)).with_source(e))?;
        self.inner.let_stand();
        Ok(())
    }

    /// Says that the primary cannot be reached any more, as whoever carries the heartbeats sees before they are missed: the replica
    /// looks at once whether it is time to stand for election. It never is before the promise to that primary is over.
    pub fn primary_unreachable(&self) {
        self.inner.election_nudge.notify_one();
    }

    /// Tells the replica from which nodes requests are to be expected, beside those of the members that it knows: the nodes of the
    /// members that the set is going to have. It takes the place of what was told before. A replica that knows of no members yet
    /// takes requests from these alone.
    ///
    /// A replica whose log lacks the newest members knows the primary only by this. So it is to be told before the members are changed,
    /// and after each start.
    pub fn expect_members(&self, nodes: impl IntoIterator<Item = NodeId>) {
        self.inner.senders.expect(nodes.into_iter().collect());
    }

    /// Lets the replica take requests from any node of its cluster: for networks that nobody else can reach, such as one within
    /// a process.
    pub fn expect_anyone(&self) {
        self.inner.senders.expect_anyone();
    }

    /// Answers a request of another replica, which has come from a node. Whatever the bytes are, it answers and does not panic.
    pub async fn receive(&self, from: NodeId, request: Bytes) -> Bytes {
        let version = answer_version(&request);
        let response = match Envelope::decode(request) {
            Ok(envelope) => match (self.misdirected(from, &envelope), envelope.request) {
                (Some(refusal), _) => refusal,
                (None, Request::Join { replica, node, timing }) => self.take_in(replica, node, timing),
                (None, request) => quiet(self.inner.receiver.handle(request)).await,
            },
            Err(error) => Response::unread(&error),
        };
        response.encode(version)
    }

    /// The answer to a request that is not for this replica, or comes from who has no part in its set.
    fn misdirected(&self, from: NodeId, envelope: &Envelope) -> Option<Response> {
        let Identity { cluster, set, replica, node, .. } = self.inner.identity;
        if envelope.cluster != cluster {
            return Some(Response::Refused(format!(
                "node {node} belongs to cluster {cluster} and the request came from cluster {}: see that the address is that of a \
                 node of the same cluster, and that the data folder is",
                envelope.cluster
            )));
        }
        match (envelope.to, &envelope.request) {
            (None, Request::Join { .. }) => {}
            (None, _) => {
                return Some(Response::Refused(format!(
                    "a request to replica {replica} of set {set} on node {node} does not say which replica it is for"
                )));
            }
            // Whoever sends it: that a replica is gone is to be known by all who miss it.
            (Some(to), _) if to != replica => return Some(Response::WrongReplica(replica)),
            (Some(_), _) => {}
        }
        self.inner.senders.check(from, &envelope.request).err().map(Response::Refused)
    }

    /// A handle to one of the partitions that live in this set.
    pub fn partition(&self, id: PartitionId) -> Partition {
        Partition::replicated(id, self.clone())
    }

    /// Which replica this is.
    pub fn identity(&self) -> Identity {
        self.inner.identity
    }

    /// The role and epoch at this moment.
    pub fn role_state(&self) -> RoleState {
        self.inner.role_tracker.role_state()
    }

    /// Follows the role and epoch.
    pub fn watch(&self) -> watch::Receiver<RoleState> {
        self.inner.role_tracker.watch()
    }

    /// Makes the applied state durable now and cuts the log, as happens by itself by size and time.
    ///
    /// # Errors
    /// `StorageFull` or `Fatal` if the state could not be made durable; the replica goes on.
    pub async fn checkpoint(&self) -> Result<()> {
        checkpoint(&self.inner).await
    }

    /// What this replica is and knows.
    pub fn status(&self) -> Status {
        // First, because it looks at the same metrics, which must not be borrowed twice.
        let failure = self.inner.role_tracker.failure();
        let metrics = self.inner.raft.metrics();
        let metrics = metrics.borrow_watched();
        let membership = metrics.membership_config.membership();
        let voting: BTreeSet<u64> = membership.voter_ids().collect();
        let (voters, learners): (Vec<_>, Vec<_>) = membership
            .nodes()
            .map(|(id, member)| (ReplicaId(*id), member.node))
            .partition(|(id, _)| voting.contains(&id.0));
        Status {
            identity: self.inner.identity,
            role_state: self.role_state(),
            voters: voters.into_iter().collect(),
            learners: learners.into_iter().collect(),
            log_next: metrics.last_log_index.map_or(0, |index| index + 1),
            log_first: metrics.purged.map_or(0, |id| id.index + 1),
            applied_next: metrics.last_applied.map_or(0, |id| id.index + 1),
            forgetful: self.inner.forgetful.lock().clone(),
            failure,
        }
    }

    /// Why it has stopped, if it did so by itself: nothing of its set is served or committed here until the node is restarted.
    pub fn failure(&self) -> Option<String> {
        self.inner.role_tracker.broken()
    }

    /// The store with all partitions of the set.
    pub fn store(&self) -> &Arc<dyn StateStore> {
        &self.inner.store
    }

    /// Stops the replica. What was acknowledged is durable already; commits in flight end as `OutcomeUnknown`.
    pub async fn stop(&self) {
        // A checkpoint that is being written holds the store until it is done.
        let _alone = self.inner.checkpointing.lock().await;
        // Openraft only fails to stop if its task has panicked, and then it has stopped.
        drop(quiet(self.inner.raft.shutdown()).await);
        self.inner.role_tracker.retire();
        self.inner.scope.stop();
        // Afterwards only handles hold the log and the store.
        let _ = time::timeout(STOP_TIMEOUT, self.inner.scope.ended()).await;
    }

    /// Stops every task of the replica where it stands, as a crash would.
    pub fn kill(&self) {
        self.inner.scope.stop();
        self.inner.role_tracker.retire();
    }

    pub(crate) async fn commit(&self, commit: Commit) -> Result<SequenceNumber> {
        let unsaved = self.inner.scheduler.unsaved();
        if unsaved > self.inner.options.checkpoint.unsaved_bytes_max {
            self.inner.committer.count_throttled();
            return Err(Error::new(
                ErrorKind::Overloaded,
                format!(
                    "{unsaved} bytes of set {} wait for a checkpoint (limit {}): the disk is behind, slow down and retry",
                    self.inner.identity.set, self.inner.options.checkpoint.unsaved_bytes_max
                ),
            ));
        }
        self.inner.log.check_space().inspect_err(|_| self.inner.committer.count_throttled())?;
        self.inner.committer.commit(commit).await
    }

    /// What it has done since it was started.
    pub fn activity(&self) -> SetActivity {
        let Inner { store, upkeep, scheduler, committer, .. } = &*self.inner;
        let (unsaved_bytes, held) = (scheduler.unsaved(), store.checkpointed_counts());
        upkeep.over(SetActivity { unsaved_bytes, held, ..committer.activity() })
    }

    pub(crate) fn stopped(&self) -> Error {
        let why = self.status().failure.unwrap_or_else(|| "it was shut down".to_owned());
        stopped(self.inner.identity.set, &why)
    }
}

/// A vote is durable before the first entry or state of another replica is taken in, so that a state never comes before a log.
fn log_lost(set: SetId) -> Error {
    Error::corrupt(format!(
        "set {set} has a state but nothing in its log, not even a vote: the log was lost or is that of another node; \
         {RESTORE}"
    ))
}

fn raft_config(set: SetId, options: &ReplicaOptions) -> Result<openraft::Config> {
    let timing = &options.timing;
    openraft::Config {
        cluster_name: set.to_string(),
        heartbeat_interval: timing.heartbeat.as_millis() as u64,
        election_timeout_min: timing.election_timeout_min.as_millis() as u64,
        election_timeout_max: timing.election_timeout_max.as_millis() as u64,
        // Elections start when it is safe, see `stand_for_election_when_safe`.
        enable_elect: false,
        enable_pre_vote: Some(true),
        // A leader that restarts must not go on in its old term: it may have lost entries that it sent but not synced.
        enable_leader_restore: Some(false),
        // Checkpoints and compaction follow sizes in bytes, which openraft does not know.
        snapshot_policy: openraft::SnapshotPolicy::Never,
        max_in_snapshot_log_to_keep: u64::MAX,
        install_snapshot_timeout: SNAPSHOT_CHUNK_TIMEOUT.as_millis() as u64,
        replication_lag_threshold: u64::MAX,
        // A voter whose folder was replaced by an older copy lacks what it has acknowledged. It gets that again, and `Peer` tells
        // of it; openraft would stop the primary instead.
        allow_log_reversion: Some(true),
        // A primary that is to leave hands over before the change is carried out (`Replica::change_members`). Should one find
        // itself without a vote all the same, it serves nothing (`RoleTracker`), and another must take over: after a heartbeat,
        // by which the others hear that the change is committed.
        removed_leader_step_down: openraft::StepDownPolicy::After(timing.heartbeat.as_millis() as u64),
        ..openraft::Config::default()
    }
    .validate()
    .map_err(|error| Error::invalid(format!("the timing of set {set} cannot work")).with_source(error))
}

/// Makes checkpoints by size and by time, and cuts the log after them.
async fn housekeep(inner: std::sync::Weak<Inner>) {
    loop {
        let Some((scheduler, store, interval)) = inner
            .upgrade()
            .map(|inner| (inner.scheduler.clone(), inner.store.clone(), inner.options.checkpoint.interval))
        else {
            return;
        };
        scheduler.anything_unsaved(|| store.mark() == store.checkpointed()).await;
        // By size or by time, whichever comes first.
        let _ = time::timeout(interval, scheduler.checkpoint_due()).await;
        let Some(inner) = inner.upgrade() else { return };
        if inner.store.mark() == inner.store.checkpointed() {
            // A snapshot from another replica, say, has made it unnecessary.
            inner.scheduler.checkpoint_done(inner.store.unsaved_bytes());
        } else if let Err(error) = checkpoint(&inner).await {
            tracing::error!(set = %inner.identity.set, %error, "no checkpoint could be made; it will be tried again");
            time::sleep(CHECKPOINT_RETRY).await;
            inner.scheduler.checkpoint_done(inner.store.unsaved_bytes());
        }
    }
}

async fn checkpoint(inner: &Inner) -> Result<()> {
    let _alone = inner.checkpointing.lock().await;
    let (store, unsaved, began) = (inner.store.clone(), inner.store.unsaved_bytes(), time::now());
    let durable = task::blocking(move || store.checkpoint()).await?;
    inner.upkeep.saved(unsaved, time::now().saturating_duration_since(began));
    inner.scheduler.announce_checkpoint(durable.clone());
    inner.scheduler.checkpoint_done(inner.store.unsaved_bytes());
    tell_openraft(inner, durable.index).await?;
    cut_log(inner, durable.index).await
}

/// Cuts the log at or before a checkpoint. A part before it stays for who lags a little, and more for who is being
/// caught up, but not more than the state is large: then the state is the shorter way.
async fn cut_log(inner: &Inner, checkpoint: u64) -> Result<()> {
    let Inner { scheduler, retention, options, .. } = inner;
    let keep = options.checkpoint.log_keep_bytes;
    let Some(wanted) = scheduler.compactable(checkpoint, keep) else { return Ok(()) };
    let patience = inner.store.checkpointed_counts().bytes.max(options.checkpoint.bytes);
    let floor = scheduler.compactable(checkpoint, keep.saturating_add(patience)).unwrap_or(0);
    let bounds = Bounds { first: inner.log.first(), floor, wanted };
    let others = retention.places(&inner.raft.data_metrics().borrow_watched());
    let cut = retention.cut(bounds, &others);
    if let Some(last) = cut.checked_sub(1) {
        inner.raft.trigger().purge_log(last).await.map_err(|e| fatal(inner, &e))?;
    }
    retention.is_cut(cut);
    scheduler.forget_before(floor);
    Ok(())
}

/// Lets openraft know that the state is durable up to an index. It does not listen while it is still busy with an
/// announcement before, so that it is told again.
async fn tell_openraft(inner: &Inner, durable: u64) -> Result<()> {
    let mut data = inner.raft.data_metrics();
    for _ in 0..ANNOUNCEMENTS_MAX {
        inner.raft.trigger().snapshot().await.map_err(|e| fatal(inner, &e))?;
        let heard = async {
            while data.borrow_watched().snapshot.map_or(0, |id| id.index + 1) < durable {
                data.changed().await.map_err(|_| stopped(inner.identity.set, "it was shut down"))?;
            }
            Ok(())
        };
        if let Ok(heard) = time::timeout(ANNOUNCEMENT_TIMEOUT, heard).await {
            return heard;
        }
    }
    Err(Error::new(
        ErrorKind::Timeout,
        format!(
            "the state of set {} is durable up to {durable}, but its log could not be cut: the next checkpoint tries again",
            inner.identity.set
        ),
    ))
}

fn fatal(inner: &Inner, error: &openraft::errors::Fatal<Types>) -> Error {
    stopped(inner.identity.set, &error.to_string())
}
