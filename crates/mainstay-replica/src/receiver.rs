use std::future::{Future as _, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;

use bytes::Bytes;
use mainstay_core::{Error, ErrorKind, Result, task, time};
use mainstay_store::state::{Import, StateStore};
use openraft::async_runtime::watch::WatchReceiver as _;
use openraft::errors::RaftError;
use openraft::metrics::RaftDataMetrics;
use openraft::raft::{AppendEntriesRequest, AppendEntriesResponse, VoteResponse};
use openraft::storage::Snapshot;
use tokio::sync::Mutex;

use crate::admission;
use crate::checkpoint_scheduler::CheckpointScheduler;
use crate::inline_executor::InlineExecutor;
use crate::log_storage::LogStorage;
use crate::message::{Request, Response};
use crate::options::ReplicaOptions;
use crate::raft::{Raft, SnapshotMeta, Types, Vote, Watched, log_id};
use crate::replica::{Identity, SNAPSHOT_CHUNK_TIMEOUT};
use crate::state_machine::{Position, SnapshotData};

/// Answers what other replicas of the set ask.
pub(crate) struct Receiver {
    identity: Identity,
    data: Watched<RaftDataMetrics<Types>>,
    raft: Raft,
    executor: InlineExecutor,
    store: Arc<dyn StateStore>,
    scheduler: Arc<CheckpointScheduler>,
    log: LogStorage,
    unsaved_bytes_max: u64,
    /// How long entries wait for a checkpoint before they are refused.
    patience: time::Duration,
    /// Until when no vote is given, see [`Receiver::new`].
    votes_from: time::Instant,
    scope: task::Scope,
    inbox: Arc<Mutex<Inbox>>,
    received: AtomicU64,
    furthest: AtomicU64,
}

/// How long the next piece of a state may take to come. Twice as long as a sender tries to get one across: it gave up long ago.
const TRANSFER_PATIENCE: time::Duration = time::Duration::from_secs(2 * SNAPSHOT_CHUNK_TIMEOUT.as_secs());

/// The state that is being received, if one is; at most one at a time.
#[derive(Default)]
struct Inbox {
    incoming: Option<Incoming>,
    /// The transfer before that one, and the answer to its end if there was one. The answer may have been lost, and what
    /// comes late of that transfer must not take the place of the next.
    over: Option<(u64, Option<Vote>)>,
    /// A task watches over how long nothing comes.
    is_watched: bool,
}

struct Incoming {
    transfer: u64,
    next: u64,
    import: Box<dyn Import>,
    /// When the last piece was taken in.
    touched: time::Instant,
}

impl Receiver {
    /// A replica that restarts has forgotten which primary it acknowledged last, and so gives no vote until every lease
    /// that it may have had a part in has run out. A fresh one has acknowledged nobody.
    pub(crate) fn new(
        identity: Identity,
        raft: Raft,
        executor: InlineExecutor,
        (store, scheduler, log): (Arc<dyn StateStore>, Arc<CheckpointScheduler>, LogStorage),
        scope: task::Scope,
        fresh: bool,
        options: &ReplicaOptions,
    ) -> Self {
        let timing = &options.timing;
        let pause = if fresh { time::Duration::ZERO } else { timing.election_timeout_max };
        Self {
            identity,
            data: raft.data_metrics(),
            raft,
            executor,
            store,
            scheduler,
            log,
            unsaved_bytes_max: options.checkpoint.unsaved_bytes_max,
            // The primary waits for an answer for longer.
            patience: timing.heartbeat / 2,
            votes_from: time::now() + pause,
            scope,
            inbox: Arc::default(),
            received: AtomicU64::new(0),
            furthest: AtomicU64::new(0),
        }
    }

    /// How much has come from a primary so far: who joins sees by it that it is being fed.
    pub(crate) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// How many pieces of one state have been taken in at most, since one was put in force. Starting over is no step ahead.
    pub(crate) fn pieces(&self) -> u64 {
        self.furthest.load(Ordering::Relaxed)
    }

    pub(crate) async fn handle(&self, request: Request) -> Response {
        let committed = self.data.borrow_watched().local_committed;
        if let Err(error) = admission::check(self.identity.replica, &request, committed) {
            return failed(&error);
        }
        if matches!(request, Request::Append(_) | Request::SnapshotChunk { .. }) {
            self.received.fetch_add(1, Ordering::Relaxed);
        }
        match request {
            Request::Append(append) => match self.admit(&append).await {
                Ok(()) => answer(self.append(append).await, Response::Append),
                Err(error) => failed(&error),
            },
            Request::Vote(vote) if !self.may_vote(vote.leadership_transfer) => self.refuse_vote(),
            Request::Vote(vote) => answer(self.raft.vote(vote).await, Response::Vote),
            Request::PreVote(_) if !self.may_vote(false) => self.refuse_vote(),
            Request::PreVote(vote) => answer(self.raft.pre_vote(vote).await, Response::Vote),
            Request::Transfer(transfer) => match self.raft.handle_transfer_leader(transfer).await {
                Ok(Ok(())) => Response::Done,
                Ok(Err(error)) => Response::Failed(error.to_string()),
                Err(error) => Response::Failed(error.to_string()),
            },
            Request::SnapshotChunk { transfer, number, chunk } => self.chunk(transfer, number, chunk).await,
            Request::SnapshotEnd { transfer, chunks, vote, meta } => self.install(transfer, chunks, vote, meta).await,
            Request::Join { .. } => Response::Failed("a request to join is for the replica itself".to_owned()),
        }
    }

    /// Keeps entries out while the disk has little room left, and while too much is applied and in no checkpoint: what is in the log is applied, and that is held in
    /// memory until a checkpoint. Heartbeats pass, so that a disk which is behind costs no election.
    async fn admit(&self, request: &AppendEntriesRequest<Types>) -> Result<()> {
        if request.entries.is_empty() {
            return Ok(());
        }
        if self.log.check_space().is_err() {
            // Who sends them is not to send them again at once.
            time::sleep(self.patience).await;
            self.log.check_space()?;
        }
        if self.scheduler.unsaved() <= self.unsaved_bytes_max {
            return Ok(());
        }
        let room = self.scheduler.unsaved_at_most(self.unsaved_bytes_max);
        time::timeout(self.patience, room).await.map_err(|_| {
            let text = format!(
                "{} bytes of set {} wait for a checkpoint on node {} (limit {}): its disk is behind, send the entries later",
                self.scheduler.unsaved(),
                self.identity.set,
                self.identity.node,
                self.unsaved_bytes_max
            );
            Error::new(ErrorKind::Overloaded, text)
        })
    }

    /// Hands entries to openraft and lets it take them in at once: it is only the log that has to be waited for.
    async fn append(
        &self,
        request: AppendEntriesRequest<Types>,
    ) -> Result<AppendEntriesResponse<Types>, RaftError<Types>> {
        let mut append = pin!(self.raft.append_entries(request));
        let mut told = false;
        poll_fn(|cx| {
            if !told {
                told = true;
                let mut polled = Poll::Pending;
                self.executor.run_until_idle(|| polled = append.as_mut().poll(cx));
                if polled.is_ready() {
                    return polled;
                }
            }
            append.as_mut().poll(cx)
        })
        .await
    }

    fn may_vote(&self, transfer: bool) -> bool {
        // A primary that hands over has given up its lease itself.
        transfer || time::now() >= self.votes_from
    }

    fn refuse_vote(&self) -> Response {
        let vote = self.raft.metrics().borrow_watched().vote;
        Response::Vote(VoteResponse::new(vote, None, false))
    }

    async fn chunk(&self, transfer: u64, number: u64, chunk: Bytes) -> Response {
        let mut inbox = self.inbox.lock().await;
        let current = match inbox.incoming.take() {
            Some(current) if current.transfer == transfer => current,
            before if number == 0 && inbox.over.is_none_or(|(over, _)| over != transfer) => {
                if let Some(before) = before {
                    inbox.over = Some((before.transfer, None));
                }
                let store = self.store.clone();
                match task::blocking(move || store.import()).await {
                    Ok(import) => Incoming { transfer, next: 0, import, touched: time::now() },
                    Err(error) => return failed(&error),
                }
            }
            other => {
                inbox.incoming = other;
                return Response::Failed(format!("no transfer {transfer} is under way: start over"));
            }
        };
        let next = current.next;
        if number != next {
            // A repeated piece was taken already; anything else is lost, and the sender starts over.
            inbox.incoming = Some(current);
            return if number.checked_add(1) == Some(next) {
                Response::Done
            } else {
                Response::Failed(format!("piece {number} came where {next} was expected: start over"))
            };
        }
        let mut import = current.import;
        let (import, result) = task::blocking(move || {
            let result = import.push(&chunk);
            (import, result)
        })
        .await;
        match result {
            Ok(()) => {
                self.furthest.fetch_max(next + 1, Ordering::Relaxed);
                inbox.incoming = Some(Incoming { transfer, next: next + 1, import, touched: time::now() });
                if !std::mem::replace(&mut inbox.is_watched, true) {
                    self.scope.spawn(give_up_in_time(self.inbox.clone()));
                }
                Response::Done
            }
            Err(error) => failed(&error),
        }
    }

    async fn install(&self, transfer: u64, chunks: u64, vote: Vote, meta: SnapshotMeta) -> Response {
        // Kept to the end, so that who asks again meanwhile waits for the same answer.
        let mut inbox = self.inbox.lock().await;
        let import = match inbox.incoming.take() {
            Some(current) if current.transfer == transfer && current.next == chunks => current.import,
            other => {
                inbox.incoming = other;
                return match inbox.over {
                    Some((over, Some(vote))) if over == transfer => Response::Snapshot(vote),
                    _ => Response::Failed(format!("transfer {transfer} is not complete: start over")),
                };
            }
        };
        inbox.over = Some((transfer, None));
        // Checked here, where a refusal costs no more than the transfer: an error inside of openraft ends the replica.
        if let Err(error) = fits(&*import, &meta) {
            return failed(&error);
        }
        if let Err(error) = self.drop_overtaken(vote, &meta).await {
            return failed(&error);
        }
        tracing::info!(set = %self.identity.set, replica = %self.identity.replica, "installing a snapshot");
        let snapshot = Snapshot { meta, snapshot: SnapshotData::Received(import) };
        match self.raft.install_full_snapshot(vote, snapshot).await {
            Ok(response) => {
                inbox.over = Some((transfer, Some(response.vote)));
                self.furthest.store(0, Ordering::Relaxed);
                Response::Snapshot(response.vote)
            }
            Err(error) => Response::Failed(error.to_string()),
        }
    }
}

impl Receiver {
    /// Drops entries of a later term than the state that is about to take their place: they were never committed. Openraft does
    /// so by itself only where the log reaches as far as the state; a shorter one it takes for older than the state, although
    /// it compares by term.
    async fn drop_overtaken(&self, vote: Vote, meta: &SnapshotMeta) -> Result<()> {
        let Some(last) = meta.last_log_id else { return Ok(()) };
        let Some(first) = self.log.first_after_term(last.leader_id.term)?.filter(|first| *first <= last.index) else {
            return Ok(());
        };
        // The primary has another entry there, of no later term than the state's. Openraft drops what contradicts that, durably.
        let prev_log_id = Some(log_id(last.leader_id.term, first));
        let contradiction = AppendEntriesRequest { vote, prev_log_id, entries: Vec::new(), leader_commit: None };
        match self.raft.append_entries(contradiction).await {
            Ok(_) => Ok(()),
            Err(error) => Err(Error::fatal("the log cannot be cut for a state").with_source(error)),
        }
    }
}

/// Drops a state of which nothing more has come for too long: it takes as much room as the state it was to replace.
async fn give_up_in_time(inbox: Arc<Mutex<Inbox>>) {
    loop {
        let given_up = {
            let mut inbox = inbox.lock().await;
            match inbox.incoming.take() {
                Some(incoming) if incoming.touched.elapsed() < TRANSFER_PATIENCE => {
                    let due = incoming.touched + TRANSFER_PATIENCE;
                    inbox.incoming = Some(incoming);
                    Err(due)
                }
                other => {
                    inbox.is_watched = false;
                    Ok(other)
                }
            }
        };
        match given_up {
            Err(due) => time::sleep_until(due).await,
            // Its file is removed by that.
            Ok(incoming) => return task::blocking(move || drop(incoming)).await,
        }
    }
}

/// Refuses a state that did not come in completely, or that is not the one that was announced.
fn fits(import: &dyn Import, meta: &SnapshotMeta) -> Result<()> {
    let position = Position::from_mark(&import.complete()?)?;
    if position.meta() == *meta {
        return Ok(());
    }
    let told = |id: Option<crate::raft::LogId>| id.map_or_else(|| "the beginning".to_owned(), |id| id.to_string());
    Err(Error::corrupt(format!(
        "a state was announced for {} and is at {}: send it anew",
        told(meta.last_log_id),
        told(position.applied)
    )))
}

fn answer<T, E: std::fmt::Display>(result: Result<T, E>, wrap: impl FnOnce(T) -> Response) -> Response {
    match result {
        Ok(value) => wrap(value),
        Err(error) => Response::Failed(error.to_string()),
    }
}

fn failed(error: &Error) -> Response {
    Response::unread(error)
}
