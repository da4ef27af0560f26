use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use mainstay::node::NodeBuilder;
use mainstay::prelude::*;
use mainstay::service::{CALL_TIMEOUT_DEFAULT, Services};
use parking_lot::RwLock;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, sleep_until};

use crate::lease;
use crate::owner::Resource;
use crate::pool::interface::{CoordinatorRef, Grant, JobTicket, MemberRef, Ran, Refusal, View};
use crate::pool::names::Names;
use crate::pool::roster::{AllRest, MemberHandle, Roster, Wanted};
use crate::pool::{
    AsServices, Coordination, DRAIN_TIME_MAX, Lease, MemberReport, Pick, PoolCoordinator, PoolMember, PoolStatus,
    Priority,
};
use crate::settings::{OWNERS, POOLS};
use crate::unserved::unserved;

/// How long to wait before something is tried again that could not be done in passing.
const PAUSE: Duration = Duration::from_millis(20);

/// What a time limit stands for that is too long for the clock.
const FOREVER: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// How long to wait for one who leaves the line to be gone before it is said again.
const WITHDRAW_AGAIN: Duration = Duration::from_secs(1);

/// How long a member may take to say what it is like before it counts as busy.
const STATUS_TIME_MAX: Duration = Duration::from_secs(1);

/// A handle to a pool: some owners of a resource, shared by all callers in the cluster. Cheap to clone; clones share what
/// they know of the members.
///
/// [The page of this module](crate::pool) says how a pool works.
pub struct ResourcePool<R: Resource> {
    shared: Arc<PoolCore<R>>,
    pick: Option<Pick>,
    priority: Priority,
    timeout: Duration,
}

/// What the clones of a handle share.
pub(crate) struct PoolCore<R: Resource> {
    pub(crate) key: String,
    pub(crate) coordinator: CoordinatorRef<R>,
    services: Services,
    roster: RwLock<Arc<Roster<R>>>,
    /// Held while the coordinator is asked, so that one asks for all.
    refreshing: tokio::sync::Mutex<()>,
    /// The latest version that a member has told of.
    heard: AtomicU64,
    turns: AtomicUsize,
}

impl<R: Resource> Clone for ResourcePool<R> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone(), ..*self }
    }
}

impl<R: Resource> fmt::Debug for ResourcePool<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let View { version, size, .. } = self.shared.roster().view;
        write!(f, "ResourcePool({} {:?}, {size} members as of version {version})", R::NAME, self.shared.key)
    }
}

impl<R: Resource> ResourcePool<R> {
    /// Adds pools of a kind of resource to a node, which provides it to them.
    ///
    /// Operators can set how the pool behaves in `[governance.pools.NAME]`, and how its members do in `[governance.owners.NAME]`, by
    /// the name of the resource.
    pub fn serve(node: NodeBuilder, resource: R) -> NodeBuilder {
        let node = resource.sections(node).section_named(OWNERS, R::NAME, resource.owner_settings());
        let node = node.section_named(POOLS, R::NAME, resource.pool_settings()).provide(resource);
        node.actor::<PoolCoordinator<R>>().actor::<PoolMember<R>>()
    }

    /// The same for a resource that the node was given already, because it also has other owners.
    pub fn serve_provided(node: NodeBuilder) -> NodeBuilder {
        node.sections(OWNERS).sections(POOLS).actor::<PoolCoordinator<R>>().actor::<PoolMember<R>>()
    }

    /// A handle to the pool of a key. A pool is made by its first use, with the size of
    /// [`Resource::pool_settings`].
    ///
    /// # Errors
    /// `NotFound` if the node does not serve pools of this resource, `Invalid` if its settings cannot be; those of a call.
    pub async fn open(from: &impl AsServices, key: impl Into<String>) -> Result<Self> {
        let (services, key) = (from.services().clone(), key.into());
        let coordinator = services.actor_named(Names::<R>::COORDINATOR, key.as_str());
        let coordinator: CoordinatorRef<R> = coordinator.map_err(unserved(
            format_args!("pool `{key}` of `{}`", R::NAME),
            "pool",
            "ResourcePool::serve(builder, resource)",
        ))?;
        let view = coordinator.view().await?;
        let roster = Roster::new(view, &[], |index| member(&services, &key, index))?;
        let shared = PoolCore {
            key,
            coordinator,
            services,
            roster: RwLock::new(Arc::new(roster)),
            refreshing: tokio::sync::Mutex::new(()),
            heard: AtomicU64::new(view.version),
            turns: AtomicUsize::new(0),
        };
        let priority = Priority::default();
        Ok(Self { shared: Arc::new(shared), pick: None, priority, timeout: CALL_TIMEOUT_DEFAULT })
    }

    /// The same pool with another time limit for its jobs: 60 s unless told otherwise. A job that has not begun by then fails
    /// with `Timeout`, one that is under way with `OutcomeUnknown`.
    #[must_use]
    pub fn with_timeout(&self, timeout: Duration) -> Self {
        Self { timeout, ..self.clone() }
    }

    /// The same pool with another way to pick a member than its settings say.
    #[must_use]
    pub fn with_pick(&self, pick: Pick) -> Self {
        Self { pick: Some(pick), ..self.clone() }
    }

    /// The same pool with another priority for its leases.
    #[must_use]
    pub fn with_priority(&self, priority: Priority) -> Self {
        Self { priority, ..self.clone() }
    }

    /// The key of the pool.
    pub fn key(&self) -> &str {
        &self.shared.key
    }

    /// Has a member do a job.
    ///
    /// If the pool is coordinated by its callers, this picks a member and goes there directly. If it is coordinated by its
    /// server, this leases a member for the job. Either way a member that does not belong to the pool any more, or rests
    /// after a failure, hands the job back and another gets it, and while all of them rest this waits.
    ///
    /// # Errors
    /// That of the job, as [`Owner::run`](crate::owner::Owner::run) has it. `Retry` if no member works and none is tried
    /// again before the time limit, `Timeout` if none is free by then, `Overloaded` if too many wait: the job has not begun.
    pub async fn run(&self, job: R::Job) -> Result<R::Reply> {
        let view = self.shared.roster().view;
        match view.coordination {
            Coordination::Client => self.run_picked(Wanted::Any(self.pick.unwrap_or(view.pick)), job).await,
            Coordination::Server => self.run_leased(job).await,
        }
    }

    /// Has a member do a job that belongs to a key: the same member for all jobs of the key while the pool has the same
    /// size, so that they come in order. If that member rests, this waits for it.
    ///
    /// # Errors
    /// As [`run`](ResourcePool::run); `Invalid` if the pool is coordinated by its server, which gives what is free.
    pub async fn run_by_key(&self, key: &str, job: R::Job) -> Result<R::Reply> {
        match self.shared.roster().view.coordination {
            Coordination::Client => self.run_picked(Wanted::Of(key), job).await,
            Coordination::Server => Err(Error::invalid(format!(
                "pool {:?} of {} is coordinated by its server, which leases what is free: use `run`, or `lease`",
                self.shared.key,
                R::NAME
            ))),
        }
    }

    /// Leases a member: nobody else has jobs done by it until the lease is dropped. Whoever stops waiting for it, by dropping
    /// this, gives up the place in line at once.
    ///
    /// # Errors
    /// `Timeout` if none is free before the time limit, `Overloaded` if too many wait, `Invalid` if the pool is coordinated
    /// by its callers.
    pub async fn lease(&self) -> Result<Lease<R>> {
        self.lease_until(self.deadline()).await
    }

    /// Makes the pool larger or smaller, while it is in use. The size is stored.
    ///
    /// New members are there when this returns. Members that go finish what they were given and are closed when this
    /// returns: from then on no more than `size` are open, in the whole cluster.
    ///
    /// # Errors
    /// `Invalid` for a size that cannot be; `Conflict` if another size is asked for meanwhile; `Timeout` if it takes longer
    /// than [`DRAIN_TIME_MAX`], and it goes on nevertheless.
    pub async fn resize(&self, size: u32) -> Result<()> {
        let deadline = Instant::now() + DRAIN_TIME_MAX;
        loop {
            let left = self.left(deadline, "resized")?;
            match self.shared.coordinator.with_timeout(left).resize(size).await {
                Ok(view) => return self.shared.install(view),
                // It goes on where it was: the size is stored, and asking for it again only waits.
                Err(error) if has_passed_on(&error) => sleep(PAUSE).await,
                Err(error) => return Err(error),
            }
        }
    }

    /// What the pool is like. Opens nothing.
    ///
    /// # Errors
    /// Those of a call to the coordinator. A member that cannot be reached is reported without a status.
    pub async fn status(&self) -> Result<PoolStatus> {
        let known = self.shared.coordinator.status().await?;
        self.shared.install(known.view)?;
        let roster = self.shared.roster();
        let members = roster.handles().iter().map(|handle| async {
            let status = handle.member.with_timeout(STATUS_TIME_MAX).status().await.ok();
            MemberReport { index: handle.index, in_flight: handle.in_flight(), status }
        });
        let members = join_all(members).await;
        Ok(PoolStatus {
            size: known.view.size,
            version: known.view.version,
            draining: known.open_below.saturating_sub(known.view.size),
            in_flight: members.iter().map(|member| member.in_flight).sum(),
            members,
            leased: known.leased,
            waiting: known.waiting,
        })
    }

    async fn run_picked(&self, wanted: Wanted<'_>, mut job: R::Job) -> Result<R::Reply> {
        let (shared, deadline) = (&self.shared, self.deadline());
        loop {
            let left = self.left(deadline, "given a job")?;
            let roster = shared.roster_now().await;
            let turn = shared.turns.fetch_add(1, Ordering::Relaxed);
            let handle = match roster.pick(wanted, turn, Instant::now()) {
                Ok(handle) => handle,
                Err(rest) => {
                    self.wait(rest, deadline).await?;
                    continue;
                }
            };
            let member = handle.member.with_timeout(left);
            let in_flight = handle.enter();
            let ran = member.run(JobTicket { version: roster.view.version, lease: None, opening: None }, job).await?;
            drop(in_flight);
            let refusal = match ran {
                Ran::Done { reply, version, .. } => {
                    shared.hear(version);
                    return Ok(reply);
                }
                Ran::Refused(returned, refusal) => {
                    job = returned;
                    refusal
                }
            };
            shared.heed(handle, refusal, roster.view.version).await;
        }
    }

    async fn run_leased(&self, mut job: R::Job) -> Result<R::Reply> {
        let deadline = self.deadline();
        loop {
            let lease = self.lease_until(deadline).await?;
            match lease.try_run(self.left(deadline, "given a job")?, job).await? {
                Ran::Done { reply, .. } => return Ok(reply),
                Ran::Refused(returned, refusal) => {
                    job = returned;
                    lease.give_back(refusal).await;
                }
            }
        }
    }

    async fn lease_until(&self, deadline: Instant) -> Result<Lease<R>> {
        loop {
            let left = self.left(deadline, "leased")?;
            let (granted, lease) = oneshot::channel();
            // In a task of its own, because one who has gone away is to leave the line, or to give back what was granted.
            drop(tokio::spawn(acquire(self.shared.clone(), self.priority, left, self.timeout, granted)));
            match lease.await {
                Ok(Ok(lease)) => return Ok(lease),
                Ok(Err(error)) if has_passed_on(&error) => sleep(PAUSE).await,
                Ok(Err(error)) => return Err(error),
                Err(ended) => return Err(Error::fatal("a lease could not be taken").with_source(ended)),
            }
        }
    }

    /// Waits until a member may be tried again.
    async fn wait(&self, rest: AllRest, deadline: Instant) -> Result<()> {
        let AllRest { until, cause } = rest;
        if until > deadline {
            let left = until.saturating_duration_since(Instant::now());
            let text = format!(
                "no member of pool {:?} can be used: {cause}; one is tried again in {left:?}, call again then",
                self.shared.key
            );
            return Err(Error::new(ErrorKind::Retry, text));
        }
        sleep_until(until).await;
        Ok(())
    }

    /// When a job has to have begun that is given now.
    fn deadline(&self) -> Instant {
        let now = Instant::now();
        now.checked_add(self.timeout).unwrap_or(now + FOREVER)
    }

    /// The time until a deadline.
    fn left(&self, deadline: Instant, what: &str) -> Result<Duration> {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            let text = format!("no member of pool {:?} could be {what} within the time limit", self.shared.key);
            return Err(Error::new(ErrorKind::Timeout, text));
        }
        Ok(left)
    }
}

impl<R: Resource> PoolCore<R> {
    pub(crate) fn roster(&self) -> Arc<Roster<R>> {
        self.roster.read().clone()
    }

    /// A member has told of a version.
    fn hear(&self, version: u64) {
        if version > self.heard.load(Ordering::Relaxed) {
            self.heard.fetch_max(version, Ordering::Relaxed);
        }
    }

    /// The members, after a look at the coordinator if there is news.
    async fn roster_now(&self) -> Arc<Roster<R>> {
        let roster = self.roster();
        if self.heard.load(Ordering::Relaxed) <= roster.view.version {
            return roster;
        }
        // Without the news it goes on as before, and looks again.
        let _ = self.refresh(roster.view.version).await;
        self.roster()
    }

    /// A member by its number, if it is known or turns out to be one.
    async fn handle(&self, index: u32) -> Result<Arc<MemberHandle<R>>> {
        let roster = self.roster();
        if let Some(handle) = roster.handles().get(index as usize) {
            return Ok(handle.clone());
        }
        self.refresh(roster.view.version).await?;
        let known = self.roster().handles().get(index as usize).cloned();
        known.ok_or_else(|| {
            Error::new(ErrorKind::Retry, format!("member {index} of pool {:?} has gone: call again", self.key))
        })
    }

    /// A lease that was granted, after it was asked for at this time.
    async fn lease(self: &Arc<Self>, grant: Grant, asked: Instant, timeout: Duration) -> Result<Lease<R>> {
        match self.handle(grant.index).await {
            Ok(handle) => Ok(Lease::new(self.clone(), handle, grant, asked, timeout)),
            Err(error) => {
                // If it does not arrive, the lease expires.
                let _ = self.coordinator.release(grant.index, grant.token, Duration::ZERO).await;
                Err(error)
            }
        }
    }

    /// Does what a refusal calls for, before another member is tried.
    pub(crate) async fn heed(&self, handle: &MemberHandle<R>, refusal: Refusal, version: u64) {
        match refusal {
            Refusal::Retired { .. } => {
                // Without an answer it looks again: the job has not begun, and its time limit is not over.
                if self.refresh(version).await.is_err() {
                    sleep(PAUSE).await;
                }
            }
            Refusal::Resting { left, cause } => handle.rest(left, cause, Instant::now()),
            Refusal::LeaseOver | Refusal::Reopened => {}
        }
    }

    /// Asks how large the pool is now, unless somebody has since it was `version`.
    async fn refresh(&self, version: u64) -> Result<()> {
        let _one = self.refreshing.lock().await;
        if self.roster().view.version > version {
            return Ok(());
        }
        let view = self.coordinator.view().await?;
        if view.version <= version {
            // A member knows of a change that the coordinator will tell in a moment.
            sleep(PAUSE).await;
        }
        self.install(view)
    }

    /// Goes by another view, unless it is older.
    fn install(&self, view: View) -> Result<()> {
        let mut roster = self.roster.write();
        if view.version > roster.view.version {
            *roster = Arc::new(Roster::new(view, roster.handles(), |index| member(&self.services, &self.key, index))?);
        }
        Ok(())
    }
}

/// Takes a lease for somebody who waits for it. If they go away their place in line is free at once, and a lease that has
/// been granted by then is given back.
async fn acquire<R: Resource>(
    shared: Arc<PoolCore<R>>,
    priority: Priority,
    left: Duration,
    timeout: Duration,
    mut waiting: oneshot::Sender<Result<Lease<R>>>,
) {
    let (applicant, asked) = (rand::random(), lease::now());
    let coordinator = shared.coordinator.with_timeout(left);
    let mut granting = pin!(coordinator.acquire(priority, applicant));
    let granted = tokio::select! {
        // Asked for before it is withdrawn.
        biased;
        granted = &mut granting => granted,
        () = waiting.closed() => loop {
            // If it does not arrive, or arrives before what it withdraws, it is said again.
            let _ = shared.coordinator.with_timeout(WITHDRAW_AGAIN).withdraw(applicant).await;
            if let Ok(granted) = tokio::time::timeout(WITHDRAW_AGAIN, &mut granting).await {
                break granted;
            }
        },
    };
    let lease = match granted {
        Ok(grant) => shared.lease(grant, asked, timeout).await,
        Err(error) => Err(error),
    };
    // A lease that nobody takes is given back.
    drop(waiting.send(lease));
}

fn member<R: Resource>(services: &Services, key: &str, index: u32) -> Result<MemberRef<R>> {
    services.actor_named(Names::<R>::MEMBER, format!("{key}/{index}"))
}

/// True if a call has met a coordinator that was on its way to another place, and can be made again.
fn has_passed_on(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::OutcomeUnknown | ErrorKind::Retry | ErrorKind::NotPrimary { .. })
}

#[cfg(test)]
mod tests;
