use std::any::TypeId;
use std::hash::BuildHasher as _;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use foldhash::quality::FixedState;
use hashbrown::HashMap;
use mainstay_core::task::Scope;
use mainstay_core::{ActorId, Epoch, Error, ErrorKind, Level, Result, SequenceNumber};
use mainstay_state::actor::{ActorStore, ActorWrites, Published};
use parking_lot::RwLock;

use crate::actor::Actor;
use crate::actor::activation::{ActorOptions, CommitFaults};
use crate::actor::cell::ActorCell;
use crate::actor::deactivation;
use crate::actor::event::audience::Audience;
use crate::actor::seat::Seat;
use crate::actor::settings::ActorSettings;
use crate::call::arrival::Deadline;
use crate::interfaces::Interfaces;
use crate::router::{Address, Services};
use crate::service::activation::Place;

/// Into how many parts the table of actors is cut, so that those who look for different ones seldom meet.
const SHARDS: usize = 16;

/// The actors of a partition that is primary here: what they share, whatever their type.
pub(crate) struct HallCore {
    pub(crate) address: Arc<Address>,
    pub(crate) level: Level,
    pub(crate) epoch: Epoch,
    /// Where they are stored; `None` once the partition is closed here, because proxies remember actors for longer.
    store: ArcSwapOption<ActorStore>,
    pub(crate) services: Services,
    /// Who listens to them.
    pub(crate) audience: Arc<Audience>,
    pub(crate) settings: ActorSettings,
    /// Whether the next turn may run while the commit of the one before is under way.
    pub(crate) overlap: bool,
    /// What makes commits fail, in a test.
    pub(crate) faults: Option<Arc<CommitFaults>>,
    /// Where their turns and commits run.
    pub(crate) scope: Scope,
}

impl HallCore {
    pub(crate) fn new(place: Place, store: ActorStore, scope: Scope) -> Self {
        let Place { address, partition, epoch, services, options, audience } = place;
        let level = partition.level();
        let ActorOptions { settings, overlap, faults } = options;
        let store = ArcSwapOption::from_pointee(store);
        Self { address, level, epoch, store, services, audience, settings, overlap, faults, scope }
    }

    /// Where they are stored.
    ///
    /// # Errors
    /// `NotPrimary` once the partition is closed here.
    pub(crate) fn store(&self) -> Result<Arc<ActorStore>> {
        self.store.load_full().ok_or_else(|| self.closed())
    }

    /// What is told when the partition is closed here.
    pub(crate) fn closed(&self) -> Error {
        let address = &self.address;
        Error::new(ErrorKind::NotPrimary { hint: None }, format!("{address} is closed on this node: retry"))
    }

    /// When an activation is to have ended.
    pub(crate) fn activation_deadline(&self) -> Deadline {
        Deadline::new(self.settings.call_timeout, None)
    }

    /// Commits what an actor has changed.
    pub(crate) async fn commit(&self, writes: &ActorWrites) -> Result<SequenceNumber> {
        if let Some(faults) = &self.faults {
            faults.strike()?;
        }
        self.store()?.commit(writes).await
    }
}

/// The actors of a partition by their ids.
pub(crate) struct Hall<T: Actor> {
    core: Arc<HallCore>,
    interfaces: Interfaces<ActorCell<T>>,
    shards: [RwLock<Shard<T>>; SHARDS],
    hasher: FixedState,
}

type Shard<T> = HashMap<ActorId, Arc<ActorCell<T>>, FixedState>;

impl<T: Actor> Hall<T> {
    pub(crate) fn new(core: Arc<HallCore>) -> Self {
        let shard = || RwLock::new(HashMap::with_hasher(FixedState::default()));
        let interfaces = Interfaces::of_actor();
        Self { core, interfaces, shards: std::array::from_fn(|_| shard()), hasher: FixedState::default() }
    }

    pub(crate) fn core(&self) -> &Arc<HallCore> {
        &self.core
    }

    fn shard(&self, id: &ActorId) -> &RwLock<Shard<T>> {
        &self.shards[self.hasher.hash_one(id) as usize % SHARDS]
    }

    /// The place of an actor, which need not be active.
    pub(crate) fn cell(&self, id: &ActorId) -> Arc<ActorCell<T>> {
        if let Some(cell) = self.shard(id).read().get(id) {
            return cell.clone();
        }
        let mut shard = self.shard(id).write();
        shard.entry(id.clone()).or_insert_with(|| ActorCell::new(id.clone(), self.core.clone())).clone()
    }

    /// The place of an actor, if it has one.
    pub(crate) fn known_cell(&self, id: &ActorId) -> Option<Arc<ActorCell<T>>> {
        self.shard(id).read().get(id).cloned()
    }

    /// Takes away the place of an actor that has been closed.
    pub(crate) fn remove(&self, cell: &Arc<ActorCell<T>>) {
        let id = &cell.site().id;
        let mut shard = self.shard(id).write();
        if shard.get(id).is_some_and(|known| Arc::ptr_eq(known, cell)) {
            shard.remove(id);
        }
    }

    /// Ends in order: nobody is admitted any more, whoever waits is sent away, and every actor is deactivated when its turn
    /// has ended.
    pub(crate) async fn close(&self) {
        let cells = self.cells();
        let idle = cells.iter().filter_map(|cell| cell.close(|| self.core.closed()));
        for object in idle.collect::<Vec<_>>() {
            deactivation::deactivate(&self.core, object).await;
        }
        for cell in &cells {
            cell.emptied().await;
        }
    }

    /// Lets go of all actors, where they stand.
    pub(crate) fn abandon(&self) {
        for cell in self.cells() {
            drop(cell.close(|| self.core.closed()));
        }
        self.shards.iter().for_each(|shard| shard.write().clear());
        self.core.store.store(None);
    }

    /// All places.
    pub(crate) fn cells(&self) -> Vec<Arc<ActorCell<T>>> {
        self.shards.iter().flat_map(|shard| shard.read().values().cloned().collect::<Vec<_>>()).collect()
    }
}

/// A [`Hall`] of actors of any type.
pub(crate) trait Seats: Send + Sync {
    /// The place of an actor, by one of its interfaces.
    fn seat(&self, id: &ActorId, interface: TypeId, name: &'static str) -> Result<Seat>;

    /// How many events of a type an actor has published.
    fn published(&self, id: &ActorId, event: &str) -> Result<Option<Published>>;
}

impl<T: Actor> Seats for Hall<T> {
    fn seat(&self, id: &ActorId, interface: TypeId, name: &'static str) -> Result<Seat> {
        let cell = self.cell(id);
        let site = cell.site().clone();
        let object = self.interfaces.object(interface, cell).ok_or_else(|| {
            Error::invalid(format!(
                "{} does not implement the interface of `{name}`: add it to its attribute",
                self.core.address.service
            ))
        })?;
        Ok(Seat { site, object })
    }

    fn published(&self, id: &ActorId, event: &str) -> Result<Option<Published>> {
        self.core.store()?.published(id, event)
    }
}
