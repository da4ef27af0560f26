use std::any::{Any, TypeId};
use std::fmt;
use std::hash::BuildHasher as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use arc_swap::ArcSwapOption;
use foldhash::quality::FixedState;
use hashbrown::HashMap;
use mainstay_core::task::{Home, Scope};
use mainstay_core::{ActorId, Epoch, Error, ErrorKind, Level, Result, SequenceNumber};
use mainstay_state::actor::{ActorStore, ActorWrites, Published};
use mainstay_state::{CommitFaults, EpochLease};
use parking_lot::RwLock;

use crate::actor::Actor;
use crate::actor::activation::ActorOptions;
use crate::actor::actor_shared::ActorShared;
use crate::actor::bell::Bell;
use crate::actor::cell::ActorCell;
use crate::actor::cell::removal::Removing;
use crate::actor::deactivation::leave_each;
use crate::actor::enumeration::{ActorInfo, ActorReminder};
use crate::actor::event::audience::Audience;
use crate::actor::eviction::{self, Vacancy};
use crate::actor::memory_budget::MemoryBudget;
use crate::actor::presence::Active;
use crate::actor::route_cache::CachedRoute;
use crate::actor::settings::ActorSettings;
use crate::call::arrival::Deadline;
use crate::call::unproven::unproven;
use crate::interfaces::Interfaces;
use crate::observe::counters::ActorCounters;
use crate::router::{Address, Services};
use crate::service::activation::PartitionContext;

/// Into how many parts the table of actors is cut, so that those who look for different ones seldom meet.
const SHARDS: usize = 16;

/// How many `deactivate` hooks run at a time when a partition is closed. There is little time, and the hooks mostly wait.
const CLOSING_AT_ONCE: usize = 1024;

/// The actors of a partition that is primary here: what they share, whatever their type.
pub(crate) struct ActorPartition {
    pub(crate) address: Arc<Address>,
    pub(crate) level: Level,
    pub(crate) epoch: Epoch,
    /// The lease without which nothing is answered that has no commit behind it; `None` without a node.
    pub(crate) lease: Option<EpochLease>,
    /// How many bytes a commit may have.
    pub(crate) commit_bytes_max: usize,
    /// Where they are stored; `None` once the partition is closed here, because proxies remember actors for longer.
    store: ArcSwapOption<ActorStore>,
    /// True if there is no node: see `Context::for_tests`.
    is_detached: bool,
    pub(crate) services: Services,
    /// Who listens to them.
    pub(crate) audience: Arc<Audience>,
    pub(crate) settings: ActorSettings,
    /// Whether the next turn may run while the commit of the one before is under way.
    pub(crate) overlap: bool,
    /// What makes commits fail, in a test.
    pub(crate) faults: Option<Arc<CommitFaults>>,
    /// Where they are called.
    pub(crate) home: Home,
    /// Where their turns and commits run.
    pub(crate) scope: Scope,
    /// All actors of the type on this node.
    pub(crate) memory_budget: Arc<MemoryBudget>,
    /// What is counted of the type on this node.
    pub(crate) counters: Arc<ActorCounters>,
    /// How many actors are in memory here.
    pub(crate) active: AtomicU64,
    /// That there may be no place at all.
    pub(crate) vacancy: Arc<Vacancy>,
    /// What an actor in memory is counted for beside its state: the object, its place and the entry in the table.
    pub(crate) overhead_bytes: u64,
    /// The table with the actors.
    pub(crate) table: Weak<dyn Any + Send + Sync>,
    /// Whether they handle reminders.
    pub(crate) is_remindable: bool,
    /// Wakes the alarm when a reminder is set.
    pub(crate) bell: Bell,
    /// Wakes who sweeps when an answer is kept.
    pub(crate) expiry: Bell,
}

impl ActorPartition {
    pub(crate) fn new(context: PartitionContext, store: ActorStore, scope: Scope, is_remindable: bool) -> Self {
        let PartitionContext {
            address,
            partition,
            epoch,
            services,
            options,
            settings,
            memory_budget,
            audience,
            counters,
            ..
        } = context;
        let (level, commit_bytes_max) = (partition.level(), partition.commit_bytes_max());
        let ActorOptions { overlap, faults } = options;
        let store = ArcSwapOption::from_pointee(store);
        Self {
            address,
            level,
            epoch,
            lease: Some(partition.lease(epoch)),
            commit_bytes_max,
            store,
            is_detached: false,
            services,
            audience,
            settings,
            overlap,
            faults,
            home: Home::current().without_scope(),
            scope,
            memory_budget,
            counters,
            active: AtomicU64::new(0),
            vacancy: Arc::default(),
            overhead_bytes: 0,
            table: Weak::<()>::new(),
            is_remindable,
            bell: Bell::new(),
            expiry: Bell::new(),
        }
    }

    /// Where they are stored.
    ///
    /// # Errors
    /// `NotPrimary` once the partition is closed here.
    pub(crate) fn store(&self) -> Result<Arc<ActorStore>> {
        self.store.load_full().ok_or_else(|| self.closed())
    }

    /// The partition of an actor without a node, of which nothing is stored.
    #[cfg(feature = "testkit")]
    pub(crate) fn detached(address: Address, services: Services, settings: ActorSettings) -> Self {
        Self {
            address: Arc::new(address),
            level: Level::None,
            epoch: Epoch(1),
            lease: None,
            commit_bytes_max: usize::MAX,
            store: ArcSwapOption::empty(),
            is_detached: true,
            services,
            audience: Arc::default(),
            overlap: true,
            faults: None,
            home: Home::current().without_scope(),
            scope: Scope::new(),
            memory_budget: Arc::new(MemoryBudget::new(&settings)),
            settings,
            counters: Arc::default(),
            active: AtomicU64::new(0),
            vacancy: Arc::default(),
            overhead_bytes: 0,
            table: Weak::<()>::new(),
            // So that a reminder is refused for want of a node.
            is_remindable: true,
            bell: Bell::new(),
            expiry: Bell::new(),
        }
    }

    /// True if this node is primary in the epoch of these actors at this moment.
    #[inline]
    pub(crate) fn holds_lease(&self) -> bool {
        self.lease.as_ref().is_none_or(EpochLease::is_held)
    }

    /// Refuses an answer that has no commit behind it, unless this node has been primary until now.
    ///
    /// # Errors
    /// `NotPrimary`; `OutcomeUnknown` for a turn that has done something that stays.
    #[inline]
    pub(crate) fn check_lease(&self, has_effects: bool) -> Result<()> {
        match &self.lease {
            None => Ok(()),
            Some(lease) => lease.check().map_err(|refusal| unproven(refusal, has_effects)),
        }
    }

    /// Where they are stored; `None` without a node, where nothing is.
    ///
    /// # Errors
    /// As [`store`](ActorPartition::store).
    pub(crate) fn store_if_any(&self) -> Result<Option<Arc<ActorStore>>> {
        if self.is_detached { Ok(None) } else { self.store().map(Some) }
    }

    /// Refuses what needs a node where there is none.
    ///
    /// # Errors
    /// `Invalid`.
    pub(crate) fn check_attached(&self, what: fmt::Arguments<'_>) -> Result<()> {
        if self.is_detached { Err(without_node(what)) } else { Ok(()) }
    }

    /// What is told when the partition is closed here.
    pub(crate) fn closed(&self) -> Error {
        if self.is_detached {
            return without_node(format_args!("this"));
        }
        let address = &self.address;
        Error::new(ErrorKind::NotPrimary { hint: None }, format!("{address} is closed on this node: retry"))
    }

    /// When an activation is to have ended.
    pub(crate) fn activation_deadline(&self) -> Deadline {
        Deadline::new(self.settings.call_timeout, None)
    }

    /// The table with the actors, if they are of this type.
    pub(crate) fn table<T: Actor>(&self) -> Option<Arc<ActorTable<T>>> {
        self.table.upgrade()?.downcast().ok()
    }

    /// How many actors are in memory.
    pub(crate) fn active(&self) -> u64 {
        self.active.load(Ordering::Relaxed)
    }

    /// An actor has come into memory.
    pub(crate) fn entered(&self) {
        self.active.fetch_add(1, Ordering::Relaxed);
        self.memory_budget.enter(self.overhead_bytes);
    }

    /// An actor has left memory.
    pub(crate) fn left(&self) {
        self.active.fetch_sub(1, Ordering::Relaxed);
        self.memory_budget.leave(self.overhead_bytes);
    }

    /// Commits what an actor has changed.
    pub(crate) async fn commit(&self, writes: &ActorWrites) -> Result<SequenceNumber> {
        let store = self.store()?;
        let committed = match &self.faults {
            None => store.commit(writes).await,
            Some(faults) => {
                let struck = faults.commit(store.commit(writes)).await;
                struck.inspect_err(|error| store.end_if_unknown(error))
            }
        };
        committed.map_err(|error| self.not_committed(writes, error))
    }

    /// Says whose changes are too many for a commit.
    #[cold]
    fn not_committed(&self, writes: &ActorWrites, error: Error) -> Error {
        if error.kind() != ErrorKind::TooLarge {
            return error;
        }
        let (service, id) = (&self.address.service, writes.id());
        Error::new(
            ErrorKind::TooLarge,
            format!(
                "what a turn of {service}({id}) has changed cannot be stored: {error}; change less in a turn, or `save` in between"
            ),
        )
    }
}

/// What is told of something that needs a node where there is none.
#[cold]
pub(crate) fn without_node(what: fmt::Arguments<'_>) -> Error {
    Error::invalid(format!(
        "{what} needs a node, and a context of `Context::for_tests` has none: test it on a `testkit::TestNode`"
    ))
}

/// The actors of a partition by their ids.
pub(crate) struct ActorTable<T: Actor> {
    partition: Arc<ActorPartition>,
    interfaces: Interfaces<ActorCell<T>>,
    shards: [RwLock<Shard<T>>; SHARDS],
    hasher: FixedState,
    /// True once there is no place for anybody any more.
    is_closed: AtomicBool,
}

type Shard<T> = HashMap<ActorId, Arc<ActorCell<T>>, FixedState>;

impl<T: Actor> ActorTable<T> {
    /// An empty one, which is watched over from now on.
    pub(crate) fn open(partition: ActorPartition) -> Arc<Self> {
        let shard = || RwLock::new(HashMap::with_hasher(FixedState::default()));
        let table = Arc::new_cyclic(|table: &Weak<Self>| Self {
            partition: Arc::new(ActorPartition {
                overhead_bytes: Self::overhead_bytes(),
                table: table.clone(),
                ..partition
            }),
            interfaces: Interfaces::of_actor(),
            shards: std::array::from_fn(|_| shard()),
            hasher: FixedState::default(),
            is_closed: AtomicBool::new(false),
        });
        let memory_budget = table.partition.memory_budget.clone();
        memory_budget.add_table(Arc::downgrade(&table) as Weak<dyn eviction::Gathered>);
        drop(table.partition.scope.spawn(eviction::watch(Arc::downgrade(&table), memory_budget)));
        table
    }

    fn overhead_bytes() -> u64 {
        let table = size_of::<(ActorId, Arc<ActorCell<T>>)>();
        (size_of::<Active<T>>() + size_of::<ActorCell<T>>() + size_of::<ActorShared>() + table) as u64
    }

    pub(crate) fn partition(&self) -> &Arc<ActorPartition> {
        &self.partition
    }

    fn shard(&self, id: &ActorId) -> &RwLock<Shard<T>> {
        &self.shards[self.hasher.hash_one(id) as usize % SHARDS]
    }

    /// The place of an actor, which need not be active; `None` once the table is closed.
    pub(crate) fn cell(&self, id: &ActorId) -> Option<Arc<ActorCell<T>>> {
        if let Some(cell) = self.shard(id).read().get(id) {
            return Some(cell.clone());
        }
        let mut shard = self.shard(id).write();
        if self.is_closed.load(Ordering::Acquire) {
            return None;
        }
        let cell =
            shard.entry(id.clone()).or_insert_with(|| ActorCell::new(id.clone(), self.partition.clone())).clone();
        self.partition.vacancy.end(&self.partition.memory_budget);
        Some(cell)
    }

    /// The place of an actor, if it has one.
    pub(crate) fn known_cell(&self, id: &ActorId) -> Option<Arc<ActorCell<T>>> {
        self.shard(id).read().get(id).cloned()
    }

    /// Takes the place of an actor away if it has been closed by `close`. Nobody looks for one meanwhile, and so whoever
    /// finds it closed finds another one next time.
    pub(crate) fn remove_if(&self, cell: &Arc<ActorCell<T>>, close: impl FnOnce() -> bool) {
        let id = &cell.actor_shared().id;
        let mut shard = self.shard(id).write();
        if close() && shard.get(id).is_some_and(|known| Arc::ptr_eq(known, cell)) {
            shard.remove(id);
        }
    }

    /// How many places there are.
    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.read().len()).sum()
    }

    /// Visits all places, with their number.
    pub(crate) fn each_cell(&self, mut visit: impl FnMut(usize, &Arc<ActorCell<T>>)) {
        let mut place = 0;
        for shard in &self.shards {
            for cell in shard.read().values() {
                visit(place, cell);
                place += 1;
            }
        }
    }

    /// The places whose actors were last used before a stamp.
    pub(crate) fn idle_before(&self, stamp: u64) -> Vec<Arc<ActorCell<T>>> {
        let mut idle = Vec::new();
        self.each_cell(|_, cell| {
            if cell.is_idle(stamp) {
                idle.push(cell.clone());
            }
        });
        idle
    }

    /// Lets the turns under way end, with those that wait in line and with their commits. New calls are sent back to the slot,
    /// except those that these turns make themselves.
    pub(crate) async fn quiesce(&self) {
        let busy: Vec<_> = self.cells().into_iter().filter(|cell| cell.keep_out()).collect();
        for cell in busy {
            cell.quiesced().await;
        }
    }

    /// Ends in order: nobody is admitted any more, whoever waits is sent away, and every actor is deactivated when its turn
    /// has ended.
    pub(crate) async fn close(&self) {
        // Before the places are gathered: one that is made now is among them, and none is made later.
        self.is_closed.store(true, Ordering::Release);
        let cells = self.cells();
        let idle: Vec<_> = cells.iter().filter_map(|cell| cell.close(|| self.partition.closed())).collect();
        leave_each(&self.partition, idle, CLOSING_AT_ONCE, Some).await;
        for cell in &cells {
            cell.emptied().await;
        }
    }

    /// Lets go of all actors, where they stand.
    pub(crate) fn abandon(&self) {
        self.is_closed.store(true, Ordering::Release);
        for cell in self.cells() {
            drop(cell.close(|| self.partition.closed()));
        }
        self.shards.iter().for_each(|shard| shard.write().clear());
        self.partition.store.store(None);
    }

    /// All places.
    pub(crate) fn cells(&self) -> Vec<Arc<ActorCell<T>>> {
        self.shards.iter().flat_map(|shard| shard.read().values().cloned().collect::<Vec<_>>()).collect()
    }
}

/// A [`ActorTable`] of actors of any type.
pub(crate) trait AnyActorTable: Send + Sync {
    /// The place of an actor, by one of its interfaces.
    ///
    /// `None` if the actors have left this node, and are to be looked for again.
    fn route(&self, id: &ActorId, interface: TypeId, name: &'static str) -> Result<Option<CachedRoute>>;

    /// How many actors are in memory.
    fn active(&self) -> u64;

    /// Actors that exist, active or not, in the order of their ids, after one of them if there is one.
    fn list(&self, after: Option<&ActorId>, limit: usize) -> Result<Vec<ActorInfo>>;

    /// Reminders of all actors, in the order of ids and names, after one of them if there is one.
    fn reminders(&self, after: Option<(&ActorId, &str)>, limit: usize) -> Result<Vec<ActorReminder>>;

    /// How many events of a type an actor has published.
    fn published(&self, id: &ActorId, event: &str) -> Result<Option<Published>>;
}

impl<T: Actor> AnyActorTable for ActorTable<T> {
    fn route(&self, id: &ActorId, interface: TypeId, name: &'static str) -> Result<Option<CachedRoute>> {
        let Some(cell) = self.cell(id) else { return Ok(None) };
        let shared = cell.actor_shared().clone();
        if interface == TypeId::of::<dyn Removing>() {
            return Ok(Some(CachedRoute { shared, object: Box::new(Arc::new(cell) as Arc<dyn Removing>) }));
        }
        let object = self.interfaces.object(interface, cell).ok_or_else(|| {
            Error::invalid(format!(
                "{} does not implement the interface of `{name}`: add it to its attribute",
                self.partition.address.service
            ))
        })?;
        Ok(Some(CachedRoute { shared, object }))
    }

    fn active(&self) -> u64 {
        self.partition.active()
    }

    fn list(&self, after: Option<&ActorId>, limit: usize) -> Result<Vec<ActorInfo>> {
        let ids = self.partition.store()?.actors(after, limit)?;
        let is_active = |id: &ActorId| self.known_cell(id).is_some_and(|cell| cell.is_active());
        Ok(ids.into_iter().map(|id| ActorInfo { is_active: is_active(&id), id }).collect())
    }

    fn reminders(&self, after: Option<(&ActorId, &str)>, limit: usize) -> Result<Vec<ActorReminder>> {
        let reminders = self.partition.store()?.all_reminders(after, limit)?;
        Ok(reminders.into_iter().map(|(actor, reminder)| ActorReminder { actor, reminder }).collect())
    }

    fn published(&self, id: &ActorId, event: &str) -> Result<Option<Published>> {
        self.partition.store()?.published(id, event)
    }
}
