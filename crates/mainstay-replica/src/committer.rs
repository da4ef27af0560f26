use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, OnceLock};

use futures_util::FutureExt as _;

use mainstay_core::{Epoch, Error, ErrorKind, NodeId, Result, SequenceNumber, SetId, time};
use mainstay_store::state::WriteBatch;
use openraft::errors::ClientWriteError;
use openraft::metrics::MetricsRecorder;
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};
use tokio::task::unconstrained;

use crate::activity::SetActivity;
use crate::bundle::Bundle;
use crate::command::{COMMITS_PER_ENTRY_MAX, CommandBuilder, sequence_number};
use crate::options::CommitOptions;
use crate::raft::{Command, Raft, Reply, WriteResult};

/// What a commit of one batch takes in an entry beside the batch.
const COMMIT_FRAME_BYTES: usize = 8;

/// From how many commits on, waiting and in flight, an entry takes only half of them.
const CROWD_MIN: usize = 32;

/// Merges what many callers commit into few log entries and keeps several of them in flight.
///
/// While entries are on their way to the disk and the quorum, what arrives waits and becomes the next entry: the busier
/// it gets, the more commits share an entry.
pub(crate) struct Committer {
    set: SetId,
    /// What openraft runs in.
    bundle: Bundle,
    options: CommitOptions,
    shared: Mutex<Shared>,
    /// Flights whose commits were applied and whose callers have not been told.
    landed: Mutex<Vec<(Arc<Flight>, WriteResult)>>,
    raft: OnceLock<Raft>,
    wake: Notify,
    settled: Notify,
}

#[derive(Debug, Default)]
struct Shared {
    /// The epoch in which this replica is primary, if it is.
    open: Option<Epoch>,
    hint: Option<NodeId>,
    /// Why the replica does not run any more.
    stopped: Option<String>,
    waiting: VecDeque<Waiting>,
    waiting_bytes: usize,
    flights: BTreeMap<u64, Arc<Flight>>,
    /// How many commits are in flight.
    flying: usize,
    /// How many commits the last entry carried.
    crowd: usize,
    next_flight: u64,
    activity: SetActivity,
}

impl Shared {
    /// An entry costs the same whether it carries one commit or a thousand. What trickles in while others are in flight
    /// waits for them to land and goes together; a crowd about as large as what is in flight goes at once.
    fn is_worth_a_flight(&self, options: &CommitOptions) -> bool {
        self.flights.is_empty()
            || (self.flights.len() < options.entries_in_flight_max
                && (self.waiting.len() * 4 >= self.flying * 3 || self.waiting_bytes >= options.entry_bytes_max))
    }

    /// How many bytes so many of those who wait may need in an entry.
    fn room(&self, commits: usize, bytes_max: usize) -> usize {
        let bytes = self.waiting_bytes / self.waiting.len().max(1) * commits;
        bytes.min(bytes_max) + COMMIT_FRAME_BYTES * commits
    }

    /// How many commits the next entry takes at most. A large crowd is split in two, so that one half prepares its next
    /// commits while the disk works for the other; a small one is not worth two entries.
    fn share(&self) -> usize {
        let crowd = self.flying + self.waiting.len();
        if crowd < CROWD_MIN { COMMITS_PER_ENTRY_MAX } else { crowd.div_ceil(2).min(COMMITS_PER_ENTRY_MAX) }
    }
}

/// One caller's commit: one or several write batches that are applied together.
#[derive(Debug)]
pub(crate) struct Commit {
    pub batches: Vec<WriteBatch>,
    /// The epoch that the caller has been reading in; a commit in any other is refused.
    pub epoch: Option<Epoch>,
}

impl Commit {
    fn bytes(&self) -> usize {
        self.batches.iter().map(|batch| batch.as_bytes().len()).sum()
    }
}

#[derive(Debug)]
struct Waiting {
    commit: Commit,
    reply: oneshot::Sender<Result<SequenceNumber>>,
}

/// A log entry that was proposed and has no outcome yet.
#[derive(Debug)]
pub(crate) struct Flight {
    number: u64,
    commits: usize,
    proposed: time::Instant,
    replies: Mutex<Vec<oneshot::Sender<Result<SequenceNumber>>>>,
}

impl Committer {
    pub(crate) fn new(set: SetId, options: CommitOptions, bundle: Bundle) -> Self {
        Self {
            set,
            bundle,
            options,
            shared: Mutex::default(),
            landed: Mutex::default(),
            raft: OnceLock::new(),
            wake: Notify::new(),
            settled: Notify::new(),
        }
    }

    pub(crate) fn commit_bytes_max(&self) -> usize {
        self.options.commit_bytes_max
    }

    /// Commits and waits until the commit is durable on a quorum and applied here.
    pub(crate) async fn commit(self: &Arc<Self>, commit: Commit) -> Result<SequenceNumber> {
        let bytes = commit.bytes();
        if bytes > self.options.commit_bytes_max {
            return Err(too_large(bytes, self.options.commit_bytes_max));
        }
        let answer = self.enqueue(commit, bytes)?;
        self.start();
        match answer.await {
            Ok(outcome) => outcome,
            Err(_) => Err(self.outcome_unknown()),
        }
    }

    fn enqueue(&self, commit: Commit, bytes: usize) -> Result<oneshot::Receiver<Result<SequenceNumber>>> {
        let mut shared = self.shared.lock();
        let Some(open) = shared.open else { return Err(self.refusal(&shared)) };
        if commit.epoch.is_some_and(|epoch| epoch != open) {
            return Err(self.not_primary(shared.hint));
        }
        // One is always let in, whatever the limits are.
        if !shared.waiting.is_empty()
            && (shared.waiting.len() >= self.options.waiting_max
                || shared.waiting_bytes + bytes > self.options.waiting_bytes_max)
        {
            shared.activity.throttled += 1;
            return Err(Error::new(
                ErrorKind::Overloaded,
                format!(
                    "{} commits with {} bytes wait for set {} (limits: {} and {}): slow down and retry",
                    shared.waiting.len(),
                    shared.waiting_bytes,
                    self.set,
                    self.options.waiting_max,
                    self.options.waiting_bytes_max
                ),
            ));
        }
        let (reply, answer) = oneshot::channel();
        shared.waiting.push_back(Waiting { commit, reply });
        shared.waiting_bytes += bytes;
        shared.activity.bytes += bytes as u64;
        Ok(answer)
    }

    /// Starts to accept commits: this replica is primary in an epoch.
    pub(crate) fn open(&self, epoch: Epoch) {
        let mut shared = self.shared.lock();
        shared.open = Some(epoch);
    }

    /// Where callers are sent while this replica is not primary.
    pub(crate) fn point_to(&self, primary: Option<NodeId>) {
        self.shared.lock().hint = primary;
    }

    /// Stops accepting commits. What waits has not happened; what is in flight may or may not happen.
    pub(crate) fn close(&self, hint: Option<NodeId>) {
        self.answer();
        let (waiting, flights) = {
            let mut shared = self.shared.lock();
            shared.open = None;
            shared.hint = hint;
            shared.waiting_bytes = 0;
            (std::mem::take(&mut shared.waiting), shared.flights.values().cloned().collect::<Vec<_>>())
        };
        for waiting in waiting {
            drop(waiting.reply.send(Err(self.not_primary(hint))));
        }
        for flight in flights {
            for reply in flight.replies.lock().drain(..) {
                drop(reply.send(Err(self.outcome_unknown())));
            }
        }
    }

    /// Refuses all further commits: the replica has stopped, and why.
    pub(crate) fn stop(&self, why: String) {
        self.shared.lock().stopped.get_or_insert(why);
        self.close(None);
    }

    fn refusal(&self, shared: &Shared) -> Error {
        match &shared.stopped {
            Some(why) => stopped(self.set, why),
            None => self.not_primary(shared.hint),
        }
    }

    /// What was done so far.
    pub(crate) fn activity(&self) -> SetActivity {
        let shared = self.shared.lock();
        SetActivity { waiting: shared.waiting.len() as u64, ..shared.activity.clone() }
    }

    /// A commit was refused before it came here, because the disk is behind.
    pub(crate) fn count_throttled(&self) {
        self.shared.lock().activity.throttled += 1;
    }

    /// True if nothing that was proposed is without an outcome.
    pub(crate) fn is_settled(&self) -> bool {
        self.shared.lock().flights.is_empty()
    }

    /// Waits for a change that may have settled everything.
    pub(crate) async fn settled(&self) {
        self.settled.notified().await;
    }

    /// Sees to it that what waits is proposed: at once by a caller who is alone, by the committer's task where many come
    /// together, because what they commit can share an entry.
    fn start(self: &Arc<Self>) {
        let alone = {
            let shared = self.shared.lock();
            shared.flights.is_empty() && shared.crowd <= 1
        };
        match self.raft.get() {
            Some(raft) if alone => self.bundle.run_after(|| self.propose(raft)),
            _ => self.wake.notify_one(),
        }
    }

    /// Proposes what waits, until the task is stopped.
    pub(crate) async fn run(self: Arc<Self>, raft: Raft) {
        let raft = self.raft.get_or_init(|| raft);
        loop {
            self.wake.notified().await;
            // Those who were answered together commit again together: let them come first.
            tokio::task::yield_now().await;
            self.bundle.run_after(|| self.propose(raft));
        }
    }

    fn propose(self: &Arc<Self>, raft: &Raft) {
        while let Some((flight, command)) = self.next() {
            let landing = Landing { committer: self.clone(), flight: Some(flight) };
            let reply = Reply::new(move |result| landing.land(result));
            // Openraft's queue holds far more than may be in flight, so this is done at the first poll, whatever is left of
            // the caller's share of its turn. If the replica has stopped, the reply is dropped and lands by itself.
            let _ = unconstrained(raft.client_write_ff(command, Some(reply))).now_or_never();
        }
    }

    pub(crate) fn next(&self) -> Option<(Arc<Flight>, Command)> {
        let mut guard = self.shared.lock();
        let shared = &mut *guard;
        let epoch = shared.open?;
        if !shared.is_worth_a_flight(&self.options) {
            return None;
        }
        let share = shared.share().min(shared.waiting.len());
        let room = shared.room(share, self.options.entry_bytes_max);
        let mut builder = None;
        let mut replies = Vec::with_capacity(share);
        let mut entry_bytes = 0;
        while let Some(next) = shared.waiting.front() {
            let bytes = next.commit.bytes();
            let full = entry_bytes + bytes > self.options.entry_bytes_max || replies.len() >= share;
            if full && !replies.is_empty() {
                break;
            }
            // `front` has just seen it.
            let Some(Waiting { commit, reply }) = shared.waiting.pop_front() else { break };
            shared.waiting_bytes -= bytes;
            if reply.is_closed() {
                // The caller went away before anything happened.
                continue;
            }
            entry_bytes += bytes;
            builder
                .get_or_insert_with(|| CommandBuilder::new(epoch, bytes.max(room)))
                .push(commit.batches.iter().map(WriteBatch::as_bytes));
            replies.push(reply);
        }
        let command = Command(builder?.finish());
        let number = shared.next_flight;
        shared.next_flight += 1;
        shared.flying += replies.len();
        shared.crowd = replies.len();
        let flight =
            Arc::new(Flight { number, commits: replies.len(), proposed: time::now(), replies: Mutex::new(replies) });
        shared.flights.insert(number, flight.clone());
        Some((flight, command))
    }

    /// Answers those whose commits have been applied.
    pub(crate) fn answer(&self) {
        let landed = std::mem::take(&mut *self.landed.lock());
        for (flight, result) in landed {
            self.land(&flight, Some(result));
        }
    }

    pub(crate) fn land(&self, flight: &Flight, result: Option<WriteResult>) {
        let replies = std::mem::take(&mut *flight.replies.lock());
        for (position, reply) in replies.into_iter().enumerate() {
            let outcome = match &result {
                Some(Ok(response)) if response.data.accepted => {
                    let number = sequence_number(response.data.index, position);
                    response.data.refused.get(&number).map_or(Ok(number), |why| Err(Error::invalid(why.clone())))
                }
                Some(Ok(_)) => Err(self.not_primary(None)),
                Some(Err(ClientWriteError::ForwardToLeader(forward))) => {
                    Err(self.not_primary(forward.leader_node.map(|member| member.node)))
                }
                Some(Err(_)) | None => Err(self.outcome_unknown()),
            };
            drop(reply.send(outcome));
        }
        let settled = {
            let mut shared = self.shared.lock();
            if shared.flights.remove(&flight.number).is_some() {
                shared.flying -= flight.commits;
            }
            if let Some(Ok(response)) = &result
                && response.data.accepted
            {
                shared.activity.entries += 1;
                shared.activity.commits += (flight.commits - response.data.refused.len()) as u64;
                shared.activity.timings.record(flight.proposed.elapsed());
            }
            if !shared.waiting.is_empty() {
                self.wake.notify_one();
            }
            shared.flights.is_empty()
        };
        if settled {
            self.settled.notify_one();
        }
    }

    fn not_primary(&self, hint: Option<NodeId>) -> Error {
        not_primary(self.set, hint)
    }

    fn outcome_unknown(&self) -> Error {
        Error::new(
            ErrorKind::OutcomeUnknown,
            format!(
                "this node stopped being primary of set {} while the commit was in flight: it may or may not have happened; \
                 read before you write it again",
                self.set
            ),
        )
    }
}

/// The error of a replica that does not run any more.
pub(crate) fn stopped(set: SetId, why: &str) -> Error {
    Error::fatal(format!("the replica of set {set} has stopped: {why}; mend the cause and open it again"))
}

/// The error of a commit over the limit.
pub(crate) fn too_large(bytes: usize, bytes_max: usize) -> Error {
    Error::new(
        ErrorKind::TooLarge,
        format!("commit of {bytes} bytes exceeds commit_bytes_max of {bytes_max}: split it"),
    )
}

/// The error of a replica that is not the primary.
pub(crate) fn not_primary(set: SetId, hint: Option<NodeId>) -> Error {
    let place = hint.map_or_else(|| "unknown".to_owned(), |node| node.to_string());
    Error::new(
        ErrorKind::NotPrimary { hint },
        format!("this node is not the primary of set {set} (primary: {place}); nothing was changed, ask the primary"),
    )
}

/// Gives a flight its outcome exactly once, also when openraft drops the proposal without a word.
struct Landing {
    committer: Arc<Committer>,
    flight: Option<Arc<Flight>>,
}

impl Landing {
    fn land(mut self, result: WriteResult) {
        let Some(flight) = self.flight.take() else { return };
        match result {
            Ok(_) => self.committer.landed.lock().push((flight, result)),
            Err(_) => self.committer.land(&flight, Some(result)),
        }
    }
}

/// Answers callers when openraft's main task has heard that their commits were applied.
///
/// The task that applies could do so itself, but it wakes the main task next: two tasks woken in one turn are two threads
/// woken, and on an idle machine that takes longer than all the rest of a commit in memory.
pub(crate) struct Answering(pub(crate) Arc<Committer>);

impl fmt::Debug for Answering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Answering({})", self.0.set)
    }
}

impl MetricsRecorder for Answering {
    fn set_applied_index(&self, _: u64) {
        self.0.answer();
    }

    fn record_apply_batch(&self, _: u64) {}
    fn record_append_batch(&self, _: u64) {}
    fn record_write_batch(&self, _: u64) {}
    fn set_current_term(&self, _: u64) {}
    fn set_last_log_index(&self, _: u64) {}
    fn set_committed_index(&self, _: u64) {}
    fn set_snapshot_index(&self, _: u64) {}
    fn set_purged_index(&self, _: u64) {}
    fn set_server_state(&self, _: u8) {}
    fn increment_vote(&self) {}
    fn increment_heartbeat(&self) {}
    fn increment_append(&self) {}
}

impl Drop for Landing {
    fn drop(&mut self) {
        if let Some(flight) = self.flight.take() {
            self.committer.land(&flight, None);
        }
    }
}
