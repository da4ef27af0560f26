use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use mainstay_core::{Result, SequenceNumber};

use crate::transaction::Transaction;

/// A commit on its way. If nobody waits for it any more it goes on by itself, where the state is at home: its locks must not be
/// released before it is known what became of it, or others would overwrite what they have not seen.
pub(crate) struct Committing {
    /// In a place of its own: the future that waits for it is moved about, also by those who commit at once.
    on_its_way: Option<Box<OnItsWay>>,
}

struct OnItsWay {
    transaction: Transaction,
    outcome: Pin<Box<dyn Future<Output = Result<SequenceNumber>> + Send>>,
    has_landed: bool,
}

impl Committing {
    pub(crate) fn new(
        transaction: Transaction,
        outcome: Pin<Box<dyn Future<Output = Result<SequenceNumber>> + Send>>,
    ) -> Self {
        Self { on_its_way: Some(Box::new(OnItsWay { transaction, outcome, has_landed: false })) }
    }
}

impl Future for Committing {
    type Output = Result<SequenceNumber>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(commit) = &mut self.on_its_way else { return Poll::Pending };
        let outcome = std::task::ready!(commit.poll(cx));
        self.on_its_way = None;
        Poll::Ready(outcome)
    }
}

impl OnItsWay {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<SequenceNumber>> {
        let outcome = std::task::ready!(self.outcome.as_mut().poll(cx));
        self.has_landed = true;
        self.transaction.land(&outcome);
        Poll::Ready(outcome)
    }
}

impl Drop for Committing {
    fn drop(&mut self) {
        if let Some(mut commit) = self.on_its_way.take() {
            commit.transaction.tell_calls();
            let home = commit.transaction.shared().home.clone();
            home.spawn(async move { drop(std::future::poll_fn(|cx| commit.poll(cx)).await) });
        }
    }
}

impl Drop for OnItsWay {
    fn drop(&mut self) {
        if !self.has_landed {
            // Nobody is left who could wait for it. Before others get the locks: what they would find in memory may not be what
            // is committed.
            self.transaction.shared().session.end();
        }
    }
}
