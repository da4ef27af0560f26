use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use futures_util::stream::{Fuse, FuturesOrdered};
use futures_util::{Stream, StreamExt as _};
use mainstay_core::time;
use openraft::errors::RPCError;
use openraft::raft::{AppendEntriesRequest, AppendEntriesResponse, StreamAppendResult};

use crate::network::{Peer, SentEntries, Way};
use crate::raft::Types;
use crate::wire;

/// How many requests are under way to a replica at a time: as many as the committer has entries in flight, and a few more.
const REQUESTS_MAX: usize = 8;

/// How many bytes are under way at a time, unless a single request has more. A large one fills the way by itself, and a transport
/// that cuts it into pieces may let what comes behind it overtake it.
const BYTES_MAX: usize = 256 << 10;

/// Requests to append on their way to one replica, several at a time, and what comes back, in the order in which they went out.
///
/// A request without entries goes out when all before it are answered: it has no news that could not wait for that, and is the one that
/// would overtake others. The first that the replica does not take as a whole ends it, and what is under way behind that is not waited for: each builds on
/// the one before. Openraft then goes on from what the replica is known to have.
pub(crate) struct PipelinedAppends<'a, S> {
    peer: &'a mut Peer,
    requests: Fuse<S>,
    /// The next request, if it has to wait for those before it.
    next: Option<AppendEntriesRequest<Types>>,
    under_way: FuturesOrdered<BoxFuture<'static, Answered>>,
    bytes: usize,
    /// How long one without entries may take.
    limit: time::Duration,
    /// Nothing comes any more.
    is_over: bool,
}

/// What came back for a request.
struct Answered {
    sent: SentEntries,
    bytes: usize,
    answer: Result<AppendEntriesResponse<Types>, RPCError<Types>>,
}

impl<'a, S: Stream<Item = AppendEntriesRequest<Types>> + Unpin> PipelinedAppends<'a, S> {
    pub(crate) fn new(peer: &'a mut Peer, requests: S, limit: time::Duration) -> Self {
        let (requests, under_way) = (requests.fuse(), FuturesOrdered::new());
        Self { peer, requests, next: None, under_way, bytes: 0, limit, is_over: false }
    }

    /// Sends what there is to send and may go.
    fn send(&mut self, cx: &mut Context<'_>) {
        loop {
            // One without entries makes way for the next, which tells the same and more.
            if self.next.as_ref().is_none_or(|request| request.entries.is_empty())
                && let Poll::Ready(Some(request)) = self.requests.poll_next_unpin(cx)
            {
                self.next = Some(request);
            }
            let Some(request) = self.next.take_if(|request| may_follow(request, self.under_way.len(), self.bytes))
            else {
                return;
            };
            let bytes = entries_bytes(&request);
            self.bytes += bytes;
            let (way, sent) = (self.peer.way.clone(), self.peer.sending(&request));
            self.under_way.push_back(Box::pin(exchange(way, (sent, request), bytes, self.limit)));
        }
    }

    fn conclude(&mut self, answered: Answered) -> Result<StreamAppendResult<Types>, RPCError<Types>> {
        let Answered { sent, bytes, answer } = answered;
        self.bytes -= bytes;
        let answer = answer.and_then(|answer| self.peer.check_answer(&sent, answer));
        let is_taken = match &answer {
            Ok(AppendEntriesResponse::Success) => true,
            Ok(AppendEntriesResponse::PartialSuccess(last)) => *last == sent.last,
            _ => false,
        };
        self.is_over = !is_taken;
        // `check_answer` lets no conflict pass that has nothing before it to be in conflict with.
        answer.map(|answer| answer.into_stream_result(sent.prev, sent.last))
    }
}

/// True if a request may go out behind so many with so many bytes.
fn may_follow(request: &AppendEntriesRequest<Types>, under_way: usize, bytes: usize) -> bool {
    let fits = bytes.saturating_add(entries_bytes(request)) <= BYTES_MAX;
    under_way == 0 || (under_way < REQUESTS_MAX && fits && !request.entries.is_empty())
}

fn entries_bytes(request: &AppendEntriesRequest<Types>) -> usize {
    request.entries.iter().map(wire::entry_bytes).sum()
}

async fn exchange(
    way: Arc<Way>,
    (sent, request): (SentEntries, AppendEntriesRequest<Types>),
    bytes: usize,
    limit: time::Duration,
) -> Answered {
    let answer = way.append(request, limit).await;
    Answered { sent, bytes, answer }
}

impl<S: Stream<Item = AppendEntriesRequest<Types>> + Unpin> Stream for PipelinedAppends<'_, S> {
    type Item = Result<StreamAppendResult<Types>, RPCError<Types>>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if this.is_over {
            return Poll::Ready(None);
        }
        this.send(cx);
        match this.under_way.poll_next_unpin(cx) {
            Poll::Ready(Some(answered)) => Poll::Ready(Some(this.conclude(answered))),
            // Then `send` has looked for more, and whatever there was has gone out.
            Poll::Ready(None) if this.requests.is_done() => Poll::Ready(None),
            // Nothing is under way, and the next request wakes this up.
            Poll::Ready(None) | Poll::Pending => Poll::Pending,
        }
    }
}
