use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use mainstay_core::time::BootTime;
use mainstay_core::{Epoch, Error, NodeId, Result, SetId, time};
use openraft::async_runtime::watch::WatchReceiver as _;
use openraft::metrics::RaftMetrics;
use openraft::{Instant as _, ServerState};
use parking_lot::Mutex;

use crate::committer::not_primary;
use crate::raft::{Membership, Raft, Types, Watched};

/// In the place of an epoch or a node: none. No set comes that far.
const NONE: u64 = u64::MAX;

/// Until when a replica may answer as primary without asking the others, and in which epoch: read without a lock by all who are
/// about to answer.
///
/// A replica that is alone has no deadline and reads no clock. For others the deadline is by the boot clock, so that a machine
/// that was suspended, or a process that was stopped for a while, finds it passed. It is renewed by the first who finds it
/// passed, from what openraft has heard of a quorum since.
pub(crate) struct Lease {
    set: SetId,
    /// The upper part of the epochs of the set.
    data_loss: u32,
    /// The epoch in which the replica is primary and a quorum by itself.
    unlimited_in: AtomicU64,
    /// The epoch in which the replica is primary.
    held_in: AtomicU64,
    /// The deadline, on the boot clock.
    until: AtomicU64,
    /// The node of the primary, for those who are refused.
    hint: AtomicU64,
    renewal: OnceLock<Renewal>,
    suspension: Mutex<Suspension>,
    /// The members of the set by the newest entry of the log that says so. Openraft tells of them later than it appends that entry.
    members: Mutex<Option<Members>>,
}

/// What a lease is renewed from.
struct Renewal {
    metrics: Watched<RaftMetrics<Types>>,
    length: time::Duration,
}

/// For how long the machine had been suspended at some moment.
struct Suspension {
    seen_at: time::Instant,
    suspended: time::Duration,
}

/// What the members of a set are to one replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Members {
    /// The place in the log of the entry after the one that says so.
    next_index: u64,
    /// The replica is a quorum by itself.
    pub(crate) is_alone: bool,
    /// The replica is among the voters, or among the old or the new ones of a change that is under way.
    pub(crate) has_vote: bool,
}

impl Members {
    /// Those of an entry of the log.
    pub(crate) fn new(index: Option<u64>, membership: &Membership, me: u64) -> Self {
        let config = membership.get_joint_config();
        Self {
            next_index: index.map_or(0, |index| index + 1),
            is_alone: !config.is_empty() && config.iter().all(|voters| voters.len() == 1 && voters.contains(&me)),
            // Openraft lets a leader without a vote go on until another takes over, and tells that other to stand for election
            // itself (`removed_leader_step_down`): a candidate that the leader has sent is elected in the midst of the leader's
            // lease. So a leader without a vote is not primary.
            has_vote: config.iter().any(|voters| voters.contains(&me)),
        }
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease").field("set", &self.set).field("held", &self.check()).finish()
    }
}

impl Lease {
    /// One that nobody holds.
    pub(crate) fn new(set: SetId, data_loss: u32) -> Self {
        Self {
            set,
            data_loss,
            unlimited_in: AtomicU64::new(NONE),
            held_in: AtomicU64::new(NONE),
            until: AtomicU64::new(0),
            hint: AtomicU64::new(NONE),
            renewal: OnceLock::new(),
            suspension: Mutex::new(Suspension { suspended: time::suspended(), seen_at: time::now() }),
            members: Mutex::new(None),
        }
    }

    /// From now on it is renewed by what a replica hears of a quorum.
    pub(crate) fn follow(&self, raft: &Raft, length: time::Duration) {
        // A lease belongs to one replica.
        let _ = self.renewal.set(Renewal { metrics: raft.metrics(), length });
    }

    /// The epoch, if the replica is primary and may answer at this moment.
    #[inline]
    pub(crate) fn check(&self) -> Option<Epoch> {
        let epoch = Epoch(self.held_in.load(Ordering::Acquire));
        (epoch.0 != NONE && self.is_held_in(epoch)).then_some(epoch)
    }

    /// True if the replica is primary in this epoch and may answer at this moment.
    #[inline]
    pub(crate) fn is_held_in(&self, epoch: Epoch) -> bool {
        // An epoch never comes back, so that one look is enough.
        self.unlimited_in.load(Ordering::Acquire) == epoch.0 || self.is_held_by_the_clock(epoch)
    }

    #[inline(never)]
    fn is_held_by_the_clock(&self, epoch: Epoch) -> bool {
        let is_primary = || self.held_in.load(Ordering::Acquire) == epoch.0;
        if !is_primary() {
            return false;
        }
        let until = BootTime::from_nanos(self.until.load(Ordering::Acquire));
        // The epoch again, because the deadline may be that of a later one.
        (time::boot() < until || self.renew(epoch).is_some()) && is_primary()
    }

    /// Moves the deadline to where the acknowledgements of a quorum allow. Returns it by the monotonic clock, unless it has
    /// passed or this replica leads in another epoch.
    pub(crate) fn renew(&self, epoch: Epoch) -> Option<time::Instant> {
        let Renewal { metrics, length } = self.renewal.get()?;
        let sent = {
            let mut seen = self.suspension.lock();
            // In this order, so that none of the moments is taken for a later one than it is.
            let suspended = time::suspended();
            let now = time::now();
            if suspended > seen.suspended {
                *seen = Suspension { seen_at: now, suspended };
            }
            let metrics = metrics.borrow_watched();
            if metrics.state != ServerState::Leader || Epoch::new(self.data_loss, metrics.current_term) != epoch {
                return None;
            }
            let sent = now.checked_sub(metrics.last_quorum_acked?.elapsed())?;
            // What was sent before a suspension became known may have been sent before all of it.
            (sent >= seen.seen_at).then_some((sent, seen.suspended))
        };
        let (sent, suspended) = sent?;
        let until = BootTime::of(sent, suspended).saturating_add(*length);
        self.until.fetch_max(until.as_nanos(), Ordering::AcqRel);
        (time::boot() < until).then(|| sent + *length)
    }

    /// The newest members that are known, if openraft tells of these.
    pub(crate) fn newest(&self, told: Members) -> Members {
        self.members.lock().filter(|logged| logged.next_index > told.next_index).unwrap_or(told)
    }

    /// Lets the replica answer in an epoch, if it has a vote.
    pub(crate) fn grant(&self, epoch: Epoch, told: Members) {
        let logged = self.members.lock();
        let Members { is_alone, has_vote, .. } =
            logged.filter(|logged| logged.next_index > told.next_index).unwrap_or(told);
        #[cfg(feature = "planted-bugs")]
        let is_alone = is_alone || crate::planted::reads_without_lease();
        if has_vote {
            self.unlimited_in.store(if is_alone { epoch.0 } else { NONE }, Ordering::Release);
            self.held_in.store(epoch.0, Ordering::Release);
        }
    }

    /// Ends it: from now on nothing is answered.
    pub(crate) fn end(&self) {
        self.unlimited_in.store(NONE, Ordering::Release);
        self.held_in.store(NONE, Ordering::Release);
    }

    /// Notes that an entry with other members is about to be written to the log. Before it is: by the time others decide by it,
    /// this replica does not answer by the members before.
    pub(crate) fn members_change(&self, index: u64, membership: &Membership, me: u64) {
        let members = Members::new(Some(index), membership, me);
        let mut logged = self.members.lock();
        *logged = Some(members);
        if !members.is_alone {
            self.unlimited_in.store(NONE, Ordering::Release);
        }
        if !members.has_vote {
            self.held_in.store(NONE, Ordering::Release);
        }
    }

    /// Notes that the log has nothing from an index on.
    pub(crate) fn log_cut(&self, next: u64) {
        self.members.lock().take_if(|logged| logged.next_index > next);
    }

    /// Notes where callers are sent while this replica is not primary.
    pub(crate) fn point_to(&self, primary: Option<NodeId>) {
        self.hint.store(primary.map_or(NONE, |node| node.0), Ordering::Relaxed);
    }

    /// What a caller is told who is not answered.
    #[cold]
    pub(crate) fn refusal(&self) -> Error {
        let hint = self.hint.load(Ordering::Relaxed);
        not_primary(self.set, (hint != NONE).then_some(NodeId(hint)))
    }
}

/// The right of a partition's primary to answer in one epoch without a commit. Cheap to clone, and keeps nothing else alive.
///
/// What an answer was made from is read first and the lease is checked afterwards: then no other primary was there before.
#[derive(Clone)]
pub struct EpochLease {
    lease: Arc<Lease>,
    epoch: Epoch,
}

impl fmt::Debug for EpochLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EpochLease({} of {}, held: {})", self.epoch, self.lease.set, self.is_held())
    }
}

impl EpochLease {
    pub(crate) fn new(lease: Arc<Lease>, epoch: Epoch) -> Self {
        Self { lease, epoch }
    }

    /// The epoch that it is for.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// True if this node is primary in the epoch and holds its lease at this moment.
    #[inline]
    pub fn is_held(&self) -> bool {
        self.lease.is_held_in(self.epoch)
    }

    /// Refuses to answer without the lease.
    ///
    /// # Errors
    /// `NotPrimary`, with the node of the primary where known.
    #[inline]
    pub fn check(&self) -> Result<()> {
        if self.is_held() { Ok(()) } else { Err(self.lease.refusal()) }
    }
}
