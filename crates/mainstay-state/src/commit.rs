use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use mainstay_core::{Result, SequenceNumber, task};
use tokio::runtime::Handle;

use crate::transaction::Transaction;

/// A commit on its way. If nobody waits for it any more it goes on by itself: its locks must not be released before it
/// is known what became of it, or others would overwrite what they have not seen.
pub(crate) struct Committing {
    /// In a place of its own: the future that waits for it is moved about, also by those who commit at once.
    on_its_way: Option<Box<OnItsWay>>,
    /// Where it goes on by itself: whoever drops it may be a thread of no runtime.
    runtime: Option<Handle>,
}

struct OnItsWay {
    transaction: Transaction,
    outcome: Pin<Box<dyn Future<Output = Result<SequenceNumber>> + Send>>,
}

impl Committing {
    pub(crate) fn new(
        transaction: Transaction,
        outcome: Pin<Box<dyn Future<Output = Result<SequenceNumber>> + Send>>,
    ) -> Self {
        Self { on_its_way: Some(Box::new(OnItsWay { transaction, outcome })), runtime: Handle::try_current().ok() }
    }
}

impl Future for Committing {
    type Output = Result<SequenceNumber>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(commit) = &mut self.on_its_way else { return Poll::Pending };
        let outcome = std::task::ready!(commit.outcome.as_mut().poll(cx));
        commit.transaction.land(&outcome);
        self.on_its_way = None;
        Poll::Ready(outcome)
    }
}

impl Drop for Committing {
    fn drop(&mut self) {
        if let Some(commit) = self.on_its_way.take()
            && let Some(runtime) = &self.runtime
        {
            // If the runtime has ended there is nobody left who could be misled.
            let _entered = runtime.enter();
            task::spawn(async move {
                let OnItsWay { mut transaction, outcome } = *commit;
                let outcome = outcome.await;
                transaction.land(&outcome);
            });
        }
    }
}
