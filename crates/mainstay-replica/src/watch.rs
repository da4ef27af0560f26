use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use openraft::async_runtime::watch::{RecvError, SendError, Watch, WatchReceiver, WatchSender};
use openraft::{OptionalSend, OptionalSync};
use parking_lot::{RwLock, RwLockReadGuard};
use tokio::sync::Notify;

/// A value whose changes others wait for, as openraft wants it, for few who wait and many changes.
///
/// Openraft tells seven of these each time its main loop goes round, three times for a commit, and mostly nobody waits.
/// Tokio's own is made for many who wait: it keeps eight lists of them and looks through all for each change, which was
/// a twelfth of a commit in memory.
pub(crate) struct ReplicaWatch;

struct Shared<T> {
    value: RwLock<T>,
    /// How often the value has changed. Changed under the lock of the value.
    version: AtomicU64,
    changed: Notify,
    senders: AtomicUsize,
    receivers: AtomicUsize,
}

pub(crate) struct Sender<T> {
    shared: Arc<Shared<T>>,
}

pub(crate) struct Receiver<T> {
    shared: Arc<Shared<T>>,
    /// The version that was seen last.
    seen: u64,
}

impl Watch for ReplicaWatch {
    type Sender<T: OptionalSend + OptionalSync> = Sender<T>;
    type Receiver<T: OptionalSend + OptionalSync> = Receiver<T>;
    type Ref<'a, T: OptionalSend + 'a> = RwLockReadGuard<'a, T>;

    fn channel<T: OptionalSend + OptionalSync>(init: T) -> (Sender<T>, Receiver<T>) {
        let shared = Arc::new(Shared {
            value: RwLock::new(init),
            version: AtomicU64::new(0),
            changed: Notify::new(),
            senders: AtomicUsize::new(1),
            receivers: AtomicUsize::new(1),
        });
        (Sender { shared: shared.clone() }, Receiver { shared, seen: 0 })
    }
}

impl<T: OptionalSend + OptionalSync> WatchSender<ReplicaWatch, T> for Sender<T> {
    fn send(&self, value: T) -> Result<(), SendError<T>> {
        if self.shared.receivers.load(Ordering::Acquire) == 0 {
            return Err(SendError(value));
        }
        let before = {
            let mut current = self.shared.value.write();
            self.shared.version.fetch_add(1, Ordering::Release);
            std::mem::replace(&mut *current, value)
        };
        self.shared.changed.notify_waiters();
        drop(before);
        Ok(())
    }

    fn send_if_modified<F>(&self, modify: F) -> bool
    where
        F: FnOnce(&mut T) -> bool,
    {
        let is_modified = {
            let mut value = self.shared.value.write();
            let is_modified = modify(&mut value);
            if is_modified {
                self.shared.version.fetch_add(1, Ordering::Release);
            }
            is_modified
        };
        if is_modified {
            self.shared.changed.notify_waiters();
        }
        is_modified
    }

    fn borrow_watched(&self) -> RwLockReadGuard<'_, T> {
        self.shared.value.read()
    }

    fn subscribe(&self) -> Receiver<T> {
        self.shared.receivers.fetch_add(1, Ordering::Relaxed);
        Receiver { shared: self.shared.clone(), seen: self.shared.version.load(Ordering::Acquire) }
    }
}

impl<T> Shared<T> {
    /// Whether there is something new, which is seen herewith; an error if there never will be.
    fn look(&self, seen: &mut u64) -> Option<Result<(), RecvError>> {
        let is_closed = self.senders.load(Ordering::Acquire) == 0;
        let version = self.version.load(Ordering::Acquire);
        if *seen != version {
            *seen = version;
            return Some(Ok(()));
        }
        is_closed.then_some(Err(RecvError(())))
    }
}

impl<T: OptionalSend + OptionalSync> WatchReceiver<ReplicaWatch, T> for Receiver<T> {
    async fn changed(&mut self) -> Result<(), RecvError> {
        let Self { shared, seen } = self;
        loop {
            if let Some(found) = shared.look(seen) {
                return found;
            }
            let mut changed = pin!(shared.changed.notified());
            changed.as_mut().enable();
            // What has happened since, nobody will be woken for.
            if let Some(found) = shared.look(seen) {
                return found;
            }
            changed.await;
        }
    }

    fn borrow_watched(&self) -> RwLockReadGuard<'_, T> {
        self.shared.value.read()
    }

    fn borrow_and_update(&mut self) -> RwLockReadGuard<'_, T> {
        let value = self.shared.value.read();
        self.seen = self.shared.version.load(Ordering::Acquire);
        value
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.shared.senders.fetch_add(1, Ordering::Relaxed);
        Self { shared: self.shared.clone() }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        if self.shared.senders.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.shared.changed.notify_waiters();
        }
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        self.shared.receivers.fetch_add(1, Ordering::Relaxed);
        Self { shared: self.shared.clone(), seen: self.seen }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.shared.receivers.fetch_sub(1, Ordering::AcqRel);
    }
}
