//! Deadlock detection: the wait-for graph of turns, and the refusal of a call that would close a cycle.
//!
//! A turn that makes a call becomes a [`Link`], which is registered at the resource that the turn holds: an actor, or an
//! instance of a worker pool. Each call of the turn is a [`CallWait`]: for the resource while the call is queued, and then
//! for the turn that the call has become. Before a call is queued, the graph is searched from the resource, and the call is
//! refused if the search leads back to the call's own chain.

mod deadlock;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Weak};

use mainstay_core::{ActorId, Error, ErrorKind};
use mainstay_state::EpochLease;
use parking_lot::{Mutex, MutexGuard};

/// The bound on the depth of a chain. A longer chain is a mistake in the application: each of its turns holds an actor.
pub(crate) const CHAIN_MAX: usize = 256;

/// The bound on the turns of other chains that an error lists.
const TURNS_LISTED_MAX: usize = 16;

/// A resource of the wait-for graph: turns hold it, and queued calls wait for it.
pub(crate) trait HeldResource: fmt::Display + Send + Sync {
    /// The registry of turns that hold the resource and have made calls; `None` if no call waits for this resource.
    fn callers(&self) -> Option<&Mutex<Vec<Arc<Link>>>>;

    /// The turns that hold the resource, as far as they wait for others.
    fn holders(&self) -> Vec<Arc<Link>> {
        self.callers().map(|callers| callers.lock().clone()).unwrap_or_default()
    }

    /// The remedy in the error text of a refused call.
    fn remedy(&self) -> String;

    /// The lease without which its turns give no answer; `None` where no role is needed.
    fn lease(&self) -> Option<&EpochLease> {
        None
    }

    /// The number of turns that can hold the resource at a time, if the end of any one of them admits a queued call; `None`
    /// if all holders have to end first.
    fn capacity(&self) -> Option<usize>;

    /// The name by which other nodes know the resource; `None` if they cannot wait for it.
    fn identity(&self) -> Option<TurnIdentity> {
        None
    }
}

/// The object of a turn, as all nodes know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TurnIdentity {
    pub(crate) service: Arc<str>,
    /// The actor; `None` for the object of a service, which no call has to wait for.
    pub(crate) actor: Option<ActorId>,
}

impl fmt::Display for TurnIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.actor {
            Some(id) => write!(f, "{}({id})", self.service),
            None => write!(f, "service {}", self.service),
        }
    }
}

/// A turn on another node, as an element of the chain of a call that has come from there.
struct TurnElsewhere(TurnIdentity);

impl fmt::Display for TurnElsewhere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl HeldResource for TurnElsewhere {
    fn callers(&self) -> Option<&Mutex<Vec<Arc<Link>>>> {
        None
    }

    fn remedy(&self) -> String {
        String::new()
    }

    fn capacity(&self) -> Option<usize> {
        None
    }

    fn identity(&self) -> Option<TurnIdentity> {
        Some(self.0.clone())
    }
}

/// A turn that makes calls: a node of the wait-for graph, and an element of the chain that leads to its calls.
pub(crate) struct Link {
    resource: Arc<dyn HeldResource>,
    method: Cow<'static, str>,
    /// The actor of a turn on another node. It is recognized by its id here.
    elsewhere: Option<TurnIdentity>,
    /// The call by which the turn was started.
    parent: Option<Chain>,
    depth: usize,
    waits: Mutex<CallWaits>,
}

/// The outstanding calls of a turn.
#[derive(Default)]
struct CallWaits {
    /// One for each outstanding call.
    open: Vec<CallWait>,
    next: u64,
}

struct CallWait {
    number: u64,
    target: WaitTarget,
}

/// The edge of the wait-for graph from a call.
enum WaitTarget {
    /// Unknown: the call is on its way, or its turn has made no calls.
    Nobody,
    /// A turn that has made calls.
    Turn(Weak<Link>),
    /// A resource for which the call is queued.
    Resource(Weak<dyn HeldResource>),
}

/// Iterative: a chain of services may be longer than the stack allows for recursion.
impl Drop for Link {
    fn drop(&mut self) {
        let mut parent = self.parent.take();
        while let Some(mut link) = parent.and_then(|parent| Arc::into_inner(parent.link)) {
            parent = link.parent.take();
        }
    }
}

/// The origin of a call: a turn, and the number of the call within the turn.
#[derive(Clone)]
pub(crate) struct Chain {
    link: Arc<Link>,
    wait: u64,
}

/// Serializes cycle search with adding an edge, so that of two chains that would close a cycle exactly one is refused.
static DETECTION: Mutex<()> = Mutex::new(());

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.resource, self.method)
    }
}

/// The whole chain, from its first turn to this one, as far as each turn still waits for the next.
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
    /// The link of a turn, which is registered at its resource until [`end`](Link::end).
    pub(crate) fn new(resource: Arc<dyn HeldResource>, method: &'static str, parent: Option<Chain>) -> Arc<Self> {
        // A service holds no resource, and so a chain of services has no bound on its depth.
        let own = usize::from(resource.callers().is_some());
        let depth = parent.as_ref().map_or(0, |parent| parent.link.depth) + own;
        let method = Cow::Borrowed(method);
        let link = Arc::new(Self { resource, method, elsewhere: None, parent, depth, waits: Mutex::default() });
        if let Some(callers) = link.resource.callers() {
            callers.lock().push(link.clone());
        }
        if let Some(parent) = &link.parent {
            parent.set(WaitTarget::Turn(Arc::downgrade(&link)));
        }
        link
    }

    /// The links of turns on other nodes, from the first to the last: those that have led to a call which has come from there. Each
    /// waits for the next, and the last for the call, until its guard is dropped.
    pub(crate) fn of_turns_elsewhere(turns: impl IntoIterator<Item = (TurnIdentity, String)>) -> Vec<CallWaitGuard> {
        let mut guards: Vec<CallWaitGuard> = Vec::new();
        for (identity, method) in turns {
            let parent = guards.last().map(|guard| guard.chain.clone());
            let own = usize::from(identity.actor.is_some());
            let depth = parent.as_ref().map_or(0, |parent| parent.link.depth) + own;
            let link = Arc::new(Self {
                resource: Arc::new(TurnElsewhere(identity.clone())),
                method: Cow::Owned(method),
                elsewhere: Some(identity),
                parent,
                depth,
                waits: Mutex::default(),
            });
            guards.push(link.awaits());
        }
        guards
    }

    /// Removes the registration. To be called when the turn has ended.
    pub(crate) fn end(self: &Arc<Self>) {
        if let Some(callers) = self.resource.callers() {
            callers.lock().retain(|link| !Arc::ptr_eq(link, self));
        }
    }

    /// The first and the last turn, for a chain that is too long to be listed.
    pub(crate) fn ends(&self) -> String {
        let first = self.turns().last().unwrap_or(self);
        format!("{first:?} → … → {self:?}")
    }

    pub(crate) fn depth(&self) -> usize {
        self.depth
    }

    /// The turn that waits for this one; `None` if there is none, or its wait was dropped.
    fn awaited_by(&self) -> Option<&Self> {
        let parent = self.parent.as_ref()?;
        parent.is_awaited().then_some(&*parent.link)
    }

    /// The turn and its callers, each of which waits for the one before.
    fn turns(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |link| link.awaited_by())
    }

    /// Registers a call that the turn waits for, until the guard is dropped.
    pub(crate) fn awaits(self: &Arc<Self>) -> CallWaitGuard {
        let mut waits = self.waits.lock();
        let wait = waits.next;
        waits.next += 1;
        waits.open.push(CallWait { number: wait, target: WaitTarget::Nobody });
        drop(waits);
        CallWaitGuard { chain: Chain { link: self.clone(), wait } }
    }

    /// Searches a path from `target` to this chain. Returns the turns on the path, and whether a resource with a capacity
    /// was visited.
    fn find(&self, target: &Arc<dyn HeldResource>) -> Option<(Vec<Arc<Self>>, bool)> {
        let own: HashSet<_> = self.turns().map(std::ptr::from_ref).collect();
        let (mut visited, mut count) = (Visited::default(), 0);
        // The visited turns, each with the index of the turn that waits for it.
        let mut found: Vec<(Arc<Self>, Option<usize>)> = Vec::new();
        let mut open: Vec<(WaitNode, Option<usize>)> = vec![(WaitNode::Resource(target.clone()), None)];
        let (mut has_capacity, mut cycle) = (false, None);
        // Iterative, because the graph has no bound on its depth.
        while let Some((next, waiting)) = open.pop() {
            count += 1;
            if visited.place(&next, count) != count {
                continue;
            }
            match next {
                WaitNode::Resource(resource) => {
                    has_capacity |= resource.capacity().is_some();
                    open.extend(resource.holders().into_iter().map(|holder| (WaitNode::Turn(holder), waiting)));
                }
                WaitNode::Turn(turn) if own.contains(&Arc::as_ptr(&turn)) => {
                    cycle.get_or_insert(waiting);
                    if !has_capacity {
                        break;
                    }
                }
                WaitNode::Turn(turn) => {
                    let awaited = turn.awaited();
                    found.push((turn, waiting));
                    open.extend(awaited.into_iter().map(|next| (next, Some(found.len() - 1))));
                }
            }
        }
        let turns = std::iter::successors(cycle?, |at: &usize| found[*at].1);
        let mut turns: Vec<_> = turns.map(|at| found[at].0.clone()).collect();
        turns.reverse();
        Some((turns, has_capacity))
    }

    /// The outgoing edges of the turn.
    fn awaited(&self) -> Vec<WaitNode> {
        self.waits.lock().open.iter().filter_map(|wait| wait.target.next()).collect()
    }
}

impl Chain {
    fn entry<'w>(&self, waits: &'w mut MutexGuard<'_, CallWaits>) -> Option<&'w mut CallWait> {
        waits.open.iter_mut().find(|wait| wait.number == self.wait)
    }

    /// True if the turn still waits for the call.
    fn is_awaited(&self) -> bool {
        self.entry(&mut self.link.waits.lock()).is_some()
    }

    fn set(&self, target: WaitTarget) {
        if let Some(wait) = self.entry(&mut self.link.waits.lock()) {
            wait.target = target;
        }
    }

    /// Removes the edge to the resource: the call is no longer queued.
    pub(crate) fn admitted(&self) {
        self.set(WaitTarget::Nobody);
    }

    /// True if a turn of the chain holds the resource.
    pub(crate) fn has(&self, resource: &Arc<impl HeldResource>) -> bool {
        let holds = |link: &Link| std::ptr::addr_eq(Arc::as_ptr(&link.resource), Arc::as_ptr(resource));
        self.is_awaited() && (self.link.turns().any(holds) || self.has_elsewhere(&**resource))
    }

    /// True if the chain has been on other nodes, and a turn of this resource has made the call that went there.
    fn has_elsewhere(&self, resource: &dyn HeldResource) -> bool {
        if self.link.turns().all(|link| link.elsewhere.is_none()) {
            return false;
        }
        let identity = resource.identity().filter(|identity| identity.actor.is_some());
        identity.is_some() && self.link.turns().any(|link| link.elsewhere == identity)
    }

    /// The turns that wait for the call, from the first to the last, as other nodes know them; those whose objects they do not know
    /// are left out. Of more than `turns_max` those of services are left out too, because no call waits for them.
    pub(crate) fn identities(&self, turns_max: usize) -> Vec<(TurnIdentity, String)> {
        if !self.is_awaited() {
            return Vec::new();
        }
        let known = |link: &Link| Some((link.resource.identity()?, link.method.clone().into_owned()));
        let mut turns: Vec<_> = self.link.turns().filter_map(known).collect();
        if turns.len() > turns_max {
            turns.retain(|(identity, _)| identity.actor.is_some());
        }
        // The actors of a chain are bounded by `CHAIN_MAX`; what is cut off are the first turns.
        turns.truncate(turns_max);
        turns.reverse();
        turns
    }

    /// Adds the edge from the call to the resource for which it is about to be queued. Refuses it with `Conflict` if the
    /// resource waits, directly or transitively, for a turn of this chain.
    pub(crate) fn wait_for(&self, target: Arc<dyn HeldResource>, method: Option<&str>) -> Result<(), Error> {
        let _detection = DETECTION.lock();
        self.set(WaitTarget::Resource(Arc::downgrade(&target)));
        if !self.is_awaited() {
            // No turn waits for the call, so the call cannot be part of a cycle.
            return Ok(());
        }
        if self.has_elsewhere(&*target) {
            self.set(WaitTarget::Nobody);
            let method = method.map(|method| format!(".{method}")).unwrap_or_default();
            let text = format!(
                "call cycle over several nodes: {} → {target}{method} would wait for itself: {}",
                self.link,
                target.remedy()
            );
            return Err(Error::new(ErrorKind::Conflict, text));
        }
        let Some((cycle, has_capacity)) = self.link.find(&target) else { return Ok(()) };
        if has_capacity && deadlock::can_go_on(&self.link, &target) {
            return Ok(());
        }
        // Remove the edge before another search can see it, because the call is refused.
        self.set(WaitTarget::Nobody);
        let through = if cycle.is_empty() { String::new() } else { format!(", which waits for {}", described(&cycle)) };
        let method = method.map(|method| format!(".{method}")).unwrap_or_default();
        Err(Error::new(
            ErrorKind::Conflict,
            format!("call cycle: {} → {target}{method} would wait for itself{through}: {}", self.link, target.remedy()),
        ))
    }
}

/// A node of the wait-for graph.
enum WaitNode {
    Turn(Arc<Link>),
    Resource(Arc<dyn HeldResource>),
}

impl WaitTarget {
    fn next(&self) -> Option<WaitNode> {
        match self {
            Self::Nobody => None,
            Self::Turn(turn) => turn.upgrade().map(WaitNode::Turn),
            Self::Resource(resource) => resource.upgrade().map(WaitNode::Resource),
        }
    }
}

/// The visited nodes, each with its index.
#[derive(Default)]
struct Visited {
    turns: HashMap<*const Link, usize>,
    resources: HashMap<*const (), usize>,
}

impl Visited {
    /// The index under which the node was visited before, or `number` for a new one.
    fn place(&mut self, next: &WaitNode, number: usize) -> usize {
        *match next {
            WaitNode::Turn(turn) => self.turns.entry(Arc::as_ptr(turn)).or_insert(number),
            WaitNode::Resource(resource) => self.resources.entry(Arc::as_ptr(resource).cast()).or_insert(number),
        }
    }
}

/// The turns of a cycle, or the first and the last of one that is too long to be listed.
fn described(turns: &[Arc<Link>]) -> String {
    match turns {
        [first, .., last] if turns.len() > TURNS_LISTED_MAX => {
            format!("{first:?} and {} more up to {last:?}", turns.len() - 2)
        }
        turns => turns.iter().map(|turn| format!("{turn:?}")).collect::<Vec<_>>().join(", "),
    }
}

/// The wait of a turn for a call, which ends when this is dropped.
pub(crate) struct CallWaitGuard {
    chain: Chain,
}

impl CallWaitGuard {
    /// The chain that the call carries.
    pub(crate) fn chain(&self) -> &Chain {
        &self.chain
    }
}

impl Drop for CallWaitGuard {
    fn drop(&mut self) {
        let Chain { link, wait } = &self.chain;
        link.waits.lock().open.retain(|open| open.number != *wait);
    }
}
