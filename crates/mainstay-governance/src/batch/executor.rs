use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use mainstay::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;

use super::cell::PendingReply;
use super::executors::{Closes, Executors};
use super::in_place::has_other_threads;
use super::lane;
use super::queue::{Flying, Next, Phase, Queue};
use super::stats::Counters;
use super::watchdog::{self, STUCK_AFTER};
use super::{BatchSettings, BatchStats, BatchWriter};
use crate::AsServices;

/// How often a lane lets others run before it goes on with what it has.
const COMPANY_ROUNDS_MAX: usize = 16;

/// How many bytes an item counts.
pub type ItemSize<T> = fn(&T) -> usize;

/// Takes items one by one and writes them many at a time: see the [module](super).
///
/// Cheap to clone; all clones are one executor. When the last one is dropped without [`close`](BatchExecutor::close), what
/// has not begun to be written fails, and what has begun ends.
///
/// It does not belong to a node, and is not closed by the stop of one unless it is told to:
/// [`closes_with`](BatchExecutor::closes_with).
pub struct BatchExecutor<T, R = ()> {
    shared: Arc<ExecutorCore<T, R>>,
    _handle: Arc<Handle<T, R>>,
}

/// An item that was accepted: a future of what becomes of it. The item is written even if this is dropped.
#[must_use = "what became of an item is known when this is awaited"]
pub struct Submitted<R>(PendingReply<R>);

/// What callers and lanes have in common.
pub(super) struct ExecutorCore<T, R> {
    pub(super) name: String,
    pub(super) settings: BatchSettings,
    pub(super) counters: Counters,
    size: Option<ItemSize<T>>,
    queue: Mutex<Queue<T, R>>,
    /// Room for items, and for their bytes.
    items: Semaphore,
    bytes: Option<Semaphore>,
    /// Wakes a lane.
    work: Notify,
    /// Wakes who waits for batches to end.
    progress: Notify,
    /// Wakes lanes that wait between two tries.
    abandoned: Notify,
    /// Wakes the watchdog, where there is one: a runtime of one thread that is blocked has nobody to look after it.
    watchdog: Option<Arc<Notify>>,
}

/// Notices when nobody can submit any more.
struct Handle<T, R>(Arc<ExecutorCore<T, R>>);

impl<T, R> Drop for Handle<T, R> {
    fn drop(&mut self) {
        let name = &self.0.name;
        self.0.abandon(format!(
            "the batch executor {name:?} was dropped before the item was written: submit it again, and close it before \
             it is dropped"
        ));
    }
}

impl<T, R> Clone for BatchExecutor<T, R> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone(), _handle: self._handle.clone() }
    }
}

impl<T, R> fmt::Debug for BatchExecutor<T, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BatchExecutor").field("name", &self.shared.name).finish_non_exhaustive()
    }
}

impl<R> Future for Submitted<R> {
    type Output = Result<R>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<R>> {
        Pin::new(&mut self.0).poll(cx)
    }
}

impl<T: Send + Sync + 'static, R: Send + 'static> BatchExecutor<T, R> {
    /// Starts an executor that writes by `writer`; errors and logs call it `name`. It runs on the tokio runtime that this
    /// is called on.
    ///
    /// # Errors
    /// `Invalid` if a setting cannot be, if bytes are limited (use [`start_sized`](BatchExecutor::start_sized)), or outside
    /// of a runtime.
    pub fn start<W: BatchWriter<T, R>>(name: impl Into<String>, writer: W, settings: BatchSettings) -> Result<Self> {
        if settings.counts_bytes() {
            return Err(Error::invalid(
                "bytes_max and waiting_bytes_max need to know how large an item is: use `BatchExecutor::start_sized`",
            ));
        }
        Self::launch(name.into(), writer, settings, None)
    }

    /// Starts an executor that knows how large items are, as `size` counts them.
    ///
    /// # Errors
    /// As [`start`](BatchExecutor::start).
    pub fn start_sized<W: BatchWriter<T, R>>(
        name: impl Into<String>,
        writer: W,
        settings: BatchSettings,
        size: ItemSize<T>,
    ) -> Result<Self> {
        Self::launch(name.into(), writer, settings, Some(size))
    }

    fn launch<W: BatchWriter<T, R>>(
        name: String,
        writer: W,
        settings: BatchSettings,
        size: Option<ItemSize<T>>,
    ) -> Result<Self> {
        settings.check().map_err(|error| error.about(format_args!("the batch executor {name:?} cannot start")))?;
        let runtime = tokio::runtime::Handle::try_current().map_err(|error| {
            Error::invalid(format!("the batch executor {name:?} needs a tokio runtime to run on")).with_source(error)
        })?;
        let lanes = settings.in_flight_max;
        let shared = Arc::new(ExecutorCore {
            counters: Counters::of(&name),
            name,
            size,
            queue: Mutex::new(Queue::new(&settings)),
            items: Semaphore::new(settings.waiting_items_max),
            bytes: settings.waiting_bytes_max.map(Semaphore::new),
            work: Notify::new(),
            progress: Notify::new(),
            abandoned: Notify::new(),
            watchdog: has_other_threads().then(Arc::default),
            settings,
        });
        let (writer, crew) = (Arc::new(writer), lane::Crew::new(&shared));
        for _ in 0..lanes {
            drop(runtime.spawn(lane::run(shared.clone(), writer.clone(), crew.clone())));
        }
        if let Some(bell) = &shared.watchdog {
            let (crew, writer) = (Arc::downgrade(&crew), Arc::downgrade(&writer));
            drop(runtime.spawn(watchdog::run(crew, writer, bell.clone())));
        }
        let handle = Arc::new(Handle(shared.clone()));
        Ok(Self { shared, _handle: handle })
    }

    /// Has an item written, and returns its result when the batch that it was part of has been written. Waits while there
    /// is no room for more.
    ///
    /// Items are written in the order in which they were accepted. If this is dropped while it waits for room, the item is
    /// not written; after that it is, and nobody is told.
    ///
    /// # Errors
    /// What the writer says; `Fatal` if the executor is closed or was dropped before the item was written, and
    /// `OutcomeUnknown` if the writer panicked or its runtime ended meanwhile; `TooLarge` if the item alone exceeds
    /// `waiting_bytes_max`.
    pub async fn submit(&self, item: T) -> Result<R> {
        let shared = &*self.shared;
        let bytes = shared.size_of(&item)?;
        match shared.items.try_acquire() {
            Ok(permit) => permit.forget(),
            Err(_) => shared.items.acquire().await.map_err(|_| shared.closed())?.forget(),
        }
        if let Some(room) = &shared.bytes {
            // Gives the other room back if the caller goes away meanwhile.
            let items = Returned(&shared.items);
            room.acquire_many(bytes as u32).await.map_err(|_| shared.closed())?.forget();
            std::mem::forget(items);
        }
        shared.enqueue(item, bytes)?.await
    }

    /// Has an item written if there is room for it now. What it returns can be awaited at any time, or not at all.
    ///
    /// # Errors
    /// `Overloaded` if there is no room; otherwise as [`submit`](BatchExecutor::submit).
    pub fn try_submit(&self, item: T) -> Result<Submitted<R>> {
        let shared = &*self.shared;
        let bytes = shared.size_of(&item)?;
        let items = shared.items.try_acquire().map_err(|_| shared.refused())?;
        if let Some(room) = &shared.bytes {
            room.try_acquire_many(bytes as u32).map_err(|_| shared.refused())?.forget();
        }
        items.forget();
        Ok(Submitted(shared.enqueue(item, bytes)?))
    }

    /// Has everything written that was accepted so far, without waiting for more, and returns when that has ended. How it
    /// ended is told to whoever submitted it.
    pub async fn flush(&self) {
        let horizon = {
            let mut queue = self.shared.queue.lock();
            queue.seal();
            queue.horizon()
        };
        self.shared.work.notify_one();
        self.shared.ended_before(horizon).await;
    }

    /// Takes nothing more, writes what is there, and returns when that has ended. What waits for room fails.
    pub async fn close(&self) {
        self.shared.finish().await;
    }

    /// The same executor, which is [closed](BatchExecutor::close) when a node is stopped in order, before its services are.
    /// The node has to [serve](super::serve) that.
    ///
    /// # Errors
    /// `NotFound` if the node does not serve it; `Overloaded` if it has [`EXECUTORS_MAX`](super::EXECUTORS_MAX) already.
    pub fn closes_with(self, node: &impl AsServices) -> Result<Self> {
        let executors = node.services().provided::<Executors>().map_err(|error| {
            let name = &self.shared.name;
            let text = format!("no node closes batch executor `{name}`; build the node with `batch::serve(builder)`");
            Error::new(ErrorKind::NotFound, text).with_source(error)
        })?;
        let shared: Arc<dyn Closes> = self.shared.clone();
        executors.note(Arc::downgrade(&shared))?;
        Ok(self)
    }

    /// What it has done so far.
    pub fn stats(&self) -> BatchStats {
        self.shared.counters.read(self.shared.queue.lock().items())
    }
}

impl<T: Send + Sync + 'static, R: Send + 'static> Closes for ExecutorCore<T, R> {
    fn finish(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        let horizon = self.close(Phase::Closing);
        Box::pin(self.ended_before(horizon))
    }
}

/// Room that is given back.
struct Returned<'a>(&'a Semaphore);

impl Drop for Returned<'_> {
    fn drop(&mut self) {
        self.0.add_permits(1);
    }
}

impl<T, R> ExecutorCore<T, R> {
    fn size_of(&self, item: &T) -> Result<usize> {
        let Some(size) = self.size else { return Ok(0) };
        let bytes = size(item);
        match self.settings.waiting_bytes_max {
            Some(limit) if bytes > limit => Err(Error::new(
                ErrorKind::TooLarge,
                format!(
                    "an item of {bytes} bytes exceeds waiting_bytes_max of {limit} of the batch executor {:?}",
                    self.name
                ),
            )),
            _ => Ok(bytes),
        }
    }

    fn enqueue(&self, item: T, bytes: usize) -> Result<PendingReply<R>> {
        let mut queue = self.queue.lock();
        if queue.phase != Phase::Open {
            return Err(self.closed());
        }
        let (ticket, is_due) = queue.push(item, bytes);
        let wakes = is_due && queue.idle > 0 && !queue.is_signalled;
        queue.is_signalled |= wakes;
        drop(queue);
        self.counters.metrics.waiting.increment(1.0);
        if wakes {
            self.work.notify_one();
        }
        Ok(ticket)
    }

    /// What a lane writes next; `None` if it is to end.
    pub(super) async fn next(&self) -> Option<super::queue::Batch<T, R>> {
        loop {
            self.await_company().await;
            let until = {
                let mut queue = self.queue.lock();
                match queue.next() {
                    Next::Write(batch) => {
                        let wakes = queue.idle > 0 && queue.has_more();
                        queue.is_signalled |= wakes;
                        drop(queue);
                        if wakes {
                            self.work.notify_one();
                        }
                        self.make_room(batch.items.len(), batch.bytes);
                        return Some(batch);
                    }
                    Next::End => {
                        drop(queue);
                        // Another that was about to sleep may have missed that it is over.
                        self.work.notify_one();
                        return None;
                    }
                    Next::SleepUntil(due) => {
                        queue.idle += 1;
                        Some(due)
                    }
                    Next::Sleep => {
                        queue.idle += 1;
                        None
                    }
                }
            };
            let asleep = Asleep(self);
            match until {
                None => self.work.notified().await,
                Some(due) => {
                    // Whichever comes first: the time, or a reason not to wait for it.
                    let _ = tokio::time::timeout_at(due, self.work.notified()).await;
                }
            }
            drop(asleep);
        }
    }

    /// Lets those who were just answered submit what they have next, so that it goes with what waits already and not one
    /// batch later: without this, callers that wait for each of their items fall into groups that take turns. It ends as
    /// soon as nobody came, or enough.
    async fn await_company(&self) {
        let mut seen = 0;
        for _ in 0..COMPANY_ROUNDS_MAX {
            {
                let queue = self.queue.lock();
                if !queue.expects_company() || queue.items() == seen {
                    return;
                }
                seen = queue.items();
            }
            tokio::task::yield_now().await;
        }
    }

    fn make_room(&self, items: usize, bytes: usize) {
        self.counters.metrics.waiting.decrement(items as f64);
        self.items.add_permits(items);
        if let Some(room) = &self.bytes {
            room.add_permits(bytes);
        }
    }

    /// The callers of so many items are about to be answered.
    pub(super) fn answers(&self, items: usize) {
        self.queue.lock().answers(items);
    }

    /// A batch has ended.
    pub(super) fn ended(&self, number: u64) {
        self.queue.lock().ended(number);
        self.progressed();
    }

    /// Lets those look who wait for batches to end.
    pub(super) fn progressed(&self) {
        self.progress.notify_waiters();
    }

    /// True if somebody notices when a lane is stuck.
    pub(super) fn is_watched(&self) -> bool {
        self.watchdog.is_some()
    }

    /// A try to write a batch begins.
    pub(super) fn try_begins(&self, number: u64) {
        let Some(bell) = &self.watchdog else { return };
        let stuck_at = Instant::now() + self.settings.write_time_max + STUCK_AFTER;
        if self.queue.lock().try_begins(number, stuck_at) {
            bell.notify_one();
        }
    }

    /// A try to write a batch has ended. False if it was given up before.
    pub(super) fn try_ends(&self, number: u64) -> bool {
        self.watchdog.is_none() || self.queue.lock().try_ends(number)
    }

    /// Takes out the batches whose writers are stuck, and says when to look again.
    pub(super) fn look_after(&self, now: Instant) -> (Vec<Flying<R>>, Option<Instant>) {
        self.queue.lock().look_after(now)
    }

    /// No lane is left.
    pub(super) fn dismiss(&self) {
        if let Some(bell) = &self.watchdog {
            bell.notify_one();
        }
    }

    async fn ended_before(&self, horizon: u64) {
        loop {
            let mut progress = std::pin::pin!(self.progress.notified());
            progress.as_mut().enable();
            if self.queue.lock().unfinished() >= horizon {
                return;
            }
            progress.await;
        }
    }

    /// Takes nothing more. Returns the number before which all batches are that are still to be written.
    fn close(&self, phase: Phase) -> u64 {
        let horizon = {
            let mut queue = self.queue.lock();
            if queue.phase != Phase::Abandoned {
                queue.phase = phase;
            }
            queue.seal();
            queue.horizon()
        };
        self.items.close();
        if let Some(room) = &self.bytes {
            room.close();
        }
        // One that sleeps is woken now, one that is about to sleep finds a permit.
        self.work.notify_waiters();
        self.work.notify_one();
        horizon
    }

    /// Fails what has not begun, and takes nothing more.
    pub(super) fn abandon(&self, reason: String) {
        self.close(Phase::Abandoned);
        let batches = self.queue.lock().drain();
        for batch in batches {
            self.counters.metrics.waiting.decrement(batch.items.len() as f64);
            self.counters.abandoned(batch.items.len());
            batch.cell.fail(batch.items.len(), Error::fatal(reason.clone()));
        }
        self.abandoned.notify_waiters();
        self.progress.notify_waiters();
    }

    /// Returns when the executor is given up.
    pub(super) async fn given_up(&self) {
        loop {
            let mut abandoned = std::pin::pin!(self.abandoned.notified());
            abandoned.as_mut().enable();
            if self.queue.lock().phase == Phase::Abandoned {
                return;
            }
            abandoned.await;
        }
    }

    fn closed(&self) -> Error {
        Error::fatal(format!("the batch executor {:?} is closed: the item was not taken", self.name))
    }

    fn refused(&self) -> Error {
        if self.items.is_closed() {
            return self.closed();
        }
        let text = format!(
            "{} items wait for the batch executor {:?} already: slow down, or use `submit`, which waits",
            self.queue.lock().items(),
            self.name
        );
        Error::new(ErrorKind::Overloaded, text)
    }
}

/// A lane that sleeps.
struct Asleep<'a, T, R>(&'a ExecutorCore<T, R>);

impl<T, R> Drop for Asleep<'_, T, R> {
    fn drop(&mut self) {
        self.0.queue.lock().idle -= 1;
    }
}
