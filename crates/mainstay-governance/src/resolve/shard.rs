use std::collections::BTreeMap;
use std::time::Duration;

use mainstay::actor::deferred;
use mainstay::prelude::*;
use serde::{Deserialize, Serialize};

use super::chart::Chart;
use super::entity::{Entity, spread, stored_name};
use super::map::{MapChanged, ResolverMapRef};
use super::policy::{Loads, Policy, choose, least_loaded};
use super::resolver::MOVE_TIME_MAX;

/// How many entities one shard can know. Those that were [forgotten](super::Resolver::forget) do not count.
pub const ENTITIES_PER_SHARD_MAX: u64 = 1 << 20;

/// How many entities are placed by one call.
pub(super) const PLACED_TOGETHER_MAX: usize = 1024;

/// How many entities may wait until their moves are announced.
const UNANNOUNCED_MAX: usize = 4 * PLACED_TOGETHER_MAX;

/// How many may wait until a move is known.
const MOVES_WAITING_MAX: usize = 4096;

/// The reminder that makes a move known even if whoever asked for it, and the process that it ran in, are gone.
const ANNOUNCE: &str = "announce";

/// How long after a move the reminder comes, and how often.
const ANNOUNCE_AGAIN: Duration = Duration::from_secs(5);

mod forgetting;

/// How an entity is to be placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Placing {
    /// It is not known, or is there already.
    Assign,
    /// It is known.
    Move,
    /// Whether it is known or not, unless the resource was drained.
    Adopt,
}

/// A share of the entities of a resolver: which partition each is on.
#[interface]
pub(crate) trait ResolverShard {
    /// The partition of an entity that is known.
    async fn find(&self, entity: Entity) -> Result<Option<u32>>;

    /// The partition of an entity, which is chosen now if there is none.
    async fn assign(&mut self, entity: Entity, policy: Policy, region: Option<String>) -> Result<u32>;

    /// Puts entities on resources, and answers when no holder begins a call where they were.
    async fn place(&mut self, places: Vec<(Entity, String)>, placing: Placing) -> Result<Deferred<()>>;

    /// Forgets entities, and answers when no holder begins a call where they were.
    async fn forget(&mut self, entities: Vec<Entity>) -> Result<Deferred<()>>;
}

#[derive(Actor)]
#[actor(implements(ResolverShard), name = "mainstay.ResolverShard")]
pub(crate) struct ResolverShardActor {
    loads: State<Loads>,
    /// Entities that were moved, which the map does not know yet, each with the number of its move.
    unannounced: State<BTreeMap<Entity, u64>>,
    moves: State<u64>,
    /// Who waits for a move to be known, by its number.
    waiting: Vec<(u64, Responder<()>)>,
    is_announcing: bool,
    /// The map as it was when it was last needed; dropped when it changes. Choices may stand on an old one: what is chosen
    /// is a partition, and whoever uses it asks the map where that is.
    chart: Option<Chart>,
    ctx: Context,
}

/// The id of a shard.
pub(super) fn shard_id(resolver: &str, index: u32) -> String {
    format!("{resolver}#{index}")
}

/// The shard of an entity.
pub(super) fn shard_index(entity: &Entity, shards: usize) -> usize {
    spread(entity, "shard", shards)
}

impl Lifecycle for ResolverShardActor {
    async fn activate(&mut self) -> Result<()> {
        self.ctx.subscribe(&self.map()?, async |shard: &mut Self, _: Received<MapChanged>| {
            shard.chart = None;
            Ok(())
        })
    }
}

impl ResolverShard for ResolverShardActor {
    async fn find(&self, entity: Entity) -> Result<Option<u32>> {
        self.partition_of(&entity)
    }

    async fn assign(&mut self, entity: Entity, policy: Policy, region: Option<String>) -> Result<u32> {
        if let Some(partition) = self.partition_of(&entity)? {
            return Ok(partition);
        }
        let chart = self.chart().await?;
        let chosen = choose(policy, &entity, region.as_deref(), &chart, &self.loads);
        self.chart = Some(chart);
        let partition = chosen.ok_or_else(|| {
            let wanted = region.map_or_else(String::new, |region| format!(" in region {region:?}"));
            Error::new(
                ErrorKind::NotFound,
                format!("there is no resource{wanted} for {entity}: add one by `add_resource`, or assign the entity"),
            )
        })?;
        self.put(&entity, partition)?;
        Ok(partition)
    }

    async fn place(&mut self, places: Vec<(Entity, String)>, placing: Placing) -> Result<Deferred<()>> {
        self.make_room_to_wait()?;
        // Of now: what is moved is to go where there is room now.
        self.chart = None;
        let chart = self.chart().await?;
        for (entity, resource) in places {
            self.place_one(&entity, &resource, placing, &chart)?;
        }
        self.wait_until_known()
    }

    async fn forget(&mut self, entities: Vec<Entity>) -> Result<Deferred<()>> {
        self.make_room_to_wait()?;
        for entity in entities {
            self.forget_one(&entity)?;
        }
        self.wait_until_known()
    }
}

impl Remindable for ResolverShardActor {
    async fn remind(&mut self, _: Reminder) -> Result<()> {
        self.announce()
    }
}

impl ResolverShardActor {
    fn map(&self) -> Result<ResolverMapRef> {
        let id = self.ctx.id().as_text().unwrap_or_default();
        let (resolver, _) = id.rsplit_once('#').unwrap_or((id, ""));
        self.ctx.actor(resolver)
    }

    async fn chart(&mut self) -> Result<Chart> {
        match self.chart.take() {
            Some(chart) => Ok(chart),
            None => self.map()?.chart().await,
        }
    }

    fn partition_of(&self, entity: &Entity) -> Result<Option<u32>> {
        Ok(self.ctx.state().try_get::<u32>(&stored_name(entity))?.map(|partition| *partition))
    }

    /// Stores the partition of an entity.
    fn put(&mut self, entity: &Entity, partition: u32) -> Result<()> {
        match self.partition_of(entity)? {
            Some(old) => self.unload(old),
            None if self.loads.values().sum::<u64>() >= ENTITIES_PER_SHARD_MAX => {
                return Err(Error::new(
                    ErrorKind::Overloaded,
                    format!(
                        "{} knows {ENTITIES_PER_SHARD_MAX} entities already (ENTITIES_PER_SHARD_MAX): open a resolver \
                         with more shards",
                        self.ctx.id()
                    ),
                ));
            }
            None => {}
        }
        *self.loads.entry(partition).or_default() += 1;
        self.ctx.state_mut().set(&stored_name(entity), partition)
    }

    /// Puts an entity on a resource, unless it is there.
    fn place_one(&mut self, entity: &Entity, resource: &str, placing: Placing, chart: &Chart) -> Result<()> {
        let known = self.partition_of(entity)?;
        let is_there = known.and_then(|partition| chart.resource_of(partition)).is_some_and(|it| it.name == resource);
        match known {
            _ if is_there => return Ok(()),
            // What a source says of it was true before it was drained.
            _ if placing == Placing::Adopt && chart.is_draining(resource) => return Ok(()),
            None if placing == Placing::Move => {
                return Err(Error::new(
                    ErrorKind::NotFound,
                    format!("{entity} cannot be moved, because it is not assigned to a resource: use `assign`"),
                ));
            }
            Some(partition) if placing == Placing::Assign => {
                let elsewhere = chart.resource_of(partition).map_or("another resource", |it| it.name.as_str());
                return Err(Error::new(
                    ErrorKind::Conflict,
                    format!("{entity} is on {elsewhere:?} already: use `move_entity` to move it"),
                ));
            }
            _ => {}
        }
        chart.target(resource)?;
        let open: Vec<(u32, &str)> = chart
            .open_partitions()
            .filter(|(_, it)| it.name == resource)
            .map(|(partition, it)| (partition, it.name.as_str()))
            .collect();
        let partition = least_loaded(&open, &self.loads).ok_or_else(|| {
            Error::invalid(format!("{resource:?} has no partition left for {entity}: move one there first"))
        })?;
        self.put(entity, partition)?;
        if known.is_some() { self.note_move(entity) } else { Ok(()) }
    }

    /// Takes note that an entity is not where it was, which is to be made known.
    fn note_move(&mut self, entity: &Entity) -> Result<()> {
        if self.unannounced.len() >= UNANNOUNCED_MAX {
            return Err(Error::new(
                ErrorKind::Overloaded,
                format!("{UNANNOUNCED_MAX} entities of {} are being moved: wait for some of them", self.ctx.id()),
            ));
        }
        *self.moves += 1;
        let number = *self.moves;
        self.unannounced.insert(entity.clone(), number);
        self.ctx.remind(ANNOUNCE).after(ANNOUNCE_AGAIN).every(ANNOUNCE_AGAIN).set().map(drop)
    }

    /// One entity less is on a partition.
    fn unload(&mut self, partition: u32) {
        if let Some(load) = self.loads.get_mut(&partition) {
            *load = load.saturating_sub(1);
        }
    }

    /// Refuses one more who wants to wait for moves, if there are too many. To be asked before anything is changed.
    fn make_room_to_wait(&mut self) -> Result<()> {
        self.waiting.retain(|(_, responder)| !responder.is_abandoned());
        if self.waiting.len() >= MOVES_WAITING_MAX {
            let text =
                format!("{MOVES_WAITING_MAX} wait for moves of {} to be known already: wait for some", self.ctx.id());
            return Err(Error::new(ErrorKind::Overloaded, text));
        }
        Ok(())
    }

    /// Answers when every move up to now is known to all holders.
    fn wait_until_known(&mut self) -> Result<Deferred<()>> {
        let (answer, responder) = deferred();
        self.waiting.push((*self.moves, responder));
        self.announce()?;
        Ok(answer)
    }

    /// Makes moves known to the map, unless that is under way, and answers who has nothing to wait for.
    fn announce(&mut self) -> Result<()> {
        let oldest = self.unannounced.values().min().copied().unwrap_or(u64::MAX);
        self.waiting.retain(|(_, responder)| !responder.is_abandoned());
        for (_, responder) in self.waiting.extract_if(.., |(number, _)| *number < oldest) {
            responder.respond(Ok(()));
        }
        if self.unannounced.is_empty() {
            self.ctx.cancel_reminder(ANNOUNCE)?;
            return Ok(());
        }
        if self.is_announcing {
            return Ok(());
        }
        let map = self.map()?.with_timeout(MOVE_TIME_MAX);
        let (entities, last) = (self.unannounced.keys().cloned().collect(), *self.moves);
        self.ctx.then(async move { (map.announce(entities).await, last) }, Self::announced)?;
        self.is_announcing = true;
        Ok(())
    }

    async fn announced(&mut self, (outcome, last): (Result<u64>, u64)) -> Result<()> {
        self.is_announcing = false;
        match outcome {
            Ok(_) => {
                self.unannounced.retain(|_, number| *number > last);
                self.announce()
            }
            Err(error) => {
                tracing::warn!(shard = %self.ctx.id(), ?error, "a move could not be made known, will be tried again");
                for (_, responder) in self.waiting.drain(..) {
                    responder.respond(Err(Error::new(error.kind(), error.to_string())));
                }
                Ok(())
            }
        }
    }
}
