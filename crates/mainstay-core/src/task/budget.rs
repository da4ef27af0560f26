//! Letting other tasks run: work that is always ready would keep its thread for ever.

use std::cell::Cell;
use std::task::{Context, Poll, Waker};

use tokio::task::coop;

/// How many short operations one unit of a task's cooperative budget pays for. A task that has used up its 128 units goes back to
/// the scheduler, which costs microseconds: as much as a tenth of all calls if each paid a whole unit.
const OPERATIONS_PER_UNIT: u8 = 4;

thread_local! {
    /// The operations of this thread since the last unit.
    static OPERATIONS: Cell<u8> = const { Cell::new(0) };
}

/// Takes the price of a short operation from the cooperative budget of the task that polls. Pending if none is left: then the
/// task is woken once others have run.
#[inline]
pub fn poll_budget(cx: &mut Context<'_>) -> Poll<()> {
    let operations = OPERATIONS.get() + 1;
    if operations < OPERATIONS_PER_UNIT {
        OPERATIONS.set(operations);
        return Poll::Ready(());
    }
    OPERATIONS.set(0);
    coop::poll_proceed(cx).map(|unit| unit.made_progress())
}

/// Takes the price of a short operation, and says whether it was there. If not, the task is to await [`yield_for_budget`] before it
/// goes on. An operation that mostly goes on has no point at which it waits.
#[inline]
pub fn take_budget() -> bool {
    poll_budget(&mut Context::from_waker(Waker::noop())).is_ready()
}

/// Takes a unit of the budget, and lets other tasks run first if none is left.
pub async fn yield_for_budget() {
    coop::consume_budget().await;
}

/// Starts counting anew, so that what a simulation does depends on nothing that the thread did before.
pub(crate) fn reset() {
    OPERATIONS.set(0);
}
