use std::sync::{Arc, Weak};
use std::time::Duration;

use mainstay::actor::Events;
use mainstay::prelude::*;
use parking_lot::{Mutex, RwLock};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::entity::Entity;
use super::holders::Report;
use super::map::{MapChanged, ResolverMapRef};
use super::memory::Memory;
use super::resolution::{Resolution, Ticket};
use super::sight::{Pass, Sight, Verdict};
use crate::lease::{self, HeldLease};

/// How often in a row the map may have changed when a lease is renewed, before the next tick goes on with it.
const RENEWALS_IN_A_ROW_MAX: u32 = 16;

/// A holder of resolutions: what a process sees of a resolver's map, kept up to date while it is there.
pub(super) struct View {
    holder: String,
    lease: Duration,
    shards: u32,
    map: ResolverMapRef,
    sight: RwLock<Sight>,
    memory: Mutex<Memory<Entity, u32>>,
    /// One at a time renews, and those who come meanwhile find it done.
    renewing: tokio::sync::Mutex<HolderState>,
    bell: Arc<Notify>,
}

/// Whether a view is a holder, or was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HolderState {
    Holder,
    /// Since this moment.
    Gone(Instant),
}

impl View {
    /// Becomes a holder.
    pub(super) async fn attach(
        map: ResolverMapRef,
        lease: Duration,
        shards: u32,
        remembered_max: usize,
    ) -> Result<Arc<Self>> {
        let holder = format!("{:032x}", rand::random::<u128>());
        // Before attaching, so that no change goes unheard.
        let events = map.events::<MapChanged>()?;
        let asked = lease::now();
        let chart = map.attach(holder.clone(), millis(lease), shards, Default::default()).await?;
        let bell = Arc::new(Notify::new());
        let view = Arc::new(Self {
            holder,
            lease,
            shards,
            map,
            sight: RwLock::new(Sight::new(chart, HeldLease::begun(asked, lease), bell.clone())),
            memory: Mutex::new(Memory::new(remembered_max)),
            renewing: tokio::sync::Mutex::new(HolderState::Holder),
            bell,
        });
        tokio::spawn(keep(Arc::downgrade(&view), events, Leaving::of(&view)));
        Ok(view)
    }

    pub(super) fn version(&self) -> u64 {
        self.sight.read().version()
    }

    /// What is known of an entity without asking anybody; `None` if it is nothing, or may be old.
    pub(super) fn recall(&self, entity: &Entity) -> Option<Resolution> {
        let sight = self.sight.read();
        if !sight.lease.is_held(lease::now()) {
            return None;
        }
        let partition = self.memory.lock().get(entity)?;
        sight.resolution(entity, partition)
    }

    /// Keeps what somebody has said who was asked as of a version; `None` if it may be old by now.
    pub(super) fn remember(&self, entity: &Entity, partition: u32, asked_at: u64) -> Option<Resolution> {
        let sight = self.sight.read();
        if !sight.lease.is_held(lease::now()) || sight.has_moved_since(entity, asked_at) {
            return None;
        }
        let resolution = sight.resolution(entity, partition)?;
        self.memory.lock().insert(entity.clone(), partition);
        Some(resolution)
    }

    pub(super) fn forget(&self, entity: &Entity) {
        self.memory.lock().remove(entity);
    }

    /// Begins a call on a resource, without waiting.
    pub(super) fn begin_now(&self, ticket: &Ticket, resource: &str) -> Verdict {
        self.sight.read().begin(ticket, resource, lease::now())
    }

    /// Begins a call on a resource, if what it stands on holds; `None` if it does not.
    pub(super) async fn begin(&self, ticket: &Ticket, resource: &str) -> Result<Option<Pass>> {
        if let Some(verdict) = known(self.begin_now(ticket, resource)) {
            return Ok(verdict);
        }
        self.renew().await?;
        known(self.begin_now(ticket, resource)).ok_or_else(|| {
            Error::new(
                ErrorKind::Retry,
                format!("what is known of {} may be old, and the resolver's map cannot be asked: retry", ticket.entity),
            )
        })
    }

    /// Makes sure that what is seen may be relied on.
    pub(super) async fn be_valid(&self) -> Result<()> {
        if self.sight.read().lease.is_held(lease::now()) {
            return Ok(());
        }
        self.renew().await
    }

    /// Renews the lease, takes over what has changed and says so.
    pub(super) async fn renew(&self) -> Result<()> {
        let state = self.renewing.lock().await;
        if let HolderState::Gone(since) = *state {
            return Err(left(since));
        }
        for _ in 0..RENEWALS_IN_A_ROW_MAX {
            let asked = lease::now();
            let report = {
                let sight = self.sight.read();
                Report { seen: sight.version(), busy: sight.busy() }
            };
            let busy = report.busy.clone();
            let (chart, is_new) = match self.map.renew(self.holder.clone(), report).await {
                Ok(chart) => (chart, false),
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    // Nobody waits for this holder any more: nothing may begin before the map is known again.
                    self.sight.write().lease.end(asked);
                    let lease_ms = millis(self.lease);
                    (Some(self.map.attach(self.holder.clone(), lease_ms, self.shards, busy).await?), true)
                }
                Err(error) => return Err(error),
            };
            let Some(chart) = chart else {
                self.sight.write().lease.renew(asked, self.lease, lease::now());
                return Ok(());
            };
            let mut sight = self.sight.write();
            let moved = sight.apply(chart);
            sight.lease.renew(asked, self.lease, lease::now());
            let mut memory = self.memory.lock();
            match moved {
                Some(moved) => moved.iter().for_each(|entity| memory.remove(entity)),
                None => memory.clear(),
            }
            if is_new {
                return Ok(());
            }
            // Once more, which tells the map that it was heard.
        }
        Ok(())
    }

    async fn has_left(&self) -> bool {
        matches!(*self.renewing.lock().await, HolderState::Gone(_))
    }

    /// Begins nothing any more and gives the lease back, so that nobody waits for it to run out. Who has calls under way
    /// keeps it: they may be waited for.
    pub(super) async fn leave(&self) {
        let mut state = self.renewing.lock().await;
        *state = HolderState::Gone(Instant::now());
        let is_idle = {
            let mut sight = self.sight.write();
            sight.lease.end(lease::now());
            sight.busy().is_empty()
        };
        if is_idle && let Err(error) = self.map.detach(self.holder.clone()).await {
            tracing::warn!(?error, "the lease on a resolver's map could not be given back and runs out");
        }
    }
}

impl Drop for View {
    fn drop(&mut self) {
        // Wakes the keeper, which then leaves.
        self.bell.notify_one();
    }
}

fn known(verdict: Verdict) -> Option<Option<Pass>> {
    match verdict {
        Verdict::Begun(pass) => Some(Some(pass)),
        Verdict::Moved => Some(None),
        Verdict::Unknown => None,
    }
}

/// How long a node may take to stop. Whoever has a resolver of it for longer is not part of its work.
const STOPPING_TIME_MAX: Duration = Duration::from_secs(60);

/// The answer to those who have work left while the node stops. What they were called for may be asked for again, where or
/// when there is a node that runs; but not by this resolver, which is told in the end to those who try again and again.
fn left(since: Instant) -> Error {
    if since.elapsed() > STOPPING_TIME_MAX {
        return Error::fatal(
            "the node of this resolver has stopped: nothing was begun, open the resolver at one that runs",
        );
    }
    Error::new(
        ErrorKind::Retry,
        "the node of this resolver is about to stop, or has: nothing was begun, call again when it is back, and open the \
         resolver there",
    )
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// What is left to do when nobody uses a view any more.
struct Leaving {
    holder: String,
    pause: Duration,
    map: ResolverMapRef,
    bell: Arc<Notify>,
}

impl Leaving {
    fn of(view: &View) -> Self {
        Self {
            holder: view.holder.clone(),
            pause: lease::renewal_pause(view.lease),
            map: view.map.clone(),
            bell: view.bell.clone(),
        }
    }
}

/// Keeps a view up to date while anybody uses it: when the map has changed, when the last call on a resource that is being
/// drained has ended, and in time for the lease.
async fn keep(view: Weak<View>, mut events: Events<MapChanged>, leaving: Leaving) {
    loop {
        tokio::select! {
            () = leaving.bell.notified() => {}
            () = tokio::time::sleep(leaving.pause) => {}
            event = events.next() => if event.is_err_and(|error| error.kind() == ErrorKind::Fatal) { return },
        }
        let Some(view) = view.upgrade() else { break };
        if let Err(error) = view.renew().await {
            if error.kind() == ErrorKind::Fatal || view.has_left().await {
                return;
            }
            tracing::warn!(?error, "the lease on a resolver's map could not be renewed, will be tried again");
        }
    }
    // If it does not arrive, the lease runs out.
    drop(leaving.map.detach(leaving.holder).await);
}
