use std::future::Future as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;

/// A wait for a [`Notify`] that stays in place between two polls, whichever task polls.
///
/// The one who waits looks for what it needs, [arms](NotifyWait::arm) the wait if that is not there, looks again, and
/// polls: what changes after the second look completes the wait.
#[derive(Debug)]
pub(crate) struct NotifyWait {
    notify: Arc<Notify>,
    /// Made by the first wait, and used again by every other.
    notified: Option<Pin<Box<OwnedNotified>>>,
    is_armed: bool,
}

impl NotifyWait {
    pub(crate) fn new(notify: Arc<Notify>) -> Self {
        Self { notify, notified: None, is_armed: false }
    }

    /// Counts notifications from now on. False if it does already.
    pub(crate) fn arm(&mut self) -> bool {
        if self.is_armed {
            return false;
        }
        let fresh = self.notify.clone().notified_owned();
        let notified = match &mut self.notified {
            Some(notified) => {
                notified.set(fresh);
                notified
            }
            none => none.insert(Box::pin(fresh)),
        };
        notified.as_mut().enable();
        self.is_armed = true;
        true
    }

    /// Ready if there was a notification since it was armed; then it is not armed any more. If not, the task that polls is
    /// woken by the next one, and none that polled before.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.notified {
            Some(notified) if self.is_armed => {
                let poll = notified.as_mut().poll(cx);
                self.is_armed = poll.is_pending();
                poll
            }
            _ => Poll::Ready(()),
        }
    }
}
