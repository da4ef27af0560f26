use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use mainstay::{Error, Result};
use parking_lot::Mutex;

use super::failure::shared;

/// Where the callers of one batch wait for its outcome: one allocation for all of them.
pub(super) struct Cell<R>(Mutex<Outcome<R>>);

enum Outcome<R> {
    /// Who waits, by the place of its item. A caller that went away is woken in vain.
    Open(Vec<Option<Waker>>),
    /// What became of each, until its caller takes it.
    Known(Vec<Option<Result<R>>>),
}

impl<R> Cell<R> {
    pub(super) fn new(places: usize) -> Self {
        Self(Mutex::new(Outcome::Open(Vec::with_capacity(places))))
    }

    /// Tells everybody. Only the first outcome counts.
    pub(super) fn complete(&self, results: Vec<Option<Result<R>>>) {
        let wakers = {
            let mut outcome = self.0.lock();
            match &mut *outcome {
                Outcome::Known(_) => return,
                Outcome::Open(wakers) => {
                    let wakers = std::mem::take(wakers);
                    *outcome = Outcome::Known(results);
                    wakers
                }
            }
        };
        // After the lock is free, because it is the first thing that they will want.
        wakers.into_iter().flatten().for_each(Waker::wake);
    }

    /// Tells everybody, so many, the same.
    pub(super) fn fail(&self, items: usize, error: Error) {
        let error = Arc::new(error);
        self.complete((0..items).map(|_| Some(Err(shared(&error)))).collect());
    }
}

/// The place of one item in a batch: what its caller waits for.
pub(super) struct PendingReply<R> {
    pub(super) cell: Arc<Cell<R>>,
    pub(super) place: usize,
}

impl<R> Future for PendingReply<R> {
    type Output = Result<R>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<R>> {
        let place = self.place;
        match &mut *self.cell.0.lock() {
            Outcome::Known(results) => {
                let taken = results.get_mut(place).and_then(Option::take);
                Poll::Ready(taken.unwrap_or_else(|| Err(Error::fatal("the outcome of an item was taken before"))))
            }
            Outcome::Open(wakers) => {
                if wakers.len() <= place {
                    wakers.resize(place + 1, None);
                }
                match &mut wakers[place] {
                    Some(waker) => waker.clone_from(cx.waker()),
                    empty => *empty = Some(cx.waker().clone()),
                }
                Poll::Pending
            }
        }
    }
}
