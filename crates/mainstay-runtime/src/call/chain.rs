use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Weak};

use mainstay_core::{Error, ErrorKind};
use parking_lot::Mutex;

use crate::actor::site::Site;

/// How many turns may lead to each other. A chain that long is a mistake: each of them holds its actor.
pub(crate) const CHAIN_MAX: usize = 256;

/// How many turns of other chains an error tells of, by which an actor waits for its own.
const TURNS_TOLD_MAX: usize = 16;

/// A turn that makes calls, as part of the chain that leads to them.
pub(crate) struct Link {
    site: Arc<Site>,
    method: &'static str,
    parent: Option<Arc<Link>>,
    depth: usize,
    /// Whom it waits for, once for each call.
    awaited: Mutex<Vec<Wait>>,
}

/// What a turn waits for by one of its calls. Those for the same actor are alike.
struct Wait {
    site: Weak<Site>,
    /// True if the call was refused, and is about to say so: then it waits no more.
    is_refused: bool,
}

/// Looking for a cycle and becoming part of one exclude each other, so that of two chains that meet one is refused, and
/// only one.
static LOOKING: Mutex<()> = Mutex::new(());

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// The whole chain, from its first turn to this.
impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = &self.parent {
            write!(f, "{parent} → ")?;
        }
        write!(f, "{}.{}", self.site, self.method)
    }
}

impl Link {
    /// The link of a turn, which is known to its actor until the turn ends.
    pub(crate) fn new(site: Arc<Site>, method: &'static str, parent: Option<Arc<Self>>) -> Arc<Self> {
        let depth = parent.as_ref().map_or(1, |parent| parent.depth + 1);
        let link = Arc::new(Self { site, method, parent, depth, awaited: Mutex::default() });
        link.site.callers().push(link.clone());
        link
    }

    /// To be called when the turn has ended.
    pub(crate) fn end(self: &Arc<Self>) {
        self.site.callers().retain(|link| !Arc::ptr_eq(link, self));
    }

    /// The first and the last turn, for a chain that is too long to be told.
    pub(crate) fn ends(&self) -> String {
        let first = self.turns().last().unwrap_or(self);
        format!("{}.{} → … → {}.{}", first.site, first.method, self.site, self.method)
    }

    pub(crate) fn depth(&self) -> usize {
        self.depth
    }

    /// True if a turn of the chain is one of this actor.
    pub(crate) fn has(&self, site: &Arc<Site>) -> bool {
        self.turns().any(|link| Arc::ptr_eq(&link.site, site))
    }

    fn turns(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |link| link.parent.as_deref())
    }

    /// Notes that the turn waits for an actor, until what is returned is dropped.
    pub(crate) fn awaits(self: &Arc<Self>, site: &Arc<Site>) -> Awaiting {
        self.awaited.lock().push(Wait { site: Arc::downgrade(site), is_refused: false });
        Awaiting { link: self.clone(), site: Arc::downgrade(site) }
    }

    /// Ends a wait for an actor: that of a call that was refused, if there is one, because only such a call ends at once.
    fn forget(&self, site: &Weak<Site>) {
        let mut awaited = self.awaited.lock();
        let place = |is_refused| awaited.iter().position(|wait| wait.is(site) && wait.is_refused == is_refused);
        if let Some(place) = place(true).or_else(|| place(false)) {
            awaited.swap_remove(place);
        }
    }

    /// Notes that a call to an actor is refused.
    fn refuse(&self, site: &Weak<Site>) {
        let mut awaited = self.awaited.lock();
        if let Some(wait) = awaited.iter_mut().find(|wait| wait.is(site) && !wait.is_refused) {
            wait.is_refused = true;
        }
    }

    /// Refuses to wait for an actor that waits, itself or by others, for a turn of this chain.
    pub(crate) fn refuse_cycle(&self, target: &Arc<Site>, method: &str) -> Result<(), Error> {
        let _looking = LOOKING.lock();
        let Some(cycle) = self.find(target) else { return Ok(()) };
        // Before anybody else looks, because this wait will not be.
        self.refuse(&Arc::downgrade(target));
        let through = if cycle.is_empty() { String::new() } else { format!(", which waits for {}", told(&cycle)) };
        Err(Error::new(
            ErrorKind::Conflict,
            format!(
                "call cycle: {self} → {target}.{method} would wait for itself{through}: let one of them answer later (`Deferred`) \
                 or make the call after the turn"
            ),
        ))
    }

    /// The turns by which `target` waits for this chain, if it does.
    fn find(&self, target: &Arc<Site>) -> Option<Vec<Arc<Self>>> {
        let own: HashSet<_> = self.turns().map(std::ptr::from_ref).collect();
        let mut known = HashSet::from([Arc::as_ptr(target)]);
        // The turns that were found to wait, each with the one that waits for its actor.
        let mut found: Vec<(Arc<Self>, Option<usize>)> = Vec::new();
        let mut open = vec![(target.clone(), None)];
        // Not by recursion: as many actors may wait for each other as there are.
        while let Some((site, waiting)) = open.pop() {
            let holders = site.callers().clone();
            for holder in holders {
                if own.contains(&Arc::as_ptr(&holder)) {
                    let turns = std::iter::successors(waiting, |at: &usize| found[*at].1);
                    let mut turns: Vec<_> = turns.map(|at| found[at].0.clone()).collect();
                    turns.reverse();
                    return Some(turns);
                }
                let awaited: Vec<_> = holder.awaited.lock().iter().filter_map(Wait::awaited).collect();
                found.push((holder, waiting));
                let next = awaited.into_iter().filter(|next| known.insert(Arc::as_ptr(next)));
                open.extend(next.map(|next| (next, Some(found.len() - 1))));
            }
        }
        None
    }
}

/// The turns of a cycle, or the first and the last of one that is too long to be told.
fn told(turns: &[Arc<Link>]) -> String {
    let name = |link: &Arc<Link>| format!("{}.{}", link.site, link.method);
    match turns {
        [first, .., last] if turns.len() > TURNS_TOLD_MAX => {
            format!("{} and {} more up to {}", name(first), turns.len() - 2, name(last))
        }
        turns => turns.iter().map(name).collect::<Vec<_>>().join(", "),
    }
}

impl Wait {
    fn is(&self, site: &Weak<Site>) -> bool {
        self.site.ptr_eq(site)
    }

    /// The actor, if it is waited for.
    fn awaited(&self) -> Option<Arc<Site>> {
        if self.is_refused { None } else { self.site.upgrade() }
    }
}

/// A turn's wait for an actor.
pub(crate) struct Awaiting {
    link: Arc<Link>,
    site: Weak<Site>,
}

impl Drop for Awaiting {
    fn drop(&mut self) {
        self.link.forget(&self.site);
    }
}
