//! One exclusive turn after another, with nobody else about, needs no lock: who ends lays the object on the fast_slot, and who
//! comes picks it up, while `inner` has it as taken all the time. Whoever looks inside brings in first what lies there, and
//! is heard until he leaves; those who wait in line are, too. Who hears somebody after he has laid the object down comes in
//! himself, and sees to who waits. Neither can miss the other: both swap what is on the fast_slot, and the later one sees
//! what the earlier one did before.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::MutexGuard;

use crate::actor::Actor;
use crate::actor::cell::actor_guard::Right;
use crate::actor::cell::{ActorCell, Inner, Running, Taken};
use crate::actor::presence::Object;
use crate::call::arrival::Call;

/// A look inside the place of an actor.
pub(super) struct Entered<'c, T: Actor> {
    cell: &'c ActorCell<T>,
    inner: MutexGuard<'c, Inner<T>>,
}

impl<T: Actor> Deref for Entered<'_, T> {
    type Target = Inner<T>;

    #[inline]
    fn deref(&self) -> &Inner<T> {
        &self.inner
    }
}

impl<T: Actor> DerefMut for Entered<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Inner<T> {
        &mut self.inner
    }
}

impl<T: Actor> Drop for Entered<'_, T> {
    #[inline]
    fn drop(&mut self) {
        let contended = !self.inner.queue.is_empty() || self.inner.is_closed || self.inner.is_kept_out;
        self.cell.contended.store(contended, Ordering::Relaxed);
    }
}

impl<T: Actor> ActorCell<T> {
    /// Looks inside.
    pub(super) fn enter(&self) -> Entered<'_, T> {
        let mut inner = self.inner.lock();
        self.contended.store(true, Ordering::Relaxed);
        // What was laid down before this is brought in, and what is laid down after it by one who has heard.
        if inner.running == Running::One
            && let Some(object) = self.fast_slot.take(Ordering::AcqRel)
        {
            inner.object = Some(Object(object));
            inner.running = Running::Nobody;
        }
        Entered { cell: self, inner }
    }

    /// Takes the actor to oneself for a call, if it lies on the fast_slot and nobody is heard inside.
    #[inline]
    pub(super) fn try_take_fast(&self, call: &Call) -> Option<Taken<T>> {
        if self.contended.load(Ordering::Relaxed) {
            return None;
        }
        let object = self.fast_slot.take(Ordering::AcqRel)?;
        let is_use = self.note_use(call);
        self.is_in_use.store(is_use, Ordering::Relaxed);
        self.shared.is_in_passing.store(true, Ordering::Relaxed);
        Some(Taken { object: Some(Object(object)), right: Right::Exclusive })
    }

    /// Gives back what one has had to oneself, and what is as stored if no more than so many commits have failed. True if
    /// somebody waits for it.
    #[inline]
    pub(super) fn put_fast(self: &Arc<Self>, object: Object<T>, generation: u64) -> bool {
        self.fast_slot.store(Some(object.0), Ordering::AcqRel);
        self.shared.is_in_passing.store(false, Ordering::Relaxed);
        if self.shared.gate.generation() != generation {
            // Whoever let it fail has looked for the object before it lay here.
            self.shed();
        }
        self.contended.load(Ordering::Relaxed) && self.follow_role()
    }

    /// Sees who is inside. True if somebody waits for what was laid down.
    #[cold]
    fn follow_role(self: &Arc<Self>) -> bool {
        self.given_back(self.enter())
    }
}
