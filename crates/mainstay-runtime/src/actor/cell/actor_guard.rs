//! The right to an actor, as a value.

use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use mainstay_core::Error;

use crate::actor::Actor;
use crate::actor::actor_shared::ActorShared;
use crate::actor::cell::fast_slot::Entered;
use crate::actor::cell::{ActorCell, Inner, Running, Taken, drop_caught};
use crate::actor::presence::Object;
use crate::call::current::TurnKind;

/// The right to an actor: to all of it, or shared with others. It is given back when it is dropped.
pub(crate) struct ActorGuard<'c, T: Actor> {
    cell: CellRef<'c, T>,
    /// The object; `None` if it has to be activated, or is not to be used again.
    pub(crate) object: Option<Object<T>>,
    right: Right,
}

/// What somebody has of an actor. As wide as a register: it is moved with what is beside it right after it was written, and a
/// processor waits for a byte that it has to read as part of a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub(super) enum Right {
    Exclusive,
    Shared,
    /// Nothing any more.
    Returned,
}

/// The place of an actor, in somebody's hands. Most turns end before they need one of their own.
pub(crate) enum CellRef<'c, T: Actor> {
    Borrowed(&'c Arc<ActorCell<T>>),
    Kept(Arc<ActorCell<T>>),
}

impl<T: Actor> Deref for CellRef<'_, T> {
    type Target = Arc<ActorCell<T>>;

    #[inline]
    fn deref(&self) -> &Arc<ActorCell<T>> {
        match self {
            Self::Borrowed(cell) => cell,
            Self::Kept(cell) => cell,
        }
    }
}

impl<'c, T: Actor> ActorGuard<'c, T> {
    #[inline]
    pub(super) fn new(cell: CellRef<'c, T>, taken: Taken<T>) -> Self {
        let Taken { object, right } = taken;
        Self { cell, object, right }
    }

    /// The same right in hands that keep it; these have none any more.
    pub(crate) fn hand_over(&mut self) -> ActorGuard<'static, T> {
        let (object, right) = (self.object.take(), std::mem::replace(&mut self.right, Right::Returned));
        ActorGuard { cell: CellRef::Kept(self.cell.clone()), object, right }
    }

    /// Who it is, and the object, to change. There is one after activation, and nobody else has it.
    pub(crate) fn parts_mut(&mut self) -> (&Arc<ActorShared>, Option<&mut T>) {
        let actor = self.object.as_mut().and_then(|object| object.active_mut());
        (&self.cell.shared, actor.map(|active| &mut active.actor))
    }

    #[inline]
    pub(crate) fn cell(&self) -> &Arc<ActorCell<T>> {
        &self.cell
    }

    #[inline]
    pub(crate) fn actor_shared(&self) -> &Arc<ActorShared> {
        &self.cell.shared
    }

    #[inline]
    pub(crate) fn is_exclusive(&self) -> bool {
        self.right == Right::Exclusive
    }

    /// How many commits had failed when the object was read.
    #[inline]
    pub(crate) fn generation(&self) -> u64 {
        self.object.as_ref().map_or_else(|| self.cell.shared.gate.generation(), |object| object.generation)
    }

    /// True if there is an object, and it is what is stored.
    #[inline]
    pub(crate) fn is_fresh(&self) -> bool {
        self.object.as_ref().is_some_and(|object| object.generation == self.cell.shared.gate.generation())
    }

    /// True if a turn of this kind can run as it is.
    #[inline]
    pub(crate) fn is_ready(&self, kind: TurnKind) -> bool {
        self.is_fresh() && (kind == TurnKind::Exclusive || !self.is_exclusive())
    }

    /// Lets others in who only read.
    pub(crate) fn downgrade(&mut self) {
        let Some((kept, shared)) = self.object.take().map(Object::share) else { return };
        self.object = Some(kept);
        let mut inner = self.cell.enter();
        inner.object = Some(shared);
        inner.running = Running::Sharing(1);
        self.right = Right::Shared;
    }

    /// Sees to it that the object is not used again.
    pub(crate) fn spoil(&mut self) {
        if !self.is_exclusive() {
            // Those who share it go on to their end; then it goes.
            if let Some(object) = &mut self.cell.enter().object {
                object.generation = u64::MAX;
            }
        }
        let spoilt = self.object.take();
        self.cell.let_go(spoilt);
    }

    /// Gives the actor back. True if somebody waits for it.
    pub(crate) fn give_back(mut self) -> bool {
        self.put_back()
    }

    /// Gives back an actor that has left memory, and takes its place out of the table unless somebody waits for it. True if
    /// somebody does.
    pub(crate) fn retire(mut self) -> bool {
        self.leave_table(|inner| inner.is_closed |= inner.queue.is_empty());
        self.put_back()
    }

    /// [`retire`](ActorGuard::retire) for an actor that is deleted: whoever waits is told why it is in vain.
    pub(crate) fn retire_for_good(mut self, why: impl Fn() -> Error) -> bool {
        let mut waiting = VecDeque::new();
        self.leave_table(|inner| {
            inner.is_closed = true;
            waiting = std::mem::take(&mut inner.queue);
        });
        waiting.into_iter().for_each(|item| item.outlive(why()));
        self.put_back()
    }

    fn leave_table(&mut self, close: impl FnOnce(&mut Inner<T>)) {
        drop_caught(&self.cell.shared, self.object.take());
        let cell = &self.cell;
        // It leaves on purpose.
        cell.shared.revival.forget();
        let close = || {
            let mut inner = cell.enter();
            close(&mut inner);
            inner.is_closed
        };
        match cell.shared.partition.table::<T>() {
            Some(table) => table.remove_if(cell, close),
            None => _ = close(),
        }
    }

    /// [`give_back`](ActorGuard::give_back) for one who has it in a place of his own. Once is enough, and more do no harm.
    #[inline]
    pub(crate) fn put_back(&mut self) -> bool {
        let right = std::mem::replace(&mut self.right, Right::Returned);
        if right == Right::Returned {
            return false;
        }
        let cell = &*self.cell;
        let generation = cell.shared.gate.generation();
        let mut object = self.object.take();
        if right == Right::Exclusive
            && !cell.contended.load(Ordering::Relaxed)
            && let Some(object) = object.take_if(|object| object.generation == generation)
        {
            return cell.put_fast(object, generation);
        }
        // Before it is counted out: then whoever is next finds the object shared with nobody.
        let lent = object.take_if(|_| right == Right::Shared).and_then(|mut object| object.lent.take());
        let mut inner = cell.enter();
        if let Some(object) = &mut inner.object
            && lent.is_some()
        {
            object.lent = lent;
        }
        let running = match inner.running {
            Running::Sharing(sharing) if sharing > 1 => Running::Sharing(sharing - 1),
            _ => Running::Nobody,
        };
        if let Some(object) = object {
            inner.object = Some(object);
        }
        let is_stale = inner.object.as_ref().is_some_and(|object| object.generation != generation);
        if is_stale && running == Running::Nobody {
            inner.running = Running::One;
            let stale = inner.object.take();
            drop(inner);
            // Outside of the lock, because it runs code of others, and before anybody can make the next one.
            self.cell.let_go(stale);
            inner = cell.enter();
        }
        self.release(inner, running)
    }

    #[inline]
    fn release(&self, mut inner: Entered<'_, T>, running: Running) -> bool {
        inner.running = running;
        self.cell.hint(&inner);
        self.cell.given_back(inner)
    }
}

impl<T: Actor> Drop for ActorGuard<'_, T> {
    fn drop(&mut self) {
        // A turn that is cut short leaves an object that nobody knows the state of.
        if self.right == Right::Returned {
            return;
        }
        self.spoil();
        // Those who wait are not to be forgotten.
        if self.put_back() {
            drop(self.cell.shared.partition.scope.spawn(self.cell.clone().drained()));
        }
    }
}
