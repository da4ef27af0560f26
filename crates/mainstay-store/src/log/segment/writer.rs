//! The two loops that carry blocks to disk. Both are the same stages in the same order; they differ in how they wait.

use std::sync::Arc;
use std::thread;

use mainstay_core::{random, time};
use parking_lot::MutexGuard;
use rand::RngExt as _;

use super::options::SyncDelay;
use super::shared::LogCore;
use super::space::LOOK_INTERVAL;

/// How often the writer lets others run before it goes on with what it has.
const COMPANY_ROUNDS_MAX: usize = 16;
/// From this many on a sync is well used anyway, and the time is better spent on it than on waiting.
const COMPANY_MAX: usize = 256;
/// How long the writer looks for more before it sleeps, if more came that soon the last time. To be woken takes a third of a sync
/// on a fast disk, and holds up who has brought it.
const LINGER: time::Duration = time::Duration::from_micros(300);

/// Writes blocks until the log is closed and nothing waits, or it has failed. While a block is synced the next one
/// gathers.
pub(super) fn run_thread(shared: &LogCore) {
    let mut called = 0;
    let mut ended = time::now();
    let mut is_lively = false;
    loop {
        if (2..=COMPANY_MAX).contains(&called) {
            await_company(shared, called);
        }
        if shared.is_failed() {
            return;
        }
        let block = {
            let mut state = shared.state.lock();
            loop {
                if let Some(block) = state.take_block() {
                    break block;
                }
                if state.closed || state.failure.is_some() {
                    return;
                }
                if is_lively && ended.elapsed() < LINGER {
                    MutexGuard::unlocked(&mut state, || linger(shared, ended));
                    continue;
                }
                state.idle = true;
                shared.work.wait(&mut state);
                state.idle = false;
            }
        };
        is_lively = ended.elapsed() < LINGER;
        called = block.dones.len();
        let result = shared.write(&block).and_then(|()| shared.sync(&block));
        shared.complete(block, result);
        ended = time::now();
    }
}

/// Looks for something to do, whenever nobody else who needs the core has it, until enough time has passed since a moment.
fn linger(shared: &LogCore, since: time::Instant) {
    while since.elapsed() < LINGER {
        thread::yield_now();
        // Whoever has the lock now would have to wake one who waits for it.
        if shared.state.try_lock().is_some_and(|state| state.has_news()) {
            return;
        }
    }
}

/// Lets those who were just called put in what they have next, so that it goes with what waits already and not one
/// sync later: without this, writers that wait for each of their batches fall into two halves that take turns. It
/// ends as soon as nobody came, or as many as were called.
fn await_company(shared: &LogCore, called: usize) {
    let waiting = || shared.state.lock().waiting();
    let mut seen = waiting();
    let expected = seen + called;
    for _ in 0..COMPANY_ROUNDS_MAX {
        thread::yield_now();
        let now = waiting();
        if now == seen || now >= expected {
            return;
        }
        seen = now;
    }
}

/// The same as a task, for simulation: a sync takes simulated time, and what the segment cleaner does is done in between.
pub(super) async fn run_task(shared: Arc<LogCore>, delay: SyncDelay) {
    loop {
        if shared.is_failed() {
            return;
        }
        let block = {
            let mut state = shared.state.lock();
            let block = state.take_block();
            if block.is_none() {
                if state.closed {
                    return;
                }
                state.idle = true;
            }
            block
        };
        let Some(block) = block else {
            if !shared.space.is_low() {
                shared.task.notified().await;
            } else if time::timeout(LOOK_INTERVAL, shared.task.notified()).await.is_err() {
                // Nobody may write while there is little room: it is looked for then.
                shared.look();
            }
            continue;
        };
        if let Err(error) = shared.write(&block) {
            return shared.complete(block, Err(error));
        }
        *shared.unsynced.lock() = Some(block);
        let nanos = random::rng().random_range(delay.min.as_nanos() as u64..=delay.max.as_nanos() as u64);
        time::sleep(time::Duration::from_nanos(nanos)).await;
        // Somebody who closes the log does the rest.
        let Some(block) = shared.unsynced.lock().take() else { return };
        let result = shared.sync(&block);
        shared.complete(block, result);
        let looks = {
            let state = shared.state.lock();
            state.look || state.keep
        };
        super::segment_cleaner::tend(&shared);
        if looks {
            shared.look();
        }
    }
}

/// Carries everything that waits to disk at once, for a task that does not run any more.
pub(super) fn flush(shared: &LogCore) {
    if let Some(block) = shared.unsynced.lock().take() {
        let result = shared.sync(&block);
        shared.complete(block, result);
    }
    loop {
        if shared.is_failed() {
            return;
        }
        let Some(block) = shared.state.lock().take_block() else { return };
        let result = shared.write(&block).and_then(|()| shared.sync(&block));
        shared.complete(block, result);
    }
}
