use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use mainstay_core::{ReplicaId, time};
use openraft::metrics::RaftDataMetrics;
use parking_lot::Mutex;

use crate::raft::Types;
use crate::transfer_target::answered_within;

/// Which part of the log stays for replicas that are behind.
///
/// The log is not cut behind a replica that follows, nor behind a state that is on its way to one: cut there, the replica
/// would have nothing to go on with but another whole state, and after that the next. This has a limit, the *floor*: who
/// lacks more of the log than the state is large is better off with the state, and is not waited for.
#[derive(Debug)]
pub(crate) struct Retention {
    /// After so long without an answer a replica is not waited for.
    silence_max: time::Duration,
    /// The index of the first entry that others may still be sent.
    first: AtomicU64,
    sent: Mutex<BTreeMap<ReplicaId, SentState>>,
}

/// The state that a replica was sent last, or is being sent.
#[derive(Debug)]
struct SentState {
    /// The index after the last entry in it.
    next: u64,
    /// Tells it from one that is sent to the same replica later.
    transfer: u64,
    is_under_way: bool,
    /// Until when the replica may be silent.
    patient_until: time::Instant,
}

/// How far another replica is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub replica: ReplicaId,
    /// The index after the last entry that it is known to have.
    pub next: u64,
    /// It has answered lately.
    pub answers: bool,
}

/// Where the log starts, and where it may be cut: each the index of the first entry that stays.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// Where it starts.
    pub first: u64,
    /// Where it is cut whoever is behind.
    pub floor: u64,
    /// Where it is cut if nobody is behind.
    pub wanted: u64,
}

impl Retention {
    pub(crate) fn new(silence_max: time::Duration) -> Self {
        Self { silence_max, first: AtomicU64::new(0), sent: Mutex::default() }
    }

    /// A state is about to be sent to a replica. The log waits for it until what is returned is dropped, and longer if it
    /// [arrived](Sending::arrived).
    pub(crate) fn send(self: &Arc<Self>, replica: ReplicaId, transfer: u64, next: u64) -> Sending {
        let state = SentState { next, transfer, is_under_way: true, patient_until: time::now() + self.silence_max };
        let mut sent = self.sent.lock();
        // Others may have been removed meanwhile: none is remembered for long.
        sent.retain(|_, state| state.is_under_way || time::now() < state.patient_until);
        sent.insert(replica, state);
        Sending { retention: self.clone(), replica, transfer }
    }

    /// The others as the primary sees them; a replica that is not primary sees nobody.
    pub(crate) fn places(&self, data: &RaftDataMetrics<Types>) -> Vec<Place> {
        let replication = data.replication.iter().flatten();
        let place = |(id, matched): (&u64, &Option<crate::raft::LogId>)| Place {
            replica: ReplicaId(*id),
            next: matched.map_or(0, |id| id.index + 1),
            answers: answered_within(data, ReplicaId(*id), self.silence_max),
        };
        replication.map(place).collect()
    }

    /// Where the log is to be cut with regard to others who are behind.
    pub(crate) fn cut(&self, bounds: Bounds, others: &[Place]) -> u64 {
        let Bounds { first, floor, wanted } = bounds;
        // Who needs what is gone already gets a state in any case.
        let lowest = floor.max(first).max(self.first());
        let mut sent = self.sent.lock();
        // A state that arrived is of no interest any more when its replica is known to have it.
        sent.retain(|replica, state| {
            let mut behind = others.iter().filter(|other| other.next < state.next);
            state.is_under_way || (state.next >= lowest && behind.any(|other| other.replica == *replica))
        });
        let kept_for = |other: &Place| {
            let state = sent.get(&other.replica);
            let answers = other.answers || state.is_some_and(|state| time::now() < state.patient_until);
            let next = state.map_or(other.next, |state| state.next.max(other.next));
            (answers && next >= lowest).then_some(next)
        };
        others.iter().filter_map(kept_for).fold(wanted, u64::min).max(floor)
    }

    /// The log is cut there as soon as nothing before is being sent any more. To be told after openraft was: it sends the
    /// state to who is refused entries by this.
    pub(crate) fn is_cut(&self, first: u64) {
        self.first.fetch_max(first, Ordering::Relaxed);
    }

    /// The index of the first entry that others may still be sent. Openraft does not cut the log before an entry that it is
    /// about to send, and would wait for a slow replica for ever.
    pub(crate) fn first(&self) -> u64 {
        self.first.load(Ordering::Relaxed)
    }
}

/// A state on its way to a replica; while it is, the log waits for it.
#[derive(Debug)]
pub(crate) struct Sending {
    retention: Arc<Retention>,
    replica: ReplicaId,
    transfer: u64,
}

impl Sending {
    /// The replica has taken a part.
    pub(crate) fn answered(&self) {
        self.silent_for(self.retention.silence_max);
    }

    /// The replica may be silent for so long from now on: while it puts a state in force, it answers nothing.
    pub(crate) fn silent_for(&self, silence: time::Duration) {
        self.change(|state| state.patient_until = time::now() + silence);
    }

    /// The replica has all of it. The log goes on waiting until openraft knows that.
    pub(crate) fn arrived(self) {
        self.answered();
        self.change(|state| state.is_under_way = false);
    }

    fn change(&self, change: impl FnOnce(&mut SentState)) {
        let mut sent = self.retention.sent.lock();
        if let Some(state) = sent.get_mut(&self.replica).filter(|state| state.transfer == self.transfer) {
            change(state);
        }
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        let mut sent = self.retention.sent.lock();
        let is_over = |state: &SentState| state.transfer == self.transfer && state.is_under_way;
        if sent.get(&self.replica).is_some_and(is_over) {
            sent.remove(&self.replica);
        }
    }
}
