use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use mainstay_state::actor::Published;
use parking_lot::Mutex;

use crate::actor::event::definition::AnyEvent;

/// What waits for one subscriber. It is bounded: who is slow loses the oldest, and hears how many.
#[derive(Default)]
pub(crate) struct Inbox {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    waiting: VecDeque<Waiting>,
    /// The last event that was put in; `None` if it is not known what there was before the subscription.
    last: Option<Last>,
    /// True if the actor was deleted after everything that waits.
    is_deleted: bool,
    is_stopped: bool,
    waker: Option<Waker>,
}

#[derive(Clone, Copy)]
struct Last {
    /// The life of the actor that it is from; `None` for one that has not published anything.
    life: Option<u64>,
    count: u64,
}

/// An event that waits.
pub(crate) struct Waiting {
    pub(crate) event: Arc<dyn AnyEvent>,
    pub(crate) sequence: u64,
    pub(crate) missed: u64,
    /// Its number with the life of the actor, where they are known.
    pub(crate) number: Option<Published>,
    /// True if the actor was deleted between the one before and this one.
    is_after_deletion: bool,
}

/// What a subscriber finds.
pub(crate) enum Taken {
    Event(Waiting),
    /// The actor was deleted.
    Deleted,
    /// There will be nothing any more.
    Stopped,
}

impl Inbox {
    /// Says how many events there were before the subscription, unless one has come meanwhile.
    pub(crate) fn start(&self, published: Option<Published>) {
        let last = Last { life: published.map(|it| it.life), count: published.map_or(0, |it| it.count) };
        self.inner.lock().last.get_or_insert(last);
    }

    /// The number of the last event that was put in or known of, with its life; `None` if that is not known.
    pub(crate) fn last_number(&self) -> Option<Published> {
        let last = self.inner.lock().last?;
        Some(Published { life: last.life?, count: last.count })
    }

    /// Puts an event in, which is then the last of so many; just the next one if that is not known.
    pub(crate) fn push(&self, event: Arc<dyn AnyEvent>, number: Option<Published>, waiting_max: usize) {
        let mut displaced = Vec::new();
        let mut inner = self.inner.lock();
        if inner.is_stopped {
            return;
        }
        let (sequence, missed, is_new_life) = match (number, inner.last) {
            (None, last) => (last.map_or(1, |last| last.count.saturating_add(1)), 0, false),
            (Some(number), None) => (number.count, 0, false),
            (Some(number), Some(last)) if last.life.is_none_or(|life| life == number.life) => {
                (number.count, number.count.saturating_sub(last.count.saturating_add(1)), false)
            }
            (Some(number), Some(_)) => (number.count, number.count.saturating_sub(1), true),
        };
        let life = number.map(|number| number.life).or(inner.last.and_then(|last| last.life));
        inner.last = Some(Last { life, count: sequence });
        let is_after_deletion = std::mem::take(&mut inner.is_deleted) || is_new_life;
        inner.waiting.push_back(Waiting { event, sequence, missed, number, is_after_deletion });
        while inner.waiting.len() > waiting_max.max(1) {
            let Some(oldest) = inner.waiting.pop_front() else { break };
            if let Some(next) = inner.waiting.front_mut() {
                next.missed = next.missed.saturating_add(oldest.missed).saturating_add(1);
                next.is_after_deletion |= oldest.is_after_deletion;
            }
            displaced.push(oldest);
        }
        let waker = inner.waker.take();
        // Before others' code runs: that of what is dropped, and of whoever is woken.
        drop(inner);
        drop(displaced);
        wake(waker);
    }

    /// Says that the actor was deleted: its events are counted anew.
    pub(crate) fn delete(&self) {
        let mut inner = self.inner.lock();
        inner.is_deleted = true;
        inner.last = Some(Last { life: None, count: 0 });
        let waker = inner.waker.take();
        drop(inner);
        wake(waker);
    }

    /// Says that nothing will come any more. What waits can still be taken.
    pub(crate) fn stop(&self) {
        let mut inner = self.inner.lock();
        inner.is_stopped = true;
        let waker = inner.waker.take();
        drop(inner);
        wake(waker);
    }

    /// Takes what is next; `None` if there is nothing yet.
    pub(crate) fn take(&self) -> Option<Taken> {
        self.inner.lock().take()
    }

    /// Takes what is next, or waits for it.
    pub(crate) fn poll(&self, cx: &mut Context<'_>) -> Poll<Taken> {
        let mut inner = self.inner.lock();
        match inner.take() {
            Some(taken) => Poll::Ready(taken),
            None => {
                match &mut inner.waker {
                    Some(waker) => waker.clone_from(cx.waker()),
                    None => inner.waker = Some(cx.waker().clone()),
                }
                Poll::Pending
            }
        }
    }
}

impl Inner {
    fn take(&mut self) -> Option<Taken> {
        match self.waiting.front_mut() {
            Some(first) if first.is_after_deletion => {
                first.is_after_deletion = false;
                Some(Taken::Deleted)
            }
            Some(_) => self.waiting.pop_front().map(Taken::Event),
            None if std::mem::take(&mut self.is_deleted) => Some(Taken::Deleted),
            None => self.is_stopped.then_some(Taken::Stopped),
        }
    }
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

#[cfg(test)]
mod tests;
