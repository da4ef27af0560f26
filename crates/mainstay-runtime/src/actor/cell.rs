mod actor_guard;
mod fast_slot;
pub(crate) mod removal;

use std::collections::VecDeque;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::task::Context;

use atomicbox::AtomicOptionBox;
use mainstay_core::{ActorId, Error, ErrorKind};
use parking_lot::Mutex;

use self::actor_guard::Right;
pub(crate) use self::actor_guard::{ActorGuard, CellRef};
use self::fast_slot::Entered;
use self::removal::{Removal, Removing};
use crate::actor::Actor;
use crate::actor::access::{Exclusive, Shared};
use crate::actor::actor_shared::ActorShared;
use crate::actor::actor_table::ActorPartition;
use crate::actor::deactivation;
use crate::actor::mailbox_item::{CallItem, MailboxItem, ReplyTo};
use crate::actor::presence::{Inside, Object};
use crate::actor::revival;
use crate::actor::work;
use crate::call::arrival::{Call, Method, TurnSource};
use crate::call::contract::MethodResult;
use crate::call::object_host::{ExclusiveHost, ExclusiveMethod, ObjectHost, Progress, SharedMethod, Start};
use crate::call::turn::panic_text;
use crate::observe::mailbox_wait::{CallLimit, refused};

/// How many waiting calls one that has ended carries out, before it leaves the rest to a task of their own: its caller
/// waits meanwhile.
const DRAINED_MAX: usize = 32;

/// How often a call looks again whether a turn that is being polled has ended, before it waits in line: a microsecond or
/// so, which is less than it takes to wake a task.
const GLANCES_MAX: u32 = 32;

/// How many items of a full mailbox are scanned for each refused call, on average. Calls whose callers have given up make room.
const LOOKED_AT_PER_REFUSAL: usize = 16;

/// From which length on the queue is scanned for abandoned items when an item is posted: at every power of two, so that the
/// queue stays below twice as many as are waited for.
const POSTED_LOOK_MIN: usize = 8;

/// The place of an actor, active or not: who has it, and who waits.
///
/// An idle actor is taken by the call that comes, and runs on the caller's task. Where it is taken already the call waits
/// in line as a `MailboxItem`, and is carried out by whoever has the actor when it gives it back: the actor never waits for
/// a task to wake up. Most turns are over in less time than that takes, and so a call lingers for a moment first.
pub struct ActorCell<T: Actor> {
    shared: Arc<ActorShared>,
    /// Where the object lies between two exclusive turns with nobody else about.
    fast_slot: AtomicOptionBox<Inside<T>>,
    /// True while somebody looks inside, waits in line, or the place is closed.
    contended: AtomicBool,
    /// Whether what runs is a use of the actor.
    is_in_use: AtomicBool,
    /// When it was last used, by the clock of its [population](crate::actor::memory_budget::MemoryBudget).
    used: AtomicU64,
    inner: Mutex<Inner<T>>,
}

struct Inner<T: Actor> {
    /// The object, unless a turn has it to itself or it is not active. Shared turns have clones.
    object: Option<Object<T>>,
    running: Running,
    queue: VecDeque<Box<dyn MailboxItem<T>>>,
    /// How many more calls are refused for a full mailbox before abandoned calls are looked for again.
    refusals_left: usize,
    /// True once nothing runs here any more.
    is_closed: bool,
    /// True once calls are kept out that are not part of what is under way.
    is_kept_out: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Running {
    Nobody,
    /// Or nobody, and the object lies on the fast_slot.
    One,
    Sharing(u32),
}

/// What was taken of an actor, under the lock.
struct Taken<T> {
    object: Option<Object<T>>,
    right: Right,
}

/// A call that has the actor to itself.
type Admitted<T, M> = (Taken<T>, M, Call);

/// The rest of a turn of a letter that has to wait, which sends its answer itself.
pub(crate) type ItemTurn = Pin<Box<dyn Future<Output = ()> + Send>>;

impl<T: Actor> ActorCell<T> {
    pub(crate) fn new(id: ActorId, partition: Arc<ActorPartition>) -> Arc<Self> {
        Arc::new_cyclic(|cell: &Weak<Self>| {
            let shared = Arc::new(ActorShared::new(id, partition, cell.clone()));
            let inner = Inner {
                object: None,
                running: Running::Nobody,
                queue: VecDeque::new(),
                refusals_left: 0,
                is_closed: false,
                is_kept_out: false,
            };
            Self {
                shared,
                fast_slot: AtomicOptionBox::none(),
                contended: AtomicBool::new(false),
                is_in_use: AtomicBool::new(false),
                used: AtomicU64::new(0),
                inner: Mutex::new(inner),
            }
        })
    }

    pub(crate) fn actor_shared(&self) -> &Arc<ActorShared> {
        &self.shared
    }

    /// Returns once a turn that is just passing has ended, or has taken too long for that.
    #[inline]
    fn approach(&self) {
        let is_in_passing = &self.shared.is_in_passing;
        for _ in 0..GLANCES_MAX {
            if !is_in_passing.load(Ordering::Relaxed) {
                break;
            }
            std::hint::spin_loop();
        }
    }

    /// Takes the actor to oneself for a call where it is not in the fast slot. If somebody has it the call waits in line.
    fn go_in<R, M>(&self, method: M, call: Call) -> Result<Admitted<T, M>, Start<R::Reply, M>>
    where
        R: MethodResult,
        M: ExclusiveMethod<T, R>,
    {
        let mut inner = self.enter();
        if inner.keeps_out(&call) {
            return Err(Start::Gone(method, call));
        }
        let is_use = self.note_use(&call);
        if inner.queue.is_empty()
            && let Some(taken) = inner.take(self, is_use)
        {
            self.hint(&inner);
            return Ok((taken, method, call));
        }
        Err(self.enqueue(inner, call, |call, reply| CallItem::boxed::<T>(Exclusive(method), call, reply, &self.shared)))
    }

    /// Notes that a call has come; true if it is a use of the actor.
    #[inline]
    fn note_use(&self, call: &Call) -> bool {
        let is_use = call.current.method.source().counts_as_use();
        if is_use {
            self.touch();
        }
        is_use
    }

    /// Notes that it is used now.
    fn touch(&self) {
        self.used.store(self.shared.partition.memory_budget.stamp(), Ordering::Relaxed);
    }

    /// Takes out the letter that is next, if it can run now, with the right to the actor.
    fn next(self: &Arc<Self>) -> Option<(Box<dyn MailboxItem<T>>, ActorGuard<'_, T>)> {
        loop {
            let mut inner = self.enter();
            let next = inner.queue.front()?;
            let (is_exclusive, is_use) = (next.is_exclusive(), next.is_use());
            let taken = if is_exclusive { inner.take(self, is_use) } else { inner.share(self, is_use) }?;
            let item = inner.queue.pop_front()?;
            self.hint(&inner);
            drop(inner);
            let guard = ActorGuard::new(CellRef::Borrowed(self), taken);
            if item.claim() {
                return Some((item, guard));
            }
            guard.give_back();
            self.discard(item);
        }
    }

    /// Lets those who come know whether a moment is worth waiting.
    #[inline]
    fn hint(&self, inner: &Inner<T>) {
        let is_in_passing = inner.running == Running::One && inner.queue.is_empty();
        self.shared.is_in_passing.store(is_in_passing, Ordering::Relaxed);
    }

    /// Carries out who waits, as long as none of them has to wait for something else.
    pub(crate) fn drain(self: &Arc<Self>, cx: &mut Context<'_>) {
        for _ in 0..DRAINED_MAX {
            let Some((item, guard)) = self.next() else { return };
            let Ok(rest) = catch_unwind(AssertUnwindSafe(|| item.carry_out(guard, cx))) else {
                // Next to nothing of an application runs here that is not caught before. It must not become the fault of
                // whoever carries it out, and its caller is told when it is dropped.
                tracing::error!(actor = %self.shared, "a turn panicked outside of its method");
                continue;
            };
            if let Some(turn) = rest {
                let cell = self.clone();
                drop(self.shared.partition.scope.spawn(async move {
                    turn.await;
                    cell.drained().await;
                }));
            }
        }
        let cell = self.clone();
        drop(self.shared.partition.scope.spawn(async move { cell.drained().await }));
    }

    /// [`drain`](ActorCell::drain) in a task.
    pub(crate) async fn drained(self: Arc<Self>) {
        std::future::poll_fn(|cx| {
            self.drain(cx);
            std::task::Poll::Ready(())
        })
        .await;
    }

    fn overloaded(&self, call: &Call) -> Error {
        let waiting = self.shared.partition.settings.mailbox;
        Error::new(
            ErrorKind::Overloaded,
            format!(
                "`{}` of {}: {waiting} calls wait already (mailbox): slow down and retry",
                call.current.method.name(),
                self.shared
            ),
        )
    }

    /// Puts a letter in line that is no call, whatever the mailbox holds: who sends such has a limit of its own. False if the
    /// actor has left this place.
    pub(crate) fn post(self: &Arc<Self>, item: Box<dyn MailboxItem<T>>) -> bool {
        let mut inner = self.enter();
        if inner.is_closed {
            return false;
        }
        if item.is_use() {
            self.touch();
        }
        inner.queue.push_back(item);
        // Items that are given up and sent again must not gather while the actor hangs.
        let length = inner.queue.len();
        let is_long = length >= POSTED_LOOK_MIN && length.is_power_of_two();
        let abandoned = if is_long { inner.take_abandoned() } else { Vec::new() };
        drop(inner);
        abandoned.into_iter().for_each(|item| self.discard(item));
        // Whoever has the actor sees to who waits; this is for when nobody has it.
        let cell = self.clone();
        drop(self.shared.partition.scope.spawn(async move { cell.drained().await }));
        true
    }

    /// Why a call may not begin whose answer is given later.
    pub(crate) fn owes_too_many(&self, call: &Call) -> Option<Error> {
        let calls_max = self.shared.partition.settings.calls_max;
        (self.shared.owed() >= calls_max)
            .then(|| self.too_many(call, &format!("{calls_max} callers wait for an answer that it has yet to give")))
    }

    fn too_many(&self, call: &Call, why: &str) -> Error {
        let method = call.current.method.name();
        Error::new(
            ErrorKind::Overloaded,
            format!("`{method}` of {}: {why} (calls_max): slow down and retry", self.shared),
        )
    }

    /// Has a call wait in line, unless it may not.
    fn enqueue<R, M>(
        &self,
        mut inner: Entered<'_, T>,
        call: Call,
        item: impl FnOnce(Call, ReplyTo<R>) -> Box<dyn MailboxItem<T>>,
    ) -> Start<R, M> {
        let abandoned = self.make_room(&mut inner, &call);
        let started = match self.refusal(&inner, &call) {
            Some(error) => self.refuse(inner, &call, error),
            None => {
                let (reply, queued) = ReplyTo::new();
                inner.queue.push_back(item(call, reply));
                self.hint(&inner);
                drop(inner);
                Start::Queued(queued)
            }
        };
        // Outside of the lock, because it runs code of others.
        abandoned.into_iter().for_each(|item| self.discard(item));
        started
    }

    /// Takes calls out of a full mailbox whose callers have given up. The scan is amortized over refused calls: after one that
    /// has found nothing, the mailbox is not scanned again for some refusals.
    fn make_room(&self, inner: &mut Inner<T>, call: &Call) -> Vec<Box<dyn MailboxItem<T>>> {
        if !self.is_full_for(inner, call) {
            return Vec::new();
        }
        if inner.refusals_left > 0 {
            inner.refusals_left -= 1;
            return Vec::new();
        }
        let abandoned = inner.take_abandoned();
        if abandoned.is_empty() {
            inner.refusals_left = inner.queue.len() / LOOKED_AT_PER_REFUSAL;
        }
        abandoned
    }

    fn is_full_for(&self, inner: &Inner<T>, call: &Call) -> bool {
        let is_limited = call.current.method.source().is_limited_by_mailbox();
        is_limited && inner.queue.len() >= self.shared.partition.settings.mailbox
    }

    /// Drops a call that nobody waits for.
    fn discard(&self, item: Box<dyn MailboxItem<T>>) {
        // Its arguments are of others.
        if catch_unwind(AssertUnwindSafe(|| drop(item))).is_err() {
            tracing::error!(actor = %self.shared, "the arguments of a call that nobody waits for panicked when they were dropped");
        }
    }

    /// Why a call may not wait in line.
    fn refusal(&self, inner: &Inner<T>, call: &Call) -> Option<Error> {
        if self.is_full_for(inner, call) {
            return Some(self.overloaded(call));
        }
        let chain = call.current.chain.as_ref()?;
        chain.wait_for(self.shared.clone(), Some(call.current.method.name())).err()
    }

    /// Ends a call that may not wait in line.
    fn refuse<R, M>(&self, inner: Entered<'_, T>, call: &Call, error: Error) -> Start<R, M> {
        // Whoever listens to warnings may call actors.
        drop(inner);
        if error.kind() == ErrorKind::Overloaded {
            refused(&self.shared, call, CallLimit::Mailbox);
        }
        Start::Refused(error)
    }

    /// Ends a call for which too many others are under way.
    #[cold]
    fn overrun<R, M>(&self, call: &Call, error: Error) -> Start<R, M> {
        refused(&self.shared, call, CallLimit::Calls);
        Start::Refused(error)
    }

    /// True if nobody has it or waits for it, and it was last used before a stamp or is not active.
    pub(crate) fn is_idle(&self, before: u64) -> bool {
        let inner = self.enter();
        let is_in_use = inner.running != Running::Nobody && self.is_in_use.load(Ordering::Relaxed);
        if is_in_use || self.shared.is_engaged() {
            // A turn that takes long is a use until it ends, and so is what is left of it afterwards.
            self.touch();
        }
        self.is_unused(&inner, before)
    }

    /// When it was last used, if it is active, nobody has it and nobody waits, for it or for an answer of it.
    pub(crate) fn idle_since(&self) -> Option<u64> {
        let inner = self.enter();
        let is_idle = inner.object.is_some() && self.is_unused(&inner, u64::MAX) && !self.shared.is_engaged();
        is_idle.then(|| self.used.load(Ordering::Relaxed))
    }

    /// Takes an actor to itself that [is idle](ActorCell::is_idle), has nothing that is not durable and nothing left to see
    /// to.
    pub(crate) fn take_idle(self: &Arc<Self>, before: u64) -> Option<ActorGuard<'static, T>> {
        let mut inner = self.enter();
        // What one has left that is not in memory any more, nobody can see to.
        let is_engaged = inner.object.is_some() && self.shared.is_engaged() || self.shared.revival.is_under_way();
        if is_engaged || !self.is_unused(&inner, before) || !self.shared.gate.is_open() {
            return None;
        }
        inner.take(self, false).map(|taken| ActorGuard::new(CellRef::Kept(self.clone()), taken))
    }

    /// True if an object is in memory.
    pub(crate) fn is_active(&self) -> bool {
        let inner = self.enter();
        inner.object.is_some() || inner.running != Running::Nobody
    }

    /// Drops an idle object that a failed commit has made worthless, and with it what it has started.
    pub(crate) fn shed(self: &Arc<Self>) {
        let generation = self.shared.gate.generation();
        let mut inner = self.enter();
        if inner.object.as_ref().is_none_or(|object| object.generation == generation) {
            return;
        }
        let Some(taken) = inner.take(self, false) else { return };
        drop(inner);
        let mut guard = ActorGuard::new(CellRef::Borrowed(self), taken);
        // Before anybody can make the next one.
        self.let_go(guard.object.take());
        if guard.give_back() {
            drop(self.shared.partition.scope.spawn(self.clone().drained()));
        }
    }

    /// Drops an object that is lost. One that panics has its place all the same, and one that had something to do by itself
    /// comes back.
    fn let_go(self: &Arc<Self>, object: Option<Object<T>>) {
        drop_caught(&self.shared, object);
        revival::begin(self);
    }

    /// Sees to an actor that was given back. True if somebody waits for it.
    fn given_back(self: &Arc<Self>, inner: Entered<'_, T>) -> bool {
        if inner.running == Running::Nobody && inner.is_closed {
            self.leave(inner);
            return false;
        }
        !inner.queue.is_empty()
    }

    /// Lets the actor of a closed place go.
    fn leave(self: &Arc<Self>, mut inner: Entered<'_, T>) {
        let taken = if inner.object.is_some() { inner.take(self, false) } else { None };
        drop(inner);
        match taken {
            Some(taken) => {
                let guard = ActorGuard::new(CellRef::Kept(self.clone()), taken);
                drop(self.shared.partition.scope.spawn(deactivation::leave(guard, None)));
            }
            None => self.shared.emptied.notify_waiters(),
        }
    }

    /// Waits until the actor, which is closed, has left memory.
    pub(crate) async fn emptied(&self) {
        loop {
            let mut notified = std::pin::pin!(self.shared.emptied.notified());
            notified.as_mut().enable();
            // One that was laid down and brought in just now has yet to leave: whoever laid it down sees to that.
            if !self.is_active() {
                return;
            }
            notified.await;
        }
    }

    /// Keeps new calls out, which look for the actor at the slot again, where they wait. True if there is something that has to
    /// end: a turn, a call in line or a commit.
    pub(crate) fn keep_out(&self) -> bool {
        let mut inner = self.enter();
        inner.is_kept_out = true;
        inner.running != Running::Nobody || !inner.queue.is_empty() || !self.shared.gate.is_open()
    }

    /// Waits until the turns under way have ended, those in line have had theirs, and all of it is durable; then the actor is out
    /// of memory.
    pub(crate) async fn quiesced(self: Arc<Self>) {
        static QUIESCE: Method = Method::own("deactivate", TurnSource::Call);
        let call = Call::own(&QUIESCE, &self.shared);
        match Removing::remove(&self, Removal::Deactivate, call) {
            Start::Turn(Progress::Ready(turn) | Progress::Moving(turn)) => drop(turn.await),
            // An error means that the partition was closed meanwhile.
            Start::Queued(queued) => drop(queued.answer.await),
            // Whatever is left is told when the partition is closed.
            Start::Turn(Progress::Finished(_)) | Start::Refused(_) | Start::Gone(..) => {}
        }
        deactivation::settle(&self.shared).await;
    }

    /// Closes the place for good: whoever waits is refused, and whoever comes looks elsewhere. Returns the actor if it is
    /// active and idle; if it is not idle, it leaves when its turn ends.
    pub(crate) fn close(self: &Arc<Self>, why: impl Fn() -> Error) -> Option<ActorGuard<'static, T>> {
        let (taken, waiting) = {
            let mut inner = self.enter();
            inner.is_closed = true;
            let taken = if inner.object.is_some() { inner.take(self, false) } else { None };
            (taken, std::mem::take(&mut inner.queue))
        };
        waiting.into_iter().for_each(|item| item.refuse(why()));
        taken.map(|taken| ActorGuard::new(CellRef::Kept(self.clone()), taken))
    }

    /// True if nobody has it or waits for it, and it was last used before a stamp or is not active.
    fn is_unused(&self, inner: &Inner<T>, before: u64) -> bool {
        let is_free = !inner.is_closed && inner.running == Running::Nobody && inner.queue.is_empty();
        is_free && (inner.object.is_none() || self.used.load(Ordering::Relaxed) < before)
    }
}

/// Drops an object. That its `Drop` panics is no concern of whoever takes it out of memory.
pub(crate) fn drop_caught<O>(shared: &ActorShared, object: O) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(object))) {
        tracing::error!(actor = %shared, panic = panic_text(&*panic), "an actor panicked when it was dropped");
    }
}

impl<T: Actor> Inner<T> {
    /// True if a call has to look for the actor elsewhere.
    #[inline]
    fn keeps_out(&self, call: &Call) -> bool {
        // What a turn calls is part of that turn, which is to end.
        self.is_closed || (self.is_kept_out && call.current.chain.is_none())
    }

    /// Takes out the items that nobody waits for any more.
    fn take_abandoned(&mut self) -> Vec<Box<dyn MailboxItem<T>>> {
        let (abandoned, waiting): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.queue).into_iter().partition(|item| item.is_abandoned());
        self.queue = waiting.into();
        abandoned
    }

    /// Takes the actor to oneself, if nobody has it.
    #[inline]
    fn take(&mut self, cell: &ActorCell<T>, is_use: bool) -> Option<Taken<T>> {
        if self.running != Running::Nobody {
            return None;
        }
        self.running = Running::One;
        cell.is_in_use.store(is_use, Ordering::Relaxed);
        Some(Taken { object: self.object.take(), right: Right::Exclusive })
    }

    /// True if as many share the actor as may.
    #[inline]
    fn is_crowded(&self, cell: &ActorCell<T>) -> bool {
        matches!(self.running, Running::Sharing(sharing) if sharing as usize >= cell.shared.partition.settings.calls_max)
    }

    /// Takes the actor beside others; to oneself if it has to be activated first.
    fn share(&mut self, cell: &ActorCell<T>, is_use: bool) -> Option<Taken<T>> {
        let sharing = match self.running {
            Running::One => return None,
            Running::Nobody => 0,
            Running::Sharing(_) if self.is_crowded(cell) => return None,
            Running::Sharing(sharing) => sharing,
        };
        let generation = cell.shared.gate.generation();
        let Some(object) = self.object.take_if(|object| object.generation == generation) else {
            return self.take(cell, is_use);
        };
        let (kept, object) = object.share();
        self.object = Some(kept);
        self.running = Running::Sharing(sharing + 1);
        let is_used_already = sharing > 0 && cell.is_in_use.load(Ordering::Relaxed);
        cell.is_in_use.store(is_use || is_used_already, Ordering::Relaxed);
        Some(Taken { object: Some(object), right: Right::Shared })
    }
}

impl<T: Actor> ObjectHost for ActorCell<T> {
    type Target = T;

    #[inline]
    fn shared<R, M>(self: &Arc<Self>, method: M, call: Call, cx: &mut Context<'_>) -> Start<R::Reply, M>
    where
        R: MethodResult,
        M: SharedMethod<T, R>,
    {
        self.approach();
        let mut inner = self.enter();
        if inner.keeps_out(&call) {
            return Start::Gone(method, call);
        }
        if R::ANSWERS_LATER
            && let Some(error) = self.owes_too_many(&call)
        {
            drop(inner);
            return self.overrun(&call, error);
        }
        if inner.is_crowded(self) {
            let running = self.shared.partition.settings.calls_max;
            let error = self.too_many(&call, &format!("{running} calls run beside each other already"));
            drop(inner);
            return self.overrun(&call, error);
        }
        let is_use = self.note_use(&call);
        // A chain that has the actor already does not wait behind those who wait for it to end.
        let is_first =
            inner.queue.is_empty() || call.current.chain.as_ref().is_some_and(|chain| chain.has(&self.shared));
        if is_first && let Some(taken) = inner.share(self, is_use) {
            drop(inner);
            return Start::Turn(work::start(ActorGuard::new(CellRef::Borrowed(self), taken), Shared(method), call, cx));
        }
        self.enqueue(inner, call, |call, reply| CallItem::boxed::<T>(Shared(method), call, reply, &self.shared))
    }
}

impl<T: Actor> ExclusiveHost for ActorCell<T> {
    #[inline]
    fn exclusive<R, M>(self: &Arc<Self>, method: M, call: Call, cx: &mut Context<'_>) -> Start<R::Reply, M>
    where
        R: MethodResult,
        M: ExclusiveMethod<T, R>,
    {
        if R::ANSWERS_LATER
            && let Some(error) = self.owes_too_many(&call)
        {
            return self.overrun(&call, error);
        }
        self.approach();
        let (taken, method, call) = match self.try_take_fast(&call) {
            Some(taken) => (taken, method, call),
            None => match self.go_in(method, call) {
                Ok(taken) => taken,
                Err(started) => return started,
            },
        };
        Start::Turn(work::start(ActorGuard::new(CellRef::Borrowed(self), taken), Exclusive(method), call, cx))
    }
}
