use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mainstay::actor::{WallTime, deferred};
use mainstay::prelude::*;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::chart::Chart;
use super::entity::Entity;
use super::holders::{HOLDERS_MAX, Holders, Report};
use super::physical_resource::PhysicalResource;
use super::source::SourceStatus;
use crate::lease;

mod refreshing;

/// The reminder by which a catalog is loaded.
const REFRESH: &str = "refresh";

/// The timer by which leases and deadlines are looked after.
const LOOK: &str = "look";

/// What is published whenever the map has changed.
#[derive(Debug, Clone, Event, Serialize, Deserialize)]
pub(crate) struct MapChanged {
    /// The version as of which it is published.
    pub(crate) version: u64,
}

/// The map of one resolver: which partition is on which resource, and who relies on it. Its id is the resolver's name.
#[interface]
pub(crate) trait ResolverMap {
    /// Makes a holder known, whose lease begins.
    async fn attach(&mut self, holder: String, lease_ms: u64, shards: u32, busy: BTreeSet<String>) -> Result<Chart>;

    /// Renews the lease of a holder: with the map if the holder has not seen it.
    async fn renew(&mut self, holder: String, report: Report) -> Result<Option<Chart>>;

    /// Forgets a holder that does not begin calls any more.
    async fn detach(&mut self, holder: String) -> Result<()>;

    /// The map as it is.
    async fn chart(&self) -> Result<Chart>;

    /// Answers when every holder knows of the resource.
    async fn add_resource(&mut self, resource: PhysicalResource) -> Result<Deferred<u64>>;

    /// The same for what a source says: a resource that was drained stays so.
    async fn adopt_resource(&mut self, resource: PhysicalResource) -> Result<Deferred<u64>>;

    /// Answers when no holder begins a call on the old resource any more.
    async fn move_partition(&mut self, partition: u32, resource: String) -> Result<Deferred<u64>>;

    /// Says that entities have moved, and answers when no holder begins a call where they were.
    async fn announce(&mut self, entities: Vec<Entity>) -> Result<Deferred<u64>>;

    /// Moves everything away, and answers when nobody uses the resource any more.
    async fn drain(&mut self, resource: String, within_ms: u64) -> Result<Deferred<u64>>;

    /// Forgets a resource that nothing lives on.
    async fn remove_resource(&mut self, resource: String) -> Result<u64>;

    /// Loads the catalog of the source now and then; never if there is no period.
    async fn refresh_every(&mut self, period_ms: Option<u64>) -> Result<()>;

    /// Loads the catalog of the source now, and answers when it holds.
    async fn refresh(&mut self) -> Result<Deferred<SourceStatus>>;

    /// How fresh the copy of the source is.
    async fn source_status(&self) -> Result<SourceStatus>;
}

#[derive(Actor)]
#[actor(implements(ResolverMap), name = "mainstay.ResolverMap")]
pub(crate) struct ResolverMapActor {
    chart: State<Chart>,
    /// The holders, with the lengths of their leases in milliseconds: whoever was there before a restart may still be.
    leases: State<BTreeMap<String, u64>>,
    /// When the source was last copied.
    refreshed: State<Option<WallTime>>,
    holders: Holders,
    /// Why the source could not be copied, if it was tried since and failed.
    refusal: Option<String>,
    /// Those who wait for the load that is under way; `None` if none is.
    loading: Option<Vec<Responder<SourceStatus>>>,
    ctx: Context,
}

impl Lifecycle for ResolverMapActor {
    async fn activate(&mut self) -> Result<()> {
        let now = lease::now();
        for (id, lease_ms) in self.leases.iter() {
            self.holders.hear(id.clone(), Duration::from_millis(*lease_ms), None, now);
        }
        Ok(())
    }
}

impl ResolverMap for ResolverMapActor {
    async fn attach(&mut self, holder: String, lease_ms: u64, shards: u32, busy: BTreeSet<String>) -> Result<Chart> {
        self.expire();
        if self.holders.count() >= HOLDERS_MAX {
            return Err(Error::new(
                ErrorKind::Overloaded,
                format!(
                    "resolver {} has {HOLDERS_MAX} holders (HOLDERS_MAX): share a handle by cloning it",
                    self.ctx.id()
                ),
            ));
        }
        match self.chart.shards {
            0 => self.chart.shards = shards,
            known if known != shards => {
                return Err(Error::invalid(format!(
                    "resolver {} has {known} shards, and they stay: open it with `shards: {known}`, not {shards}",
                    self.ctx.id()
                )));
            }
            _ => {}
        }
        self.leases.insert(holder.clone(), lease_ms);
        let report = Report { seen: self.chart.version, busy };
        self.holders.hear(holder, Duration::from_millis(lease_ms), Some(report), lease::now());
        Ok(self.chart.clone())
    }

    async fn renew(&mut self, holder: String, report: Report) -> Result<Option<Chart>> {
        let seen = report.seen;
        // Before anybody is answered: answers of a turn that fails do not leave.
        if !self.holders.renew(&holder, report, lease::now()) {
            return Err(Error::new(
                ErrorKind::NotFound,
                format!("the lease of holder {holder} of resolver {} has run out: attach again", self.ctx.id()),
            ));
        }
        self.look_after();
        Ok((seen != self.chart.version).then(|| self.chart.since(seen)))
    }

    async fn detach(&mut self, holder: String) -> Result<()> {
        self.leases.remove(&holder);
        self.holders.leave(&holder);
        self.look_after();
        Ok(())
    }

    async fn chart(&self) -> Result<Chart> {
        Ok(self.chart.clone())
    }

    async fn add_resource(&mut self, resource: PhysicalResource) -> Result<Deferred<u64>> {
        let is_changed = self.chart.add_resource(resource)?;
        self.changed(is_changed, None, None)
    }

    async fn adopt_resource(&mut self, resource: PhysicalResource) -> Result<Deferred<u64>> {
        let is_changed = self.chart.adopt_resource(resource)?;
        self.changed(is_changed, None, None)
    }

    async fn move_partition(&mut self, partition: u32, resource: String) -> Result<Deferred<u64>> {
        let is_changed = self.chart.move_partition(partition, &resource)?;
        self.changed(is_changed, None, None)
    }

    async fn announce(&mut self, entities: Vec<Entity>) -> Result<Deferred<u64>> {
        self.chart.announce(entities);
        self.changed(true, None, None)
    }

    async fn drain(&mut self, resource: String, within_ms: u64) -> Result<Deferred<u64>> {
        let is_changed = self.chart.drain(&resource)?;
        let deadline = lease::now() + Duration::from_millis(within_ms);
        self.changed(is_changed, Some(resource), Some(deadline))
    }

    async fn remove_resource(&mut self, resource: String) -> Result<u64> {
        self.chart.remove_resource(&resource)?;
        self.ctx.publish(MapChanged { version: self.chart.version })?;
        Ok(self.chart.version)
    }

    async fn refresh_every(&mut self, period_ms: Option<u64>) -> Result<()> {
        match period_ms.map(Duration::from_millis) {
            Some(period) => {
                // So that whoever forgot to register the source hears of it, and not the log alone.
                self.source()?;
                self.ctx.remind(REFRESH).after(Duration::ZERO).every(period).set()?;
            }
            None => drop(self.ctx.cancel_reminder(REFRESH)?),
        }
        Ok(())
    }

    async fn refresh(&mut self) -> Result<Deferred<SourceStatus>> {
        let (answer, responder) = deferred();
        self.load(Some(responder))?;
        Ok(answer)
    }

    async fn source_status(&self) -> Result<SourceStatus> {
        Ok(self.status())
    }
}

impl Remindable for ResolverMapActor {
    async fn remind(&mut self, _: Reminder) -> Result<()> {
        self.load(None)
    }
}

impl ResolverMapActor {
    /// Tells the holders of a change, and gives an answer when they have heard.
    fn changed(&mut self, is_changed: bool, idle: Option<String>, deadline: Option<Instant>) -> Result<Deferred<u64>> {
        let version = self.chart.version;
        let (answer, responder) = deferred();
        self.holders.wait(responder, version, idle, deadline)?;
        if is_changed {
            self.ctx.publish(MapChanged { version })?;
        }
        self.look_after();
        self.look_later()?;
        Ok(answer)
    }

    /// Forgets whose lease has run out.
    fn expire(&mut self) {
        for gone in self.holders.expire(lease::now()) {
            tracing::debug!(resolver = %self.ctx.id(), holder = gone, "the lease of a holder has run out");
            self.leases.remove(&gone);
        }
    }

    /// Forgets whose lease has run out, and answers who need not wait any longer.
    fn look_after(&mut self) {
        self.expire();
        self.holders.settle(lease::now());
    }

    fn look_later(&self) -> Result<()> {
        if let Some(next) = self.holders.next_look() {
            let wait = next.saturating_duration_since(lease::now());
            self.ctx.set_timer(LOOK, wait, None, Self::look)?;
        }
        Ok(())
    }

    async fn look(&mut self) -> Result<()> {
        self.look_after();
        self.look_later()
    }
}
