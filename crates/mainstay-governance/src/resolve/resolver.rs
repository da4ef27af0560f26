use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use mainstay::prelude::*;
use mainstay::service::Services;

use super::chart::PARTITIONS_MAX;
use super::entity::{Entity, checked};
use super::guard::Guard;
use super::map::ResolverMapRef;
use super::moved::Moved;
use super::physical_resource::PhysicalResource;
use super::policy::Policy;
use super::resolution::Resolution;
use super::resolvers::Resolvers;
use super::settings::ResolverSettings;
use super::shard::{Placing, ResolverShardRef, shard_id, shard_index};
use super::sight::Pass;
use super::source::SourceStatus;
use super::view::View;
use crate::as_services::AsServices;
use crate::metric::ResolverMetrics;
use crate::settings::{RESOLVERS, in_force};
use crate::unserved::unserved;

mod forgetting;

/// How often one call follows an entity that keeps moving, before it gives up.
pub const MOVES_FOLLOWED_MAX: u32 = 8;

/// The longest name of a resolver.
pub const RESOLVER_NAME_BYTES_MAX: usize = 256;

/// How long a move may take: longer than any lease.
pub(super) const MOVE_TIME_MAX: Duration = Duration::from_secs(120);

/// Finds out which resource an entity lives on, and moves what lives there while it is in use. Cheap to clone: open one
/// for a process, and share it. See the [module](super) for what it guarantees.
#[derive(Clone)]
pub struct Resolver {
    name: Arc<str>,
    settings: Arc<ResolverSettings>,
    map: ResolverMapRef,
    shards: Arc<[ResolverShardRef]>,
    view: Arc<View>,
    metrics: ResolverMetrics,
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resolver").field("name", &self.name).field("version", &self.version()).finish_non_exhaustive()
    }
}

impl Resolver {
    /// Opens the resolver of a name, which is made if there is none. The node must serve the resolver's actors: see
    /// [`serve`](super::serve).
    ///
    /// Operators can set how it is used from here in `[governance.resolvers.NAME]`.
    ///
    /// Opened from a [node](mainstay::Node) it is a holder of its own, until its last clone is dropped. Opened from the context
    /// of an actor, a service or a worker it is shared by all of that node who open it with the same settings, however many
    /// they are, and is a holder for as long as the node runs.
    ///
    /// # Errors
    /// `Invalid` for settings or a name that cannot be, and for another number of shards than the resolver has;
    /// `NotFound` if its actors are not served; `Overloaded` above [`HOLDERS_MAX`](super::HOLDERS_MAX); those of a call.
    pub async fn open(from: &impl AsServices, name: &str, settings: ResolverSettings) -> Result<Self> {
        let services = from.services();
        let settings = in_force(services, RESOLVERS, name, settings)?;
        match services.provided::<Resolvers>() {
            Ok(resolvers) if from.is_inside() => resolvers.open(services, name, settings).await,
            _ => Self::open_own(services, name, settings).await,
        }
    }

    /// Opens the resolver of a name as a holder of its own.
    pub(super) async fn open_own(services: &Services, name: &str, settings: ResolverSettings) -> Result<Self> {
        settings.check()?;
        if name.is_empty() || name.len() > RESOLVER_NAME_BYTES_MAX {
            return Err(Error::invalid(format!(
                "the name of a resolver has {} bytes: use 1 to {RESOLVER_NAME_BYTES_MAX} (RESOLVER_NAME_BYTES_MAX)",
                name.len()
            )));
        }
        let map: ResolverMapRef = services.actor(name).map_err(unserved(
            format_args!("resolver `{name}`"),
            "resolve",
            "resolve::serve(builder)",
        ))?;
        let shards = (0..settings.shards).map(|index| services.actor(shard_id(name, index)));
        let shards = shards.collect::<Result<_>>()?;
        let view = View::attach(map.clone(), settings.lease, settings.shards, settings.remembered_max).await?;
        if let Ok(resolvers) = services.provided::<Resolvers>() {
            resolvers.note(&view);
        }
        Ok(Self {
            name: name.into(),
            settings: Arc::new(settings),
            map,
            shards,
            view,
            metrics: ResolverMetrics::of(name),
        })
    }

    /// The name of the resolver.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The version of the map that this process knows.
    pub fn version(&self) -> u64 {
        self.view.version()
    }

    /// Where an entity lives. From memory if it was asked for before and has not moved; otherwise one actor is asked, which
    /// shares the entities with others. One that nobody knows is placed by the [`Policy`], and stays there.
    ///
    /// What is returned is good to look at. To use it, [`begin`](Resolver::begin) or, simpler, [`with`](Resolver::with).
    ///
    /// # Errors
    /// `NotFound` if nobody knows the entity and the policy is to refuse, or has nothing to choose from; `TooLarge` above
    /// [`ENTITY_BYTES_MAX`](super::ENTITY_BYTES_MAX); those of a call.
    pub async fn resolve(&self, entity: impl Into<Entity>) -> Result<Resolution> {
        self.find(checked(entity.into())?, None).await
    }

    /// Where an entity lives; if nobody knows it, it is placed on a resource of this region.
    ///
    /// # Errors
    /// As [`resolve`](Resolver::resolve).
    pub async fn resolve_in(&self, entity: impl Into<Entity>, region: &str) -> Result<Resolution> {
        self.find(checked(entity.into())?, Some(region)).await
    }

    /// Begins a call under a resolution: fails fast if it does not hold any more, and otherwise counts as under way until
    /// the pass is dropped, so that [`drain_resource`](Resolver::drain_resource) waits for it.
    ///
    /// # Errors
    /// [`Moved`] if the entity has moved since; `Retry` or those of a call if the map has not been heard of for so long that
    /// it may have.
    pub async fn begin(&self, resolution: &Resolution) -> Result<Pass> {
        let resource = &resolution.resource.name;
        let pass = self.view.begin(&resolution.ticket(), resource).await?;
        pass.ok_or_else(|| {
            self.metrics.moved.increment(1);
            Moved::new(resolution.entity.clone(), resolution.version).into_error(resource)
        })
    }

    /// Does something with the resource that an entity lives on, wherever that is. If the entity has moved before `call`
    /// begins, or `call` fails because it has ([`Moved`], from a [`Guard`]), it is looked for again and `call` is called
    /// again, which must be fine for a call that was refused.
    ///
    /// # Errors
    /// Those of `call`; those of [`resolve`](Resolver::resolve); [`Moved`] if the entity keeps moving.
    pub async fn with<T, F, Running>(&self, entity: impl Into<Entity>, call: F) -> Result<T>
    where
        F: Fn(Resolution) -> Running,
        Running: Future<Output = Result<T>>,
    {
        self.follow(checked(entity.into())?, None, call).await
    }

    /// [`with`](Resolver::with) for an entity that belongs to a region: one that is not known yet is put on a resource of it.
    ///
    /// # Errors
    /// As [`with`](Resolver::with).
    pub async fn with_in<T, F, Running>(&self, entity: impl Into<Entity>, region: &str, call: F) -> Result<T>
    where
        F: Fn(Resolution) -> Running,
        Running: Future<Output = Result<T>>,
    {
        self.follow(checked(entity.into())?, Some(region), call).await
    }

    async fn follow<T, F, Running>(&self, entity: Entity, region: Option<&str>, call: F) -> Result<T>
    where
        F: Fn(Resolution) -> Running,
        Running: Future<Output = Result<T>>,
    {
        let mut refusal = None;
        for _ in 0..MOVES_FOLLOWED_MAX {
            let resolution = self.find(entity.clone(), region).await?;
            let outcome = match self.begin(&resolution).await {
                Ok(_pass) => call(resolution).await,
                Err(error) => Err(error),
            };
            match outcome {
                Err(error) if Moved::is(&error) => {
                    // The other side may know of a move that this one has not heard of.
                    self.view.forget(&entity);
                    self.view.renew().await?;
                    refusal = Some(error);
                }
                outcome => return outcome,
            }
        }
        Err(refusal.unwrap_or_else(|| Moved::new(entity, self.version()).into_error(&self.name)))
    }

    /// The side of a resource, for whoever owns it.
    pub fn guard(&self, resource: impl Into<String>) -> Guard {
        Guard::new(self.view.clone(), resource.into())
    }

    /// Makes an entity known that is not, on a resource. One that is there already is fine.
    ///
    /// # Errors
    /// `Conflict` if it is elsewhere; `NotFound` or `Invalid` if the resource does not exist or is being drained.
    pub async fn assign(&self, entity: impl Into<Entity>, resource: &str) -> Result<()> {
        self.place(entity.into(), resource, Placing::Assign).await
    }

    /// Moves an entity to another resource. When this returns, no holder begins a call where the entity was.
    ///
    /// If it fails while it is under way (`OutcomeUnknown`, or whatever ended the node), it either has not happened or goes
    /// on by itself: move it again to wait for it.
    ///
    /// # Errors
    /// `NotFound` if nobody knows the entity or the resource; `Invalid` if the resource is being drained; `Overloaded`; those
    /// of a call.
    pub async fn move_entity(&self, entity: impl Into<Entity>, resource: &str) -> Result<()> {
        self.place(entity.into(), resource, Placing::Move).await
    }

    /// Moves a logical partition with everything on it. When this returns, no holder begins a call where it was.
    ///
    /// # Errors
    /// `NotFound` if there is no such partition or resource; `Invalid` if the resource is being drained; those of a call.
    pub async fn move_partition(&self, partition: u32, resource: &str) -> Result<()> {
        self.map.with_timeout(MOVE_TIME_MAX).move_partition(partition, resource.to_owned()).await.map(drop)
    }

    /// Adds a resource with logical partitions of its own, to which the policy places entities from now on; what lives
    /// elsewhere stays there. One of the same name gets what is new. Partitions that were moved away from it are not made up for.
    ///
    /// One that was drained takes partitions back, with what lives on them: first in its region, and of those that came last, so
    /// that it gets its own if nothing has happened in between. Nobody is left with fewer than it came with, and what is missing
    /// is new. Remove a drained resource first to have it come back empty. A new one takes partitions over in this way only
    /// when there are [`PARTITIONS_MAX`].
    ///
    /// # Errors
    /// `Invalid` for what cannot be a resource; `Overloaded` above [`RESOURCES_MAX`](super::RESOURCES_MAX) or
    /// [`PARTITIONS_MAX`]; those of a call.
    pub async fn add_resource(&self, resource: PhysicalResource) -> Result<()> {
        if resource.partitions as usize > PARTITIONS_MAX {
            return Err(Error::invalid(format!(
                "{} partitions are more than a resolver can have: use 1 to {PARTITIONS_MAX} (PARTITIONS_MAX)",
                resource.partitions
            )));
        }
        self.map.with_timeout(MOVE_TIME_MAX).add_resource(resource).await?;
        // Whoever has added it wants to use it.
        self.view.renew().await
    }

    /// Moves everything away from a resource, to those of its region if there are any, evenly; and returns when nobody uses
    /// it any more: no holder begins a call on it, and those under way have ended.
    ///
    /// A holder that was not heard of for longer than its lease counts as gone.
    ///
    /// # Errors
    /// `Timeout` if it is still used when the time has passed, and says by how many: everything is moved by then, and
    /// draining it again goes on waiting. `Invalid` if there is no other resource; `NotFound`; those of a call.
    pub async fn drain_resource(&self, resource: &str, within: Duration) -> Result<()> {
        /// What the answer may take beyond the time that the map waits.
        const SLACK: Duration = Duration::from_secs(10);
        let within_ms = u64::try_from(within.as_millis()).unwrap_or(u64::MAX).min(DRAIN_TIME_MAX_MS);
        let map = self.map.with_timeout(Duration::from_millis(within_ms) + SLACK);
        map.drain(resource.to_owned(), within_ms).await.map(drop)
    }

    /// Forgets a resource that was drained. A source that still names it adds it anew.
    ///
    /// # Errors
    /// `Conflict` while anything lives on it; `NotFound`; those of a call.
    pub async fn remove_resource(&self, resource: &str) -> Result<()> {
        self.map.remove_resource(resource.to_owned()).await.map(drop)
    }

    /// The resources with the numbers of the logical partitions on each.
    ///
    /// # Errors
    /// Those of a call.
    pub async fn resources(&self) -> Result<Vec<(PhysicalResource, Vec<u32>)>> {
        let chart = self.map.chart().await?;
        let partitions = |name: &str| {
            (0..)
                .zip(&chart.partitions)
                .filter(|(_, placement)| placement.resource == name)
                .map(|(number, _)| number)
                .collect()
        };
        Ok(chart.resources.values().map(|it| (it.resource.clone(), partitions(&it.resource.name))).collect())
    }

    /// Copies the [source](super::ResolutionSource) of this resolver at once, and from then on as often as this; it goes on
    /// after a restart, until it is told to stop by `None`. While the source cannot be read, the last good copy holds, and
    /// each failure is a warning in the log.
    ///
    /// # Errors
    /// `Invalid` or `NotFound` if the node has no source for this resolver; those of a call.
    pub async fn refresh_every(&self, period: impl Into<Option<Duration>>) -> Result<()> {
        let period = period.into().map(|period| u64::try_from(period.as_millis()).unwrap_or(u64::MAX));
        self.map.refresh_every(period).await
    }

    /// Copies the source now. Whether that went well is in what it returns.
    ///
    /// # Errors
    /// As [`refresh_every`](Resolver::refresh_every).
    pub async fn refresh(&self) -> Result<SourceStatus> {
        self.map.with_timeout(MOVE_TIME_MAX).refresh().await
    }

    /// How old the copy of the source is, and what is wrong with the source.
    ///
    /// # Errors
    /// Those of a call.
    pub async fn source_status(&self) -> Result<SourceStatus> {
        self.map.source_status().await
    }

    async fn find(&self, entity: Entity, region: Option<&str>) -> Result<Resolution> {
        for _ in 0..MOVES_FOLLOWED_MAX {
            self.view.be_valid().await?;
            if let Some(resolution) = self.view.recall(&entity) {
                self.metrics.hits.increment(1);
                return Ok(resolution);
            }
            self.metrics.lookups.increment(1);
            let asked_at = self.view.version();
            let partition = self.ask(&entity, region).await?;
            if let Some(resolution) = self.view.remember(&entity, partition, asked_at) {
                return Ok(resolution);
            }
            // It moved meanwhile, or is on a partition that is new.
            self.view.renew().await?;
        }
        Err(Moved::new(entity, self.version()).into_error(&self.name))
    }

    async fn ask(&self, entity: &Entity, region: Option<&str>) -> Result<u32> {
        let shard = self.shard(entity)?;
        if let Some(partition) = shard.find(entity.clone()).await? {
            return Ok(partition);
        }
        match self.settings.policy {
            Policy::Refuse => Err(Error::new(
                ErrorKind::NotFound,
                format!(
                    "resolver {:?} does not know {entity}: assign it to a resource, or open the resolver with a policy \
                     that places it",
                    self.name
                ),
            )),
            policy => shard.assign(entity.clone(), policy, region.map(str::to_owned)).await,
        }
    }

    async fn place(&self, entity: Entity, resource: &str, placing: Placing) -> Result<()> {
        let entity = checked(entity)?;
        let shard = self.shard(&entity)?;
        shard.with_timeout(MOVE_TIME_MAX).place(vec![(entity, resource.to_owned())], placing).await
    }

    fn shard(&self, entity: &Entity) -> Result<&ResolverShardRef> {
        let index = shard_index(entity, self.shards.len());
        self.shards.get(index).ok_or_else(|| Error::fatal(format!("resolver {:?} has no shard {index}", self.name)))
    }
}

/// How long a drain may wait: a day.
const DRAIN_TIME_MAX_MS: u64 = 24 * 60 * 60 * 1000;
