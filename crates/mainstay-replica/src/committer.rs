mod answers;
mod queue;

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};

use futures_util::FutureExt as _;

use mainstay_core::{Epoch, Error, ErrorKind, NodeId, Result, SequenceNumber, SetId, time};
use mainstay_store::state::WriteBatch;
use openraft::errors::ClientWriteError;
use parking_lot::Mutex;
use smallvec::SmallVec;
use tokio::sync::Notify;
use tokio::task::coop::cooperative;
use tokio::task::unconstrained;

use self::answers::{AnswerKey, Answers, Outcome};
use self::queue::Queue;
use crate::activity::SetActivity;
use crate::command::{COMMITS_PER_ENTRY_MAX, CommandBuilder, commit_bytes, sequence_number};
use crate::inline_executor::{self, InlineExecutor};
use crate::options::CommitOptions;
use crate::raft::{Command, Raft, Reply, WriteResult};

/// From how many commits on, waiting and in flight, an entry takes only half of them.
const CROWD_MIN: usize = 32;

/// Merges what many callers commit into few log entries and keeps several of them in flight.
///
/// While entries are on their way to the disk and the quorum, what arrives waits and becomes the next entry: the busier
/// it gets, the more commits share an entry.
pub(crate) struct Committer {
    set: SetId,
    /// What openraft runs in.
    executor: InlineExecutor,
    options: CommitOptions,
    shared: Mutex<Shared>,
    /// Flights whose commits were applied and whose callers have not been told.
    landed: Mutex<Vec<(ProposalNumber, WriteResult)>>,
    raft: OnceLock<Raft>,
    wake: Notify,
    settled: Notify,
}

#[derive(Debug, Default)]
struct Shared {
    /// The epoch in which this replica is primary, if it is.
    open: Option<Epoch>,
    hint: Option<NodeId>,
    /// Nothing is proposed, because the role is about to be handed over.
    is_held: bool,
    /// Why the replica does not run any more.
    stopped: Option<String>,
    waiting: Queue,
    /// What those who wait, or whose commits are in flight, are going to hear.
    answers: Answers,
    proposals: BTreeMap<ProposalNumber, Proposal>,
    /// How many commits are in flight.
    flying: usize,
    /// How many commits the last entry carried.
    crowd: usize,
    next_proposal: ProposalNumber,
    /// The committer's task was called, and nobody has looked at what waits since.
    is_called: bool,
    activity: SetActivity,
}

impl Shared {
    /// An entry costs the same whether it carries one commit or a thousand. What trickles in while others are in flight
    /// waits for them to land and goes together; a crowd about as large as what is in flight goes at once.
    fn is_worth_a_flight(&self, options: &CommitOptions) -> bool {
        self.proposals.is_empty()
            || (self.proposals.len() < options.entries_in_flight_max
                && (self.waiting.len() * 4 >= self.flying * 3 || self.waiting.bytes() >= options.entry_bytes_max))
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
    pub batches: SmallVec<[WriteBatch; 1]>,
    /// The epoch that the caller has been reading in; a commit in any other is refused.
    pub epoch: Option<Epoch>,
}

impl Commit {
    fn batches(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.batches.iter().map(WriteBatch::as_bytes)
    }

    fn bytes(&self) -> usize {
        self.batches().map(<[u8]>::len).sum()
    }

    /// How many bytes it takes in an entry.
    fn bytes_in_entry(&self) -> usize {
        commit_bytes(self.batches())
    }
}

/// What is to be done about a commit that was taken in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// The caller is alone and proposes it.
    Propose,
    /// The committer's task is to be woken.
    Wake,
    /// It is going to look anyway.
    Wait,
}

/// Tells proposals apart, in the order in which they were proposed.
type ProposalNumber = u64;

/// A log entry that was proposed and has no outcome yet.
#[derive(Debug)]
struct Proposal {
    commits: usize,
    proposed: time::Instant,
    /// Whom to tell, in the order of the commits; nobody any more if the role has ended on the way.
    callers: Vec<AnswerKey>,
}

impl Committer {
    pub(crate) fn new(set: SetId, options: CommitOptions, executor: InlineExecutor) -> Self {
        Self {
            set,
            executor,
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
        let mut place = Place { committer: self, key: None };
        let mut commit = Some(commit);
        let committed = poll_fn(|cx| match commit.take() {
            Some(commit) => self.begin(commit, &mut place, cx),
            None => place.poll(cx).map(Ok),
        });
        // In memory it may never have to wait, and others of the runtime must have a chance all the same.
        match cooperative(committed).await? {
            Outcome::Committed(number) => Ok(number),
            Outcome::NotPrimary(hint) => Err(self.not_primary(hint)),
            Outcome::Refused(why) => Err(Error::invalid(why)),
            Outcome::Unknown => Err(self.outcome_unknown()),
        }
    }

    /// Sees to it that the commit is proposed: at once by a caller who is alone, by the committer's task where many come
    /// together, because what they commit can share an entry.
    fn begin(self: &Arc<Self>, commit: Commit, place: &mut Place<'_>, cx: &Context<'_>) -> Poll<Result<Outcome>> {
        let (key, next) = self.enqueue(commit, cx)?;
        place.key = Some(key);
        match (next, self.raft.get()) {
            (Next::Propose, Some(raft)) => {
                self.executor.run_until_idle(|| self.propose(raft));
                // In memory it may have happened by now.
                place.poll(cx).map(Ok)
            }
            (Next::Propose, None) => {
                self.wake.notify_one();
                place.poll(cx).map(Ok)
            }
            (Next::Wake, _) => {
                self.wake.notify_one();
                Poll::Pending
            }
            (Next::Wait, _) => Poll::Pending,
        }
    }

    /// Takes a commit in, and says what is to be done about it.
    fn enqueue(&self, commit: Commit, cx: &Context<'_>) -> Result<(AnswerKey, Next)> {
        let bytes = commit.bytes_in_entry();
        let mut guard = self.shared.lock();
        let shared = &mut *guard;
        let Some(open) = shared.open else { return Err(self.refusal(shared)) };
        if commit.epoch.is_some_and(|epoch| epoch != open) {
            return Err(self.not_primary(shared.hint));
        }
        // One is always let in, whatever the limits are.
        if !shared.waiting.is_empty()
            && (shared.waiting.len() >= self.options.waiting_max
                || shared.waiting.bytes() + bytes > self.options.waiting_bytes_max)
        {
            shared.activity.throttled += 1;
            return Err(Error::new(
                ErrorKind::Overloaded,
                format!(
                    "{} commits with {} bytes wait for set {} (limits: {} and {}): slow down and retry",
                    shared.waiting.len(),
                    shared.waiting.bytes(),
                    self.set,
                    self.options.waiting_max,
                    self.options.waiting_bytes_max
                ),
            ));
        }
        let is_alone = shared.proposals.is_empty() && shared.crowd <= 1;
        let key = shared.answers.admit((!is_alone).then(|| cx.waker().clone()));
        shared.activity.bytes += commit.bytes() as u64;
        shared.waiting.push(commit, key);
        let next = match is_alone {
            true => Next::Propose,
            false if shared.is_called => Next::Wait,
            false => Next::Wake,
        };
        shared.is_called |= next == Next::Wake;
        Ok((key, next))
    }

    /// Starts to accept commits: this replica is primary in an epoch.
    pub(crate) fn open(&self, epoch: Epoch) {
        let mut shared = self.shared.lock();
        shared.open = Some(epoch);
    }

    /// Proposes nothing from now on. What comes waits.
    pub(crate) fn hold(&self) {
        self.shared.lock().is_held = true;
    }

    /// Proposes what has waited, and what comes.
    pub(crate) fn go_on(&self) {
        let mut shared = self.shared.lock();
        shared.is_held = false;
        shared.is_called = true;
        drop(shared);
        self.wake.notify_one();
    }

    /// Where callers are sent while this replica is not primary.
    pub(crate) fn point_to(&self, primary: Option<NodeId>) {
        self.shared.lock().hint = primary;
    }

    /// Stops accepting commits. What waits has not happened; what is in flight may or may not happen.
    pub(crate) fn close(&self, hint: Option<NodeId>) {
        self.answer();
        let mut wakers = Vec::new();
        {
            let mut guard = self.shared.lock();
            let shared = &mut *guard;
            shared.open = None;
            shared.hint = hint;
            while let Some(key) = shared.waiting.drop_first() {
                wakers.extend(shared.answers.give(key, Outcome::NotPrimary(hint)));
            }
            for key in shared.proposals.values_mut().flat_map(|proposal| proposal.callers.drain(..)) {
                wakers.extend(shared.answers.give(key, Outcome::Unknown));
            }
        }
        wakers.into_iter().for_each(Waker::wake);
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
        self.shared.lock().proposals.is_empty()
    }

    /// Waits for a change that may have settled everything.
    pub(crate) async fn settled(&self) {
        self.settled.notified().await;
    }

    /// Waits until there may be something to propose.
    pub(crate) async fn called(&self) {
        self.wake.notified().await;
    }

    /// Proposes what waits, until the task is stopped.
    pub(crate) async fn run(self: Arc<Self>, raft: Raft) {
        let raft = self.raft.get_or_init(|| raft);
        loop {
            self.called().await;
            // Those who were answered together commit again together: let them come first.
            tokio::task::yield_now().await;
            self.executor.run_until_idle(|| self.propose(raft));
        }
    }

    fn propose(self: &Arc<Self>, raft: &Raft) {
        while let Some((proposal, command)) = self.next() {
            let guard = ProposalGuard { committer: self.clone(), proposal: Some(proposal) };
            let reply = Reply::new(move |result| guard.land(result));
            // Openraft's queue holds far more than may be in flight, so this is done at the first poll, whatever is left of
            // the caller's share of its turn. If the replica has stopped, the reply is dropped and lands by itself.
            let _ = unconstrained(raft.client_write_ff(command, Some(reply))).now_or_never();
        }
    }

    pub(crate) fn next(&self) -> Option<(ProposalNumber, Command)> {
        let mut guard = self.shared.lock();
        let shared = &mut *guard;
        shared.is_called = false;
        let epoch = shared.open?;
        if shared.is_held || !shared.is_worth_a_flight(&self.options) {
            return None;
        }
        let share = shared.share().min(shared.waiting.len());
        let mut builder = None;
        let mut callers = Vec::with_capacity(share);
        let mut entry_bytes = 0;
        while let Some((bytes, key)) = shared.waiting.first() {
            let full = entry_bytes + bytes > self.options.entry_bytes_max || callers.len() >= share;
            if full && !callers.is_empty() {
                break;
            }
            if shared.answers.is_left(key) {
                // The caller went away before anything happened.
                shared.waiting.drop_first();
                continue;
            }
            entry_bytes += bytes;
            let room = || shared.waiting.bytes_of(share).min(self.options.entry_bytes_max).max(bytes);
            let builder = builder.get_or_insert_with(|| CommandBuilder::new(epoch, room()));
            shared.waiting.move_first(builder);
            callers.push(key);
        }
        let command = Command(builder?.finish());
        let number = shared.next_proposal;
        shared.next_proposal += 1;
        shared.flying += callers.len();
        shared.crowd = callers.len();
        shared.proposals.insert(number, Proposal { commits: callers.len(), proposed: time::now(), callers });
        Some((number, command))
    }

    /// Answers those whose commits have been applied.
    pub(crate) fn answer(&self) {
        let landed = std::mem::take(&mut *self.landed.lock());
        for (proposal, result) in landed {
            self.land(proposal, Some(result));
        }
    }

    /// Gives a proposal its outcome.
    pub(crate) fn land(&self, proposal: ProposalNumber, result: Option<WriteResult>) {
        let (wakers, more_waits, settled) = {
            let mut guard = self.shared.lock();
            let shared = &mut *guard;
            let Some(proposal) = shared.proposals.remove(&proposal) else { return };
            shared.flying -= proposal.commits;
            if let Some(Ok(response)) = &result
                && response.data.accepted
            {
                shared.activity.entries += 1;
                shared.activity.commits += (proposal.commits - response.data.refused.len()) as u64;
                shared.activity.timings.record(proposal.proposed.elapsed());
            }
            let mut wakers = Vec::with_capacity(proposal.callers.len());
            for (position, key) in proposal.callers.into_iter().enumerate() {
                wakers.extend(shared.answers.give(key, outcome(result.as_ref(), position)));
            }
            shared.waiting.tidy();
            let more_waits = !shared.waiting.is_empty() && !std::mem::replace(&mut shared.is_called, true);
            (wakers, more_waits, shared.proposals.is_empty())
        };
        wakers.into_iter().for_each(Waker::wake);
        if more_waits {
            self.wake.notify_one();
        }
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

/// What came of the commit at a place in an entry.
fn outcome(result: Option<&WriteResult>, position: usize) -> Outcome {
    match result {
        Some(Ok(response)) if response.data.accepted => {
            let number = sequence_number(response.data.index, position);
            let why = response.data.refused.get(&number);
            why.map_or(Outcome::Committed(number), |why| Outcome::Refused(why.as_str().into()))
        }
        Some(Ok(_)) => Outcome::NotPrimary(None),
        Some(Err(ClientWriteError::ForwardToLeader(forward))) => {
            Outcome::NotPrimary(forward.leader_node.map(|member| member.node))
        }
        Some(Err(_)) | None => Outcome::Unknown,
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

/// A caller's place among those who wait for an answer.
struct Place<'a> {
    committer: &'a Committer,
    /// `None` before the commit was taken in, and once it was answered.
    key: Option<AnswerKey>,
}

impl Place<'_> {
    fn poll(&mut self, cx: &Context<'_>) -> Poll<Outcome> {
        let Some(key) = self.key else { return Poll::Pending };
        // Bound first, so that a waker that is replaced is dropped when others can come in again: it may drop a task that has
        // a place itself.
        let (answer, _replaced) = self.committer.shared.lock().answers.poll(key, cx);
        if answer.is_ready() {
            self.key = None;
        }
        answer
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            let _left = self.committer.shared.lock().answers.leave(key);
        }
    }
}

/// Gives a proposal its outcome exactly once, also when openraft drops the proposal without a word.
struct ProposalGuard {
    committer: Arc<Committer>,
    proposal: Option<ProposalNumber>,
}

impl ProposalGuard {
    /// Keeps the outcome until the executor's poll round ends and [answers](Committer::answer): the callers are woken
    /// once for all that was applied in the round. Outside of a round they are answered here.
    fn land(mut self, result: WriteResult) {
        let Some(proposal) = self.proposal.take() else { return };
        if result.is_ok() && inline_executor::is_polling() {
            self.committer.landed.lock().push((proposal, result));
        } else {
            self.committer.land(proposal, Some(result));
        }
    }
}

impl Drop for ProposalGuard {
    fn drop(&mut self) {
        if let Some(proposal) = self.proposal.take() {
            self.committer.land(proposal, None);
        }
    }
}
