use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use mainstay_core::task::Home;
use mainstay_core::{Result, SequenceNumber};

use crate::partition_session::{PartitionSession, Underway};

/// A commit of an actor on its way. If nobody waits for it any more, what is known of the partition here is out of date, and
/// the commit goes on by itself: the partition must not be opened again before it is known what became of it.
pub(super) struct Committing<'s> {
    pub(super) home: &'s Home,
    pub(super) session: &'s PartitionSession,
    pub(super) on_its_way: Option<OnItsWay>,
}

/// A commit without an outcome, which is counted until it has one.
pub(super) struct OnItsWay {
    pub(super) outcome: Pin<Box<dyn Future<Output = Result<SequenceNumber>> + Send>>,
    pub(super) _underway: Underway,
}

impl Future for Committing<'_> {
    type Output = Result<SequenceNumber>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(commit) = &mut self.on_its_way else { return Poll::Pending };
        let outcome = ready!(commit.outcome.as_mut().poll(cx));
        self.on_its_way = None;
        Poll::Ready(outcome.inspect_err(|error| self.session.end_if_unknown(error)))
    }
}

impl Drop for Committing<'_> {
    fn drop(&mut self) {
        let Some(commit) = self.on_its_way.take() else { return };
        // First: whoever is told next that the commit was given up would read what it is about to replace.
        self.session.end();
        let OnItsWay { outcome, _underway } = commit;
        self.home.spawn(async move {
            let _underway = _underway;
            // What became of it is for whoever opens the partition again to see.
            let _ = outcome.await;
        });
    }
}

/// What is to come to its end, or else closes what is known of the partition here.
pub(super) struct Unfinished<'s> {
    session: Option<&'s PartitionSession>,
}

impl<'s> Unfinished<'s> {
    pub(super) fn new(session: &'s PartitionSession) -> Self {
        Self { session: Some(session) }
    }

    /// It has come to its end.
    pub(super) fn disarm(mut self) {
        self.session = None;
    }
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if let Some(session) = self.session {
            session.end();
        }
    }
}
