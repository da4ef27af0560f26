use std::sync::Arc;

use mainstay_core::Result;
use tokio::sync::oneshot;

use super::pool::Pool;
use crate::call::chain::Line;

/// What a call gets from a pool.
pub(super) enum Claim<T: Send + 'static> {
    Place(Place<T>),
    Waiter(Waiter<T>),
}

/// A place in a pool that is one call's own, with an instance or room for one. It goes back when it is dropped.
pub(super) struct Place<T: Send + 'static> {
    pool: Arc<Pool<T>>,
    instance: Option<T>,
    is_at_work: bool,
}

impl<T: Send + 'static> Place<T> {
    pub(super) fn new(pool: Arc<Pool<T>>, instance: Option<T>) -> Self {
        Self { pool, instance, is_at_work: false }
    }

    /// What the call holds.
    pub(super) fn line(&self) -> Arc<dyn Line> {
        self.pool.clone()
    }

    /// The instance, to be worked with. If [`end`](Place::end) is not called, it is not used again.
    /// `None` if there is none, and the pool cannot make one by itself: [`fill`](Place::fill) the place first.
    pub(super) fn begin(&mut self) -> Option<&mut T> {
        self.is_at_work = true;
        if self.instance.is_none() {
            self.instance = self.pool.make();
        }
        self.instance.as_mut()
    }

    /// True if there is room for an instance and none in it.
    pub(super) fn is_empty(&self) -> bool {
        self.instance.is_none()
    }

    /// Puts an instance into it that was made elsewhere.
    pub(super) fn fill(&mut self, instance: T) {
        self.instance = Some(instance);
    }

    /// The call has come to its end, with a result or an error.
    pub(super) fn end(mut self) {
        self.is_at_work = false;
    }
}

impl<T: Send + 'static> Drop for Place<T> {
    fn drop(&mut self) {
        let instance = self.instance.take();
        // A call that panicked or was cut short may have left anything behind in its instance.
        let (kept, lost) = if self.is_at_work { (None, instance) } else { (instance, None) };
        self.pool.discard(lost);
        self.pool.hand_on(kept);
    }
}

/// A call in the queue of a pool. It leaves the queue when it is dropped.
pub(super) struct Waiter<T: Send + 'static> {
    pool: Arc<Pool<T>>,
    number: u64,
    receiver: oneshot::Receiver<Option<T>>,
}

impl<T: Send + 'static> Waiter<T> {
    pub(super) fn new(pool: Arc<Pool<T>>, number: u64, receiver: oneshot::Receiver<Option<T>>) -> Self {
        Self { pool, number, receiver }
    }

    /// Waits for a place.
    ///
    /// # Errors
    /// `Fatal` if the pool is closed meanwhile.
    pub(super) async fn wait(mut self) -> Result<Place<T>> {
        match (&mut self.receiver).await {
            Ok(instance) => Ok(Place::new(self.pool.clone(), instance)),
            Err(_) => Err(self.pool.gone()),
        }
    }
}

impl<T: Send + 'static> Drop for Waiter<T> {
    fn drop(&mut self) {
        if self.pool.leave(self.number) {
            return;
        }
        // A place is on its way or has come: from here on it is refused, and one that has come goes to the next.
        self.receiver.close();
        if let Ok(instance) = self.receiver.try_recv() {
            self.pool.hand_on(instance);
        }
    }
}
