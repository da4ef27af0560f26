//! How an actor comes back by itself whose object was lost, with the timers and subscriptions that its `activate` makes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Context;

use mainstay_core::time::{self, Duration, Instant};
use mainstay_core::{Error, Result};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::actor::Actor;
use crate::actor::cell::{ActorCell, ActorGuard, ItemTurn};
use crate::actor::mailbox_item::{MailboxItem, poll_once};
use crate::actor::work;
use mainstay_core::{Backoff, Retries};

/// How often in a row the activation of such an actor may fail before that is left to the next call.
const FAILED_MAX: u32 = 16;

/// The pauses between one loss of such an actor and its next activation.
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(30));

/// An actor that was not lost for so long comes back at once the next time: twice the longest pause.
const QUIET: Duration = Duration::from_secs(2 * BACKOFF.max.as_secs());

/// Whether an actor is to come back by itself. One that had timers or subscriptions is, if a panic or a failed commit has
/// dropped its object: nobody may call it, and it would do nothing any more. One that has left on purpose is not.
#[derive(Default)]
pub(crate) struct Revival {
    /// True if an object was dropped with timers or subscriptions, and there was none since.
    is_wanted: AtomicBool,
    /// True while somebody sees to it.
    is_under_way: AtomicBool,
    /// How fast it may come back; made for the first time.
    rhythm: Mutex<Option<Box<Rhythm>>>,
}

struct Rhythm {
    backoff: Retries,
    last: Instant,
}

impl Revival {
    /// Notes that an object is dropped that had timers or subscriptions.
    pub(crate) fn want(&self) {
        self.is_wanted.store(true, Ordering::Release);
    }

    pub(crate) fn is_wanted(&self) -> bool {
        self.is_wanted.load(Ordering::Acquire)
    }

    /// Notes that there is an object again, or that there is to be none.
    pub(crate) fn forget(&self) {
        self.is_wanted.store(false, Ordering::Release);
    }

    /// True if the actor is about to come back, and its place has to stay for that.
    pub(crate) fn is_under_way(&self) -> bool {
        self.is_under_way.load(Ordering::Acquire)
    }

    /// True if it is wanted, and nobody sees to it; whoever asked does from now on.
    fn take_on(&self) -> bool {
        self.is_wanted() && !self.is_under_way.swap(true, Ordering::AcqRel)
    }

    /// How long to wait before the next try. An actor that is lost again and again must not do nothing else.
    fn pause(&self) -> Duration {
        let mut rhythm = self.rhythm.lock();
        let now = time::now();
        match &mut *rhythm {
            Some(rhythm) if now.saturating_duration_since(rhythm.last) <= QUIET => {
                rhythm.last = now;
                rhythm.backoff.pause()
            }
            rhythm => {
                *rhythm = Some(Box::new(Rhythm { backoff: BACKOFF.retries(), last: now }));
                Duration::ZERO
            }
        }
    }
}

/// Sees to it that an actor comes back if it is to.
pub(crate) fn begin<T: Actor>(cell: &Arc<ActorCell<T>>) {
    let revival = &cell.actor_shared().revival;
    // What a method has set up does not come back by itself. Where no runtime is left, nothing does.
    if T::LIFECYCLE.is_some() && tokio::runtime::Handle::try_current().is_ok() && revival.take_on() {
        drop(cell.actor_shared().partition.scope.spawn(revive(cell.clone())));
    }
}

async fn revive<T: Actor>(cell: Arc<ActorCell<T>>) {
    let shared = cell.actor_shared();
    let mut failed = 0;
    loop {
        time::sleep(shared.revival.pause()).await;
        let (done, is_done) = oneshot::channel();
        // If it has left its place meanwhile, that was on purpose.
        let revived = match cell.post(Box::new(RevivalItem { done })) {
            true => is_done.await.unwrap_or(Ok(())),
            false => return,
        };
        if let Err(error) = revived {
            failed += 1;
            if failed < FAILED_MAX {
                continue;
            }
            tracing::error!(
                actor = %shared, ?error, failed,
                "an actor that was reset cannot be activated: its timers and subscriptions rest until it is called"
            );
            shared.revival.forget();
        }
        failed = 0;
        shared.revival.is_under_way.store(false, Ordering::Release);
        // It may have been lost again while this one was still there to see to it.
        if !shared.revival.take_on() {
            return;
        }
    }
}

/// Activates an actor when it is its turn, unless somebody else has done so.
struct RevivalItem {
    done: oneshot::Sender<Result<()>>,
}

impl<T: Actor> MailboxItem<T> for RevivalItem {
    fn is_exclusive(&self) -> bool {
        true
    }

    /// As little as the timers that it is for.
    fn is_use(&self) -> bool {
        false
    }

    fn claim(&self) -> bool {
        !self.done.is_closed()
    }

    fn carry_out(self: Box<Self>, mut guard: ActorGuard<'_, T>, cx: &mut Context<'_>) -> Option<ItemTurn> {
        let guard = guard.hand_over();
        let turn = async move {
            // An error means that the partition is being closed.
            let _ = self.done.send(carry_out(guard).await);
        };
        poll_once(turn, cx)
    }

    fn refuse(self: Box<Self>, _: Error) {}
}

async fn carry_out<T: Actor>(guard: ActorGuard<'static, T>) -> Result<()> {
    let shared = guard.actor_shared().clone();
    if guard.is_fresh() {
        guard.give_back();
        return Ok(());
    }
    match shared.gate.is_known(&shared) {
        Ok(true) => work::revive(guard).await,
        // What would have made it known was lost as well, and nothing must make it but a call.
        Ok(false) => {
            shared.revival.forget();
            guard.give_back();
            Ok(())
        }
        Err(error) => {
            guard.give_back();
            Err(error)
        }
    }
}
