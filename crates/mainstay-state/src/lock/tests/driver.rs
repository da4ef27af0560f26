//! Transactions that are driven by hand, one poll at a time, on one thread.
#![allow(clippy::await_holding_refcell_ref, reason = "one thread, and who waits is asked for nothing else")]

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use mainstay_core::time::Duration;
use mainstay_core::{Error, Result};
use mainstay_replica::Key;

use crate::layout::{self, CollectionId};
use crate::lock::{LockMode, LockOwner, LockTable, TransactionId};

/// The limit of requests whose time is never to be over.
pub(super) const LONG: Duration = Duration::from_secs(1000);

/// A transaction, and the request with which it waits.
pub(super) struct Actor {
    owner: Rc<RefCell<Owner>>,
    wait: Option<Wait>,
}

struct Wait {
    future: Pin<Box<dyn Future<Output = Result<()>>>>,
    woken: Arc<Woken>,
}

struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// An owner of locks of a table that is nothing else.
pub(super) type Owner = LockOwner<LockTable>;

pub(super) fn table() -> Arc<LockTable> {
    Arc::new(LockTable::new())
}

/// The key of a collection, or of something in one.
pub(super) fn key(name: &str) -> Key {
    collection(name).map_or_else(|| Key::from(name.as_bytes()), layout::length)
}

/// The collections that there are.
pub(super) fn collection(name: &str) -> Option<CollectionId> {
    let number = ["stock", "orders"].iter().position(|other| *other == name)?;
    Some(CollectionId(number as u32 + 1))
}

/// Transactions 1 to `count` of one table.
pub(super) fn actors<const COUNT: usize>(table: &Arc<LockTable>) -> [Actor; COUNT] {
    std::array::from_fn(|n| Actor::new(table, n as u64 + 1))
}

impl Actor {
    pub(super) fn new(table: &Arc<LockTable>, id: u64) -> Self {
        Self { owner: Rc::new(RefCell::new(Owner::new(table.clone(), TransactionId(id)))), wait: None }
    }

    pub(super) fn try_acquire(&self, name: &str, mode: LockMode) -> bool {
        self.owner.borrow_mut().try_acquire(&key(name), mode)
    }

    /// Shares what nearly everybody shares.
    pub(super) fn shares(&self, name: &str) {
        assert!(self.try_share(name), "{name}");
    }

    pub(super) fn try_share(&self, name: &str) -> bool {
        self.owner.borrow_mut().try_share(collection(name).expect("a collection"))
    }

    /// Says that it wants what others share.
    pub(super) fn bars(&self) {
        self.owner.borrow_mut().bar();
    }

    /// Begins to acquire, and is ready if that ended at once.
    pub(super) fn acquire(&mut self, name: &str, mode: LockMode) -> Poll<Result<()>> {
        self.acquire_within(name, mode, LONG)
    }

    pub(super) fn acquire_within(&mut self, name: &str, mode: LockMode, limit: Duration) -> Poll<Result<()>> {
        self.start(name, mode, limit);
        self.poll()
    }

    /// Makes the future and does not poll it.
    pub(super) fn start(&mut self, name: &str, mode: LockMode, limit: Duration) {
        assert!(self.wait.is_none(), "a transaction does one thing at a time");
        let (owner, name) = (self.owner.clone(), name.to_owned());
        let future = Box::pin(async move {
            let what = || format!("dictionary stock, key {name:?}");
            owner.borrow_mut().acquire(&key(&name), mode, limit, what).await
        });
        self.wait = Some(Wait { future, woken: Arc::new(Woken(AtomicBool::new(true))) });
    }

    /// Polls what waits.
    pub(super) fn poll(&mut self) -> Poll<Result<()>> {
        let wait = self.wait.as_mut().expect("it waits");
        wait.woken.0.store(false, Ordering::SeqCst);
        let waker = Waker::from(wait.woken.clone());
        let poll = wait.future.as_mut().poll(&mut Context::from_waker(&waker));
        if poll.is_ready() {
            self.wait = None;
        }
        poll
    }

    /// Whether it was woken since it was polled.
    pub(super) fn is_woken(&self) -> bool {
        self.wait.as_ref().is_some_and(|wait| wait.woken.0.load(Ordering::SeqCst))
    }

    pub(super) fn is_waiting(&self) -> bool {
        self.wait.is_some()
    }

    /// The next poll comes from another task.
    pub(super) fn change_waker(&mut self) {
        let wait = self.wait.as_mut().expect("it waits");
        wait.woken = Arc::new(Woken(AtomicBool::new(false)));
    }

    /// Drops the future of what waits.
    pub(super) fn cancel(&mut self) {
        self.wait = None;
    }

    pub(super) fn holds(&self, name: &str) -> Option<LockMode> {
        self.owner.borrow().holds(&key(name))
    }

    pub(super) fn release(&mut self) {
        self.cancel();
        self.owner.borrow_mut().release_all();
    }

    /// Acquires what must be granted at once.
    pub(super) fn gets(&mut self, name: &str, mode: LockMode) {
        match self.acquire(name, mode) {
            Poll::Ready(Ok(())) => {}
            other => panic!("{name} in {mode} mode: {other:?}"),
        }
    }

    /// Begins to acquire what must not be granted at once.
    pub(super) fn waits(&mut self, name: &str, mode: LockMode) {
        assert!(self.acquire(name, mode).is_pending(), "{name} in {mode} mode");
    }

    /// Ends a wait that must have been woken, and granted.
    pub(super) fn was_granted(&mut self) {
        assert!(self.is_woken(), "granted without a word");
        assert!(matches!(self.poll(), Poll::Ready(Ok(()))));
    }

    /// Acquires what must be refused at once.
    pub(super) fn is_refused(&mut self, name: &str, mode: LockMode) -> Error {
        match self.acquire(name, mode) {
            Poll::Ready(Err(error)) => error,
            other => panic!("{name} in {mode} mode: {other:?}"),
        }
    }
}
