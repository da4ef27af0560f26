use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use mainstay_core::{Error, ErrorKind, Result};

use crate::channel::Channel;
use crate::party::Peer;

/// The longest time limit of a call: what its 32 bits of milliseconds hold is 49 days.
pub(super) const TIME_LIMIT_MAX: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// A call under way. Dropped, it is cancelled.
pub(super) struct Call {
    channel: Arc<Channel>,
    id: Option<u64>,
}

impl Call {
    pub(super) fn new(channel: Arc<Channel>, id: u64) -> Self {
        Self { channel, id: Some(id) }
    }

    /// Cancels it, because its time is over.
    pub(super) fn timed_out(mut self, to: Peer, limit: Duration) -> Error {
        match self.id.take().is_none_or(|id| self.channel.abandon(id)) {
            true => Error::new(
                ErrorKind::OutcomeUnknown,
                format!("{to} has not answered within {limit:?}, and the request may have been carried out"),
            ),
            false => Error::new(ErrorKind::Timeout, format!("the request to {to} could not be sent within {limit:?}")),
        }
    }
}

impl Future for Call {
    type Output = Result<Bytes>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(id) = self.id else { return Poll::Pending };
        let outcome = ready!(self.channel.poll_call(id, cx));
        self.id = None;
        Poll::Ready(outcome)
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            self.channel.abandon(id);
        }
    }
}
