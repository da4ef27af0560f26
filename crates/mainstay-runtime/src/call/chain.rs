//! What turns wait for, and how a circle of them is found before it closes.
//!
//! A turn that makes a call becomes a [`Link`], which is known to what it holds: an actor, or a place in a pool of workers. Each
//! of its calls is a [`Wait`]: for a place in line, and once that was given, for the turn that the call has become. Whoever is
//! about to stand in line looks along these waits, and is refused if they lead back to it.

mod deadlock;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Weak};

use mainstay_core::{Error, ErrorKind};
use parking_lot::{Mutex, MutexGuard};

/// How many turns may lead to each other. A chain that long is a mistake: each of them holds its actor.
pub(crate) const CHAIN_MAX: usize = 256;

/// How many turns of other chains an error tells of, by which an actor waits for its own.
const TURNS_TOLD_MAX: usize = 16;

/// What turns hold, and others wait in line for.
pub(crate) trait Line: fmt::Display + Send + Sync {
    /// Where the turns are noted that hold it and have called others; `None` if nobody waits for them by it.
    fn callers(&self) -> Option<&Mutex<Vec<Arc<Link>>>>;

    /// The turns that hold it, as far as they wait for somebody.
    fn holders(&self) -> Vec<Arc<Link>> {
        self.callers().map(|callers| callers.lock().clone()).unwrap_or_default()
    }

    /// What to do where one who stands in line would wait for itself.
    fn remedy(&self) -> String;

    /// How many turns can hold it, each of which lets one go on who waits when it ends. `None` if all of them have to end.
    fn places(&self) -> Option<usize>;
}

/// A turn that makes calls, as part of the chain that leads to them.
pub(crate) struct Link {
    line: Arc<dyn Line>,
    method: &'static str,
    /// The turn by which it was called.
    parent: Option<Chain>,
    depth: usize,
    waits: Mutex<Waits>,
}

/// What a turn waits for.
#[derive(Default)]
struct Waits {
    /// One for each of its calls.
    open: Vec<Wait>,
    next: u64,
}

struct Wait {
    number: u64,
    whom: Whom,
}

/// Whom a call waits for.
enum Whom {
    /// Nobody that is known of: it is on its way, or its turn has not called anybody.
    Nobody,
    /// A turn that has called others.
    Turn(Weak<Link>),
    /// Those who are before it in a line.
    Line(Weak<dyn Line>),
}

/// Not by recursion: a chain of services may be longer than a stack.
impl Drop for Link {
    fn drop(&mut self) {
        let mut parent = self.parent.take();
        while let Some(mut link) = parent.and_then(|parent| Arc::into_inner(parent.link)) {
            parent = link.parent.take();
        }
    }
}

/// What has led to a call: a turn, and which of its calls it is.
#[derive(Clone)]
pub(crate) struct Chain {
    link: Arc<Link>,
    wait: u64,
}

/// Looking for a cycle and becoming part of one exclude each other, so that of two chains that meet one is refused, and
/// only one.
static LOOKING: Mutex<()> = Mutex::new(());

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.line, self.method)
    }
}

/// The whole chain, from its first turn to this, as far as each still waits for the next.
impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let turns: Vec<_> = self.turns().take(CHAIN_MAX + 1).collect();
        if turns.len() > CHAIN_MAX {
            return f.write_str(&self.ends());
        }
        let (last, before) = (self, turns.iter().skip(1).rev());
        before.into_iter().try_for_each(|turn| write!(f, "{turn:?} → "))?;
        write!(f, "{last:?}")
    }
}

impl Link {
    /// The link of a turn, which is known to what it holds until the turn ends.
    pub(crate) fn new(line: Arc<dyn Line>, method: &'static str, parent: Option<Chain>) -> Arc<Self> {
        // A service holds nothing, and so a chain of services may be as long as it likes.
        let own = usize::from(line.callers().is_some());
        let depth = parent.as_ref().map_or(0, |parent| parent.link.depth) + own;
        let link = Arc::new(Self { line, method, parent, depth, waits: Mutex::default() });
        if let Some(callers) = link.line.callers() {
            callers.lock().push(link.clone());
        }
        if let Some(parent) = &link.parent {
            parent.set(Whom::Turn(Arc::downgrade(&link)));
        }
        link
    }

    /// To be called when the turn has ended.
    pub(crate) fn end(self: &Arc<Self>) {
        if let Some(callers) = self.line.callers() {
            callers.lock().retain(|link| !Arc::ptr_eq(link, self));
        }
    }

    /// The first and the last turn, for a chain that is too long to be told.
    pub(crate) fn ends(&self) -> String {
        let first = self.turns().last().unwrap_or(self);
        format!("{first:?} → … → {self:?}")
    }

    pub(crate) fn depth(&self) -> usize {
        self.depth
    }

    /// The turn that waits for this one; `None` if nobody does, or has given it up.
    fn awaited_by(&self) -> Option<&Self> {
        let parent = self.parent.as_ref()?;
        parent.is_awaited().then_some(&*parent.link)
    }

    /// The turn and those that wait for it, one by the other.
    fn turns(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |link| link.awaited_by())
    }

    /// Notes that the turn waits for a call, until what is returned is dropped.
    pub(crate) fn awaits(self: &Arc<Self>) -> Awaiting {
        let mut waits = self.waits.lock();
        let wait = waits.next;
        waits.next += 1;
        waits.open.push(Wait { number: wait, whom: Whom::Nobody });
        drop(waits);
        Awaiting { chain: Chain { link: self.clone(), wait } }
    }

    /// The turns by which `target` waits for this chain, if it does, and whether there are places among what they wait for.
    fn find(&self, target: &Arc<dyn Line>) -> Option<(Vec<Arc<Self>>, bool)> {
        let own: HashSet<_> = self.turns().map(std::ptr::from_ref).collect();
        let (mut seen, mut count) = (Seen::default(), 0);
        // The turns that were found to wait, each with the one that waits for it.
        let mut found: Vec<(Arc<Self>, Option<usize>)> = Vec::new();
        let mut open: Vec<(Next, Option<usize>)> = vec![(Next::Line(target.clone()), None)];
        let (mut has_places, mut cycle) = (false, None);
        // Not by recursion: as many turns may wait for each other as there are.
        while let Some((next, waiting)) = open.pop() {
            count += 1;
            if seen.place(&next, count) != count {
                continue;
            }
            match next {
                Next::Line(line) => {
                    has_places |= line.places().is_some();
                    open.extend(line.holders().into_iter().map(|holder| (Next::Turn(holder), waiting)));
                }
                Next::Turn(turn) if own.contains(&Arc::as_ptr(&turn)) => {
                    cycle.get_or_insert(waiting);
                    if !has_places {
                        break;
                    }
                }
                Next::Turn(turn) => {
                    let awaited = turn.awaited();
                    found.push((turn, waiting));
                    open.extend(awaited.into_iter().map(|next| (next, Some(found.len() - 1))));
                }
            }
        }
        let turns = std::iter::successors(cycle?, |at: &usize| found[*at].1);
        let mut turns: Vec<_> = turns.map(|at| found[at].0.clone()).collect();
        turns.reverse();
        Some((turns, has_places))
    }

    /// What it waits for.
    fn awaited(&self) -> Vec<Next> {
        self.waits.lock().open.iter().filter_map(|wait| wait.whom.next()).collect()
    }
}

impl Chain {
    fn entry<'w>(&self, waits: &'w mut MutexGuard<'_, Waits>) -> Option<&'w mut Wait> {
        waits.open.iter_mut().find(|wait| wait.number == self.wait)
    }

    /// True if the turn still waits for the call.
    fn is_awaited(&self) -> bool {
        self.entry(&mut self.link.waits.lock()).is_some()
    }

    fn set(&self, whom: Whom) {
        if let Some(wait) = self.entry(&mut self.link.waits.lock()) {
            wait.whom = whom;
        }
    }

    /// Notes that the call stands in line no more: it has its turn.
    pub(crate) fn admitted(&self) {
        self.set(Whom::Nobody);
    }

    /// True if a turn of the chain holds this.
    pub(crate) fn has(&self, line: &Arc<impl Line>) -> bool {
        let holds = |link: &Link| std::ptr::addr_eq(Arc::as_ptr(&link.line), Arc::as_ptr(line));
        self.is_awaited() && self.link.turns().any(holds)
    }

    /// Notes that the call stands in line, or refuses that if those before it wait, themselves or by others, for a turn of
    /// this chain.
    pub(crate) fn stand_in_line(&self, target: Arc<dyn Line>, method: Option<&str>) -> Result<(), Error> {
        let _looking = LOOKING.lock();
        self.set(Whom::Line(Arc::downgrade(&target)));
        if !self.is_awaited() {
            // Nobody waits for it, and so nobody waits for itself.
            return Ok(());
        }
        let Some((cycle, has_places)) = self.link.find(&target) else { return Ok(()) };
        if has_places && deadlock::can_go_on(&self.link, &target) {
            return Ok(());
        }
        // Before anybody else looks, because this wait will not be.
        self.set(Whom::Nobody);
        let through = if cycle.is_empty() { String::new() } else { format!(", which waits for {}", told(&cycle)) };
        let method = method.map(|method| format!(".{method}")).unwrap_or_default();
        Err(Error::new(
            ErrorKind::Conflict,
            format!("call cycle: {} → {target}{method} would wait for itself{through}: {}", self.link, target.remedy()),
        ))
    }
}

/// What is to be looked at next.
enum Next {
    Turn(Arc<Link>),
    Line(Arc<dyn Line>),
}

impl Whom {
    fn next(&self) -> Option<Next> {
        match self {
            Self::Nobody => None,
            Self::Turn(turn) => turn.upgrade().map(Next::Turn),
            Self::Line(line) => line.upgrade().map(Next::Line),
        }
    }
}

/// What was looked at, each with a number.
#[derive(Default)]
struct Seen {
    turns: HashMap<*const Link, usize>,
    lines: HashMap<*const (), usize>,
}

impl Seen {
    /// The number of what was there before, or this one from now on.
    fn place(&mut self, next: &Next, number: usize) -> usize {
        *match next {
            Next::Turn(turn) => self.turns.entry(Arc::as_ptr(turn)).or_insert(number),
            Next::Line(line) => self.lines.entry(Arc::as_ptr(line).cast()).or_insert(number),
        }
    }
}

/// The turns of a cycle, or the first and the last of one that is too long to be told.
fn told(turns: &[Arc<Link>]) -> String {
    match turns {
        [first, .., last] if turns.len() > TURNS_TOLD_MAX => {
            format!("{first:?} and {} more up to {last:?}", turns.len() - 2)
        }
        turns => turns.iter().map(|turn| format!("{turn:?}")).collect::<Vec<_>>().join(", "),
    }
}

/// A turn's wait for a call.
pub(crate) struct Awaiting {
    chain: Chain,
}

impl Awaiting {
    /// What the call takes along.
    pub(crate) fn chain(&self) -> &Chain {
        &self.chain
    }
}

impl Drop for Awaiting {
    fn drop(&mut self) {
        let Chain { link, wait } = &self.chain;
        link.waits.lock().open.retain(|open| open.number != *wait);
    }
}
