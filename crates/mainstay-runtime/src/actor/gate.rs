use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use mainstay_core::{Error, ErrorKind, Result};
use mainstay_state::actor::{ActorWrites, Answer as StoredAnswer, LaneAnswer, Reminder};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::actor::actor_shared::ActorShared;
use crate::actor::event::departure;
use crate::actor::tally::Tally;
use crate::call::turn::panic_text;
use crate::observe::storage::saving;

/// How many may wait for one commit. A turn beyond that keeps its actor until there is room, so that whoever calls the actor
/// waits in line, where the mailbox is the limit.
const WAITING_MAX: usize = 16 << 10;

/// What leaves an actor once the turn that made it is durable; it is told if it never will be.
pub(crate) type Output = Box<dyn FnOnce(Result<()>) + Send>;

/// Lets what a turn sends leave, or tells it that it never will. Code of the application may run in it, as where an error
/// becomes one of its own: that it panics is no concern of whoever is at work here. Who waits for it is told when it is dropped.
pub(crate) fn release(shared: &ActorShared, outputs: impl IntoIterator<Item = Output>, told: impl Fn() -> Result<()>) {
    for output in outputs {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| output(told()))) {
            tracing::error!(actor = %shared, panic = panic_text(&*panic), "what was to leave an actor panicked");
        }
    }
}

/// The output gate of an actor: its commits, one after another, and what waits behind them.
///
/// One commit is under way at a time. What turns seal meanwhile gathers in the next one, so a later turn cannot be durable
/// without the earlier ones that it stands on, and a hot actor is not limited by the latency of a commit. What would make the
/// next one too large waits until it is under way. If a commit fails, so does everything that gathered behind it, and the
/// actor has to be made anew from what is stored.
#[derive(Default)]
pub(crate) struct Gate {
    inner: Mutex<Inner>,
    /// Grows when a commit fails: whatever is in memory of an earlier one is not what is stored.
    generation: AtomicU64,
    /// True while somebody [drives](Gate::drive): from the first commit until what left with the last one is gone. Whoever
    /// seals meanwhile leaves it to him, so that what leaves is in order. Changed under the lock.
    is_driven: AtomicBool,
    /// What is stored of the actor, as far as it is limited.
    pub(crate) tally: Tally,
}

#[derive(Default)]
struct Inner {
    under_way: Option<Sealed>,
    next: Option<Sealed>,
    /// True if the actor is known to be known, in the store or by what is sealed.
    is_known: bool,
}

impl Inner {
    /// Sees to it that what is stored of an actor makes it known, whichever turn comes first: one that is not known is neither
    /// listed nor found to be deleted.
    fn make_known(&mut self, writes: &mut ActorWrites) {
        match writes.is_known() {
            Some(is_known) => self.is_known = is_known,
            None if !self.is_known && writes.is_storing() => {
                writes.mark_known();
                self.is_known = true;
            }
            None => {}
        }
    }
}

/// Changes that are committed together, and what waits for that.
struct Sealed {
    writes: Arc<ActorWrites>,
    waiting: Vec<(Part, oneshot::Sender<Ended>)>,
    outputs: Vec<(Part, Output)>,
    /// Dropped when there may be room for others: when these are under way, and when they have ended.
    crowded_out: Vec<oneshot::Sender<()>>,
}

/// How a commit has ended, for many who wait.
type Ended = Result<(), Error>;

/// What a turn has to do with the commit that it waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// It has changes in it, and so what becomes of the commit becomes of the turn.
    Maker,
    /// It has only seen them.
    Onlooker,
}

/// What a turn leaves behind: what it has changed, and what is to leave with that.
pub(crate) struct TurnEffects {
    pub(crate) writes: Option<Box<ActorWrites>>,
    pub(crate) outputs: Vec<Output>,
}

/// What a turn has left that there is no room for yet.
pub(crate) struct Crowded {
    effects: TurnEffects,
    room: oneshot::Receiver<()>,
}

impl Crowded {
    /// Waits until there may be room.
    pub(crate) async fn over(self) -> TurnEffects {
        let (effects, room) = self.parts();
        room.await;
        effects
    }

    /// What the turn has left, and a wait until there may be room for it.
    pub(crate) fn parts(self) -> (TurnEffects, impl Future<Output = ()> + Send) {
        let Self { effects, room } = self;
        // It is told by being dropped.
        (effects, async move { drop(room.await) })
    }
}

impl Gate {
    /// How many commits have failed.
    #[inline]
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// True if everything is durable, and has left.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        !self.is_driven.load(Ordering::Acquire)
    }

    /// True if a turn that has changed nothing, and sends nothing, waits for nothing: one that saw the actor when this many
    /// commits had failed. The turns that it stands on have sealed before it began, so no lock is needed to know of them.
    #[inline]
    pub(crate) fn is_open_for(&self, generation: u64) -> bool {
        // In this order: a commit that fails is counted before its driver leaves.
        self.is_open() && self.generation() == generation
    }

    /// True if nothing is on its way, and whoever saw the actor when this many commits had failed saw what is stored: then a
    /// commit that fails takes nothing along of an earlier turn.
    pub(crate) fn is_settled(&self, generation: u64) -> bool {
        let inner = self.inner.lock();
        inner.under_way.is_none() && inner.next.is_none() && self.generation() == generation
    }

    /// What everybody waits behind who has seen the actor as it is now, or as it was when this many commits had failed;
    /// `None` if everything is durable.
    pub(crate) fn hold(&self, shared: &ActorShared, generation: u64) -> Option<Hold> {
        if self.is_open_for(generation) {
            return None;
        }
        let mut inner = self.inner.lock();
        if self.generation() != generation {
            return Some(Hold::stale(shared));
        }
        let Inner { under_way, next, .. } = &mut *inner;
        let last = next.as_mut().or(under_way.as_mut())?;
        Some(last.hold(Part::Onlooker))
    }

    /// Takes what a turn has left. Returns what the answer waits behind, and whether a commit is to be [driven](Gate::drive).
    ///
    /// # Errors
    /// What the turn has left, if there is no room for it yet.
    fn seal(
        &self,
        shared: &ActorShared,
        generation: u64,
        effects: TurnEffects,
    ) -> Result<(Option<Hold>, bool), Box<Crowded>> {
        let mut inner = self.inner.lock();
        if self.generation() != generation {
            drop(inner);
            release(shared, effects.outputs, || Err(stale(shared)));
            return Ok((Some(Hold::stale(shared)), false));
        }
        let Inner { under_way, next, .. } = &mut *inner;
        let last = if effects.writes.is_some() { next.as_mut() } else { next.as_mut().or(under_way.as_mut()) };
        if let Some(last) = last
            && !last.has_room_for(&effects, shared.partition.commit_bytes_max)
        {
            let (sender, room) = oneshot::channel();
            last.crowded_out.push(sender);
            return Err(Box::new(Crowded { effects, room }));
        }
        let TurnEffects { mut writes, outputs } = effects;
        if let Some(writes) = &mut writes {
            inner.make_known(writes);
        }
        let part = if writes.is_some() { Part::Maker } else { Part::Onlooker };
        let Inner { under_way, next, .. } = &mut *inner;
        let sealed = match (writes, next) {
            (Some(writes), Some(sealed)) => {
                // Nobody else has it before it is under way.
                if let Err(error) = Arc::make_mut(&mut sealed.writes).merge(*writes) {
                    return Ok((Some(Hold::Failed(error)), false));
                }
                sealed
            }
            (Some(writes), next) => next.insert(Sealed::new(writes)),
            (None, next) => match next.as_mut().or(under_way.as_mut()) {
                Some(last) => last,
                None => {
                    drop(inner);
                    release(shared, outputs, || Ok(()));
                    return Ok((None, false));
                }
            },
        };
        sealed.outputs.extend(outputs.into_iter().map(|output| (part, output)));
        match self.is_driven.swap(true, Ordering::AcqRel) {
            true => Ok((Some(sealed.hold(part)), false)),
            false => Ok((None, true)),
        }
    }

    /// Commits what has gathered, until nothing is left.
    ///
    /// # Errors
    /// That of the first commit, which is the one of whoever drives.
    async fn drive(shared: Arc<ActorShared>) -> Result<(), Error> {
        let gate = &shared.gate;
        let driving = Driving { gate };
        let mut first = None;
        loop {
            let (writes, crowded_out) = {
                let mut inner = gate.inner.lock();
                inner.under_way = inner.next.take();
                match &mut inner.under_way {
                    Some(sealed) => (sealed.writes.clone(), std::mem::take(&mut sealed.crowded_out)),
                    None => {
                        gate.is_driven.store(false, Ordering::Release);
                        drop(inner);
                        std::mem::forget(driving);
                        return first.unwrap_or(Ok(()));
                    }
                }
            };
            // Outside of the lock, because it wakes others.
            drop(crowded_out);
            let committed = saving(&shared, shared.partition.commit(&writes)).await;
            drop(writes);
            let (ended, behind) = {
                let mut inner = gate.inner.lock();
                let ended = inner.under_way.take();
                let behind = committed.is_err().then(|| {
                    // Under the lock, so that whoever seals after it knows.
                    gate.fail(&mut inner);
                    inner.next.take()
                });
                (ended, behind.flatten())
            };
            let result = committed.map(drop);
            if let Some(sealed) = ended {
                sealed.end(&shared, &result);
            }
            if let Some(sealed) = behind {
                sealed.end(&shared, &Err(stale(&shared)));
            }
            if result.is_err() {
                // An object that nobody has right now would stay until it is called.
                shared.shed();
            }
            first.get_or_insert(result);
        }
    }

    /// Notes that a commit has failed: what was known by it is not known any more.
    fn fail(&self, inner: &mut Inner) {
        self.generation.fetch_add(1, Ordering::AcqRel);
        inner.is_known = false;
        self.tally.forget();
    }

    fn look<T>(&self, of: impl Fn(&ActorWrites) -> Option<T>) -> Option<T> {
        let inner = self.inner.lock();
        [&inner.next, &inner.under_way].into_iter().flatten().find_map(|sealed| of(&sealed.writes))
    }

    /// A value as of the last turn, committed or not.
    pub(crate) fn state(&self, shared: &ActorShared, name: &str) -> Result<Option<Bytes>> {
        match self.look(|writes| writes.state(name).map(Option::<&Bytes>::cloned)) {
            Some(value) => Ok(value),
            None => match shared.partition.store_if_any()? {
                Some(store) => store.state(&shared.id, name),
                None => Ok(None),
            },
        }
    }

    /// A reminder as of the last turn, committed or not.
    pub(crate) fn reminder(&self, shared: &ActorShared, name: &str) -> Result<Option<Reminder>> {
        match self.look(|writes| writes.reminder(name).map(Option::<&Reminder>::cloned)) {
            Some(reminder) => Ok(reminder),
            None => shared.partition.store()?.reminder(&shared.id, name),
        }
    }

    /// An answer as of the last turn, committed or not.
    pub(crate) fn answer(&self, shared: &ActorShared, key: &str) -> Result<Option<StoredAnswer>> {
        match self.look(|writes| writes.answer(key).map(Option::<&StoredAnswer>::cloned)) {
            Some(answer) => Ok(answer),
            None => shared.partition.store()?.answer(&shared.id, key),
        }
    }

    /// The last answer in a lane as of the last turn, committed or not.
    pub(crate) fn lane(&self, shared: &ActorShared, lane: &str) -> Result<Option<LaneAnswer>> {
        match self.look(|writes| writes.lane(lane).map(Option::<&LaneAnswer>::cloned)) {
            Some(answer) => Ok(answer),
            None => shared.partition.store()?.lane(&shared.id, lane),
        }
    }

    /// Whether the actor is known, as of the last turn.
    pub(crate) fn is_known(&self, shared: &ActorShared) -> Result<bool> {
        match self.look(ActorWrites::is_known) {
            Some(is_known) => Ok(is_known),
            None => shared.partition.store()?.is_known(&shared.id),
        }
    }

    /// Notes that the actor was known when this many commits had failed.
    pub(crate) fn note_known(&self, generation: u64) {
        let mut inner = self.inner.lock();
        if self.generation() == generation {
            inner.is_known = true;
        }
    }

    /// Whether anything is stored of the actor, or on its way to be: also of one that is not known.
    pub(crate) fn holds(&self, shared: &ActorShared) -> Result<bool> {
        let is_under_way = {
            let inner = self.inner.lock();
            inner.under_way.is_some() || inner.next.is_some()
        };
        // What was under way before this look is in the store now.
        Ok(is_under_way || shared.partition.store()?.holds(&shared.id)?)
    }

    /// What is not committed yet, the oldest first.
    pub(crate) fn uncommitted(&self) -> Vec<Arc<ActorWrites>> {
        let inner = self.inner.lock();
        [&inner.under_way, &inner.next].into_iter().flatten().map(|sealed| sealed.writes.clone()).collect()
    }
}

/// Seals what a turn has changed that saw the actor when this many commits had failed. It is committed at once where that
/// takes no waiting, and else by a task of its own.
///
/// # Errors
/// What the turn has left, if there is no room for it yet. Then it keeps the actor until there is.
#[inline]
pub(crate) fn submit(
    shared: &Arc<ActorShared>,
    generation: u64,
    effects: TurnEffects,
    cx: &mut Context<'_>,
) -> Result<Option<Hold>, Box<Crowded>> {
    if effects.writes.is_none() && effects.outputs.is_empty() && shared.gate.is_open_for(generation) {
        return Ok(None);
    }
    submit_behind(shared, generation, effects, cx)
}

fn submit_behind(
    shared: &Arc<ActorShared>,
    generation: u64,
    effects: TurnEffects,
    cx: &mut Context<'_>,
) -> Result<Option<Hold>, Box<Crowded>> {
    let (hold, is_to_drive) = shared.gate.seal(shared, generation, effects)?;
    if !is_to_drive {
        return Ok(hold);
    }
    let mut driving: Pin<Box<dyn Future<Output = _> + Send>> = Box::pin(Gate::drive(shared.clone()));
    Ok(match driving.as_mut().poll(cx) {
        Poll::Ready(Ok(())) => None,
        Poll::Ready(Err(error)) => Some(Hold::Failed(error)),
        Poll::Pending => {
            // Not what has gathered since: that others fail is no concern of this turn.
            let hold = shared.gate.inner.lock().under_way.as_mut().map(|sealed| sealed.hold(Part::Maker));
            drop(shared.partition.scope.spawn(driving));
            hold
        }
    })
}

/// A commit that is under way. If it is given up, because the partition is closed, so is everything behind it: whoever
/// waits is told that nobody knows what became of it.
struct Driving<'g> {
    gate: &'g Gate,
}

impl Drop for Driving<'_> {
    fn drop(&mut self) {
        let mut inner = self.gate.inner.lock();
        self.gate.fail(&mut inner);
        self.gate.is_driven.store(false, Ordering::Release);
        let given_up = [inner.under_way.take(), inner.next.take()];
        drop(inner);
        // Outside of the lock, because it wakes others.
        drop(given_up);
    }
}

impl Sealed {
    fn new(writes: Box<ActorWrites>) -> Self {
        Self { writes: Arc::from(writes), waiting: Vec::new(), outputs: Vec::new(), crowded_out: Vec::new() }
    }

    fn hold(&mut self, part: Part) -> Hold {
        let (sender, receiver) = oneshot::channel();
        self.waiting.push((part, sender));
        Hold::Waiting(receiver)
    }

    /// True if what a turn has left can be added. Turns that could be committed must not fail together because they were
    /// committed together.
    fn has_room_for(&self, effects: &TurnEffects, bytes_max: usize) -> bool {
        let fits = |writes: &ActorWrites| self.writes.bytes_at_most_with(writes) <= bytes_max;
        self.waiting.len() < WAITING_MAX && effects.writes.as_deref().is_none_or(fits)
    }

    fn end(self, shared: &ActorShared, result: &Result<(), Error>) {
        // Whoever has only seen what is lost now has not caused it, and has nothing to do about it but to look again.
        let told = |part| match (result, part) {
            (Err(_), Part::Onlooker) => Err(stale(shared)),
            (result, _) => result.clone(),
        };
        if result.is_ok() {
            departure::begin(shared, &self.writes);
        }
        for (part, output) in self.outputs {
            release(shared, [output], || told(part));
        }
        if result.is_ok() {
            departure::end(shared, &self.writes);
        }
        for (part, waiting) in self.waiting {
            // An error means that nobody waits any more.
            let _ = waiting.send(told(part));
        }
    }
}

/// What waits until commits of an actor are durable. Dropping it takes nothing back.
pub(crate) enum Hold {
    Waiting(oneshot::Receiver<Result<(), Error>>),
    Failed(Error),
}

impl Hold {
    fn stale(shared: &ActorShared) -> Self {
        Self::Failed(stale(shared))
    }

    /// Ready when they are durable, or when it is known that they are not.
    pub(crate) async fn opened(self) -> Result<()> {
        match self {
            Self::Failed(error) => Err(error),
            Self::Waiting(receiver) => match receiver.await {
                Ok(Ok(())) => Ok(()),
                Ok(Err(error)) => Err(error),
                Err(_) => Err(Error::new(
                    ErrorKind::OutcomeUnknown,
                    "the actor's partition was closed while the turn was being committed: read before you repeat the call",
                )),
            },
        }
    }
}

/// What a turn is told that ran on changes which were not committed.
pub(crate) fn stale(shared: &ActorShared) -> Error {
    Error::new(
        ErrorKind::Retry,
        format!(
            "a commit of {shared} failed while this turn ran on what it had changed, and so nothing of this turn happened: retry"
        ),
    )
}
