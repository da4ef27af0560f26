use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_util::stream::Fuse;
use futures_util::{Stream, StreamExt as _};
use mainstay_core::time;
use openraft::raft::AppendEntriesRequest;

use crate::raft::Types;

/// How long the news that entries are committed may wait for entries that carry it along.
const PATIENCE: time::Duration = time::Duration::from_millis(2);

/// The requests to append for one replica, without those that have no entries, if others follow soon.
///
/// After each entry the primary tells the others that it is committed. That costs as much as an entry, holds up the next
/// one, and a secondary has no use for it but to apply. The next request tells the same, because it carries what is
/// committed by then; the lease is not touched, because openraft counts from when it made a request, not from when it went
/// out, and only what was answered.
pub(crate) struct CoalesceEmptyAppends<S> {
    requests: Fuse<S>,
    held: Option<AppendEntriesRequest<Types>>,
    patience: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl<S: Stream<Item = AppendEntriesRequest<Types>> + Unpin> CoalesceEmptyAppends<S> {
    pub(crate) fn new(requests: S) -> Self {
        Self { requests: requests.fuse(), held: None, patience: None }
    }

    fn hold(&mut self, request: AppendEntriesRequest<Types>) {
        self.held = Some(request);
        self.patience.get_or_insert_with(|| Box::pin(time::sleep(PATIENCE)));
    }

    fn release(&mut self) -> Option<AppendEntriesRequest<Types>> {
        self.patience = None;
        self.held.take()
    }
}

impl<S: Stream<Item = AppendEntriesRequest<Types>> + Unpin> Stream for CoalesceEmptyAppends<S> {
    type Item = AppendEntriesRequest<Types>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            match this.requests.poll_next_unpin(cx) {
                Poll::Ready(Some(request)) if request.entries.is_empty() => this.hold(request),
                Poll::Ready(Some(request)) => {
                    this.release();
                    return Poll::Ready(Some(request));
                }
                // A single request, such as a call to see whether the other is there, has nothing to wait for.
                Poll::Ready(None) => return Poll::Ready(this.release()),
                Poll::Pending => {
                    let Some(patience) = &mut this.patience else { return Poll::Pending };
                    ready!(patience.as_mut().poll(cx));
                    return Poll::Ready(this.release());
                }
            }
        }
    }
}
