//! Which runtime polls a future.

use std::cell::Cell;
use std::task::Context;

use tokio::runtime::{Handle, Id};
use tokio::task;

thread_local! {
    /// The task that was looked at last.
    static SEEN: Cell<Option<Seen>> = const { Cell::new(None) };
}

/// A task and its runtime. A task has one for as long as it lives, and no two tasks of a process have one id. It is told
/// by its waker too, because a task may block on a future of another runtime.
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
        _ => look(task, waker),
    }
}

#[cold]
fn look(task: Option<task::Id>, waker: *const ()) -> Option<Id> {
    let runtime = Handle::try_current().ok()?.id();
    if let Some(task) = task {
        SEEN.set(Some(Seen { task, waker, runtime }));
    }
    Some(runtime)
}
