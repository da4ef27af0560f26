use std::sync::Arc;

use mainstay_core::Result;
use tokio::sync::oneshot;

use super::instance_pool::InstancePool;
use crate::call::chain::HeldResource;

/// The result of acquiring an instance: a lease, or a place in the queue.
pub(super) enum LeaseAttempt<T: Send + 'static> {
    Leased(WorkerLease<T>),
    Queued(LeaseWaiter<T>),
}

/// The exclusive lease of an instance, or of the right to construct one, by one call. Dropping it returns it to the pool.
pub(super) struct WorkerLease<T: Send + 'static> {
    pool: Arc<InstancePool<T>>,
    instance: Option<T>,
    is_at_work: bool,
}

impl<T: Send + 'static> WorkerLease<T> {
    pub(super) fn new(pool: Arc<InstancePool<T>>, instance: Option<T>) -> Self {
        Self { pool, instance, is_at_work: false }
    }

    /// The resource that the call holds, for deadlock detection.
    pub(super) fn resource(&self) -> Arc<dyn HeldResource> {
        self.pool.clone()
    }

    /// The instance. Unless [`end`](WorkerLease::end) is called, the instance is dropped with the lease.
    /// `None` if there is none, and its constructor is async: [`fill`](WorkerLease::fill) the lease first.
    pub(super) fn begin(&mut self) -> Option<&mut T> {
        self.is_at_work = true;
        if self.instance.is_none() {
            self.instance = self.pool.make();
        }
        self.instance.as_mut()
    }

    /// True if the lease has no instance yet.
    pub(super) fn is_empty(&self) -> bool {
        self.instance.is_none()
    }

    /// Stores the instance of an async constructor.
    pub(super) fn fill(&mut self, instance: T) {
        self.instance = Some(instance);
    }

    /// Marks the call as ended, with a result or an error, so that the instance is reused.
    pub(super) fn end(mut self) {
        self.is_at_work = false;
    }
}

impl<T: Send + 'static> Drop for WorkerLease<T> {
    fn drop(&mut self) {
        let instance = self.instance.take();
        // A call that panicked or was dropped may have left its instance inconsistent.
        let (kept, lost) = if self.is_at_work { (None, instance) } else { (instance, None) };
        self.pool.discard(lost);
        self.pool.release(kept);
    }
}

/// A call in the queue of a pool. Dropping it leaves the queue.
pub(super) struct LeaseWaiter<T: Send + 'static> {
    pool: Arc<InstancePool<T>>,
    number: u64,
    receiver: oneshot::Receiver<Option<T>>,
}

impl<T: Send + 'static> LeaseWaiter<T> {
    pub(super) fn new(pool: Arc<InstancePool<T>>, number: u64, receiver: oneshot::Receiver<Option<T>>) -> Self {
        Self { pool, number, receiver }
    }

    /// Waits for the lease.
    ///
    /// # Errors
    /// `Fatal` if the pool is closed meanwhile.
    pub(super) async fn wait(mut self) -> Result<WorkerLease<T>> {
        match (&mut self.receiver).await {
            Ok(instance) => Ok(WorkerLease::new(self.pool.clone(), instance)),
            Err(_) => Err(self.pool.gone()),
        }
    }
}

impl<T: Send + 'static> Drop for LeaseWaiter<T> {
    fn drop(&mut self) {
        if self.pool.leave(self.number) {
            return;
        }
        // A lease was sent already: one that is in the channel goes to the next call, and a later send fails.
        self.receiver.close();
        if let Ok(instance) = self.receiver.try_recv() {
            self.pool.release(instance);
        }
    }
}
