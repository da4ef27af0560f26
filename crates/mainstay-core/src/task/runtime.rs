//! Which runtime polls a future.

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::task::{Context, RawWakerVTable};

use tokio::runtime::{Handle, Id};
use tokio::task;

thread_local! {
    /// The task that was looked at last.
    static SEEN: Cell<Option<Seen>> = const { Cell::new(None) };
}

/// The functions of the wakers of tokio's tasks, once a task has been seen.
static TASK_WAKER: AtomicPtr<RawWakerVTable> = AtomicPtr::new(ptr::null_mut());

/// A task and its runtime. A task has one for as long as it lives, and no two tasks of a process have one id. It is told
/// by its waker too, because a task may block on a future of another runtime. That has to be the waker of a task: those by which
/// a thread waits that is blocked are the same for all runtimes.
#[derive(Clone, Copy)]
struct Seen {
    task: task::Id,
    waker: *const (),
    runtime: Id,
}

/// The runtime of whoever polls with this context; `None` if there is none.
///
/// To ask tokio for it costs two changes of a counter that all threads of the runtime share. A task is asked for once.
#[inline]
pub(super) fn of(cx: &Context<'_>) -> Option<Id> {
    let (task, waker) = (task::try_id(), cx.waker().data());
    match SEEN.get() {
        Some(seen) if Some(seen.task) == task && seen.waker == waker => Some(seen.runtime),
        _ => look(task, cx),
    }
}

#[cold]
fn look(task: Option<task::Id>, cx: &Context<'_>) -> Option<Id> {
    let runtime = Handle::try_current().ok()?.id();
    if let Some(task) = task
        && ptr::eq(cx.waker().vtable(), TASK_WAKER.load(Ordering::Relaxed))
    {
        SEEN.set(Some(Seen { task, waker: cx.waker().data(), runtime }));
    }
    Some(runtime)
}

/// Learns what the waker of a task is like, from the context of one.
pub(super) fn learn(cx: &Context<'_>) {
    let functions = ptr::from_ref(cx.waker().vtable()).cast_mut();
    if TASK_WAKER.load(Ordering::Relaxed) != functions {
        TASK_WAKER.store(functions, Ordering::Relaxed);
    }
}
