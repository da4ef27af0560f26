use std::any::Any;
use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::call::arrival::Method;

/// How many rooms a thread keeps for turns to come. A method has its place among them by where its record is.
const KEPT_ROOMS: usize = 8;

/// The largest room that is kept.
const KEPT_BYTES_MAX: usize = 1024;

thread_local! {
    static KEPT: [Cell<Option<Box<dyn Any>>>; KEPT_ROOMS] = const { [const { Cell::new(None) }; KEPT_ROOMS] };
}

/// Where the method of a turn is put while it runs. Most turns are over at once, and leave their room to the next one of the
/// same method on their thread.
pub(crate) struct PooledFuture<F> {
    inside: Box<Inside<F>>,
}

type Inside<F> = Pin<Box<Option<F>>>;

impl<F: 'static> PooledFuture<F> {
    /// Puts what `begin` makes into a future. It is made there: a future is large, and most of it is empty when it begins.
    #[inline(always)]
    pub(crate) fn new(method: &'static Method, begin: impl FnOnce() -> F) -> Self {
        let mut inside = Self::find(method);
        inside.set(None);
        inside.set(Some(begin()));
        Self { inside }
    }

    #[inline]
    fn find(method: &'static Method) -> Box<Inside<F>> {
        let kept = KEPT.try_with(|kept| kept[place(method)].take()).ok().flatten();
        match kept.map(|kept| kept.downcast::<Inside<F>>()) {
            Some(Ok(inside)) => inside,
            _ => Box::new(Box::pin(None)),
        }
    }

    /// Leaves the room to others. What is in it has ended.
    #[inline]
    pub(crate) fn vacate(self, method: &'static Method) {
        let Self { inside } = self;
        if size_of::<Option<F>>() <= KEPT_BYTES_MAX {
            // Where a thread ends, nobody needs it any more.
            let _ = KEPT.try_with(|kept| kept[place(method)].set(Some(inside)));
        }
    }
}

/// What is in it is not polled again once it has ended.
impl<F: Future> Future for PooledFuture<F> {
    type Output = F::Output;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        match Pin::as_mut(&mut self.inside).as_pin_mut() {
            Some(running) => running.poll(cx),
            None => Poll::Pending,
        }
    }
}

fn place(method: &'static Method) -> usize {
    std::ptr::from_ref(method).addr() / align_of::<Method>() % KEPT_ROOMS
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::task::Waker;

    use super::*;

    static ADD: Method = Method::new("Counter", "add");

    fn poll<F: Future + 'static>(future: &mut PooledFuture<F>) -> Poll<F::Output> {
        Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_room_is_empty_before_it_is_left_and_fits_whoever_comes_next() {
        let guest = Arc::new(());
        for turn in 0..3 {
            let guard = guest.clone();
            let mut future = PooledFuture::new(&ADD, || async move { (guard, turn).1 });
            assert_eq!((poll(&mut future), Arc::strong_count(&guest)), (Poll::Ready(turn), 1));
            future.vacate(&ADD);
            let mut other = PooledFuture::new(&ADD, || async { "another method at the same place" });
            assert_eq!(poll(&mut other), Poll::Ready("another method at the same place"));
            other.vacate(&ADD);
        }
    }

    #[test]
    fn the_same_room_serves_one_turn_after_another() {
        let address = || {
            let future = PooledFuture::new(&ADD, || std::future::ready(7_u64));
            let address = std::ptr::from_ref(&*future.inside).addr();
            future.vacate(&ADD);
            address
        };
        assert_eq!(address(), address());
    }
}
