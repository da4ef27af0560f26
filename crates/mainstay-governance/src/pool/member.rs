use std::time::Duration;

use mainstay::prelude::*;
use tokio::time::Instant;

use crate::metric::MemberMetrics;
use crate::owner::holding::Holding;
use crate::owner::owned::{NotOpen, OwnedResource, OwnerFields, OwnsResource};
use crate::owner::{Fence, FenceLineage, Holder, Opening, Resource};
use crate::pool::breaker::Breaker;
use crate::pool::interface::{Admission, CoordinatorRef, JobTicket, Member, Ran, Refusal};
use crate::pool::names::Names;
use crate::pool::settings::pool_settings;
use crate::pool::{Coordination, MemberStatus};

/// One of the owners of a pool: an actor that holds one of its resources.
///
/// It opens its resource for the first job, after it has asked the coordinator whether it belongs to the pool: that is what
/// keeps the number of open resources within the size of the pool, whatever callers believe.
#[derive(Actor)]
#[actor(implements(Member<R>), name = Names::<R>::MEMBER)]
pub struct PoolMember<R: Resource> {
    /// The token of the last opening. Raised and saved before each.
    fence: State<Fence>,
    /// The line of tokens that it belongs to.
    #[actor(name = "life")]
    lineage: State<FenceLineage>,
    resource: Provided<R>,
    owned: OwnedResource<R>,
    breaker: Breaker,
    /// There from activation on.
    place: Option<Place<R>>,
    /// The latest version of the pool that it knows of.
    version: u64,
    /// As of which version it does not belong to the pool.
    retired: Option<u64>,
    /// Tokens of leases up to this one are over. Not known before the first lease after an activation.
    leases_over: Option<u64>,
    /// The lease that has had jobs done by the open resource, and may have left something in it.
    used_by: Option<u64>,
    #[open(Ok(MemberMetrics::of(R::NAME, pool_of(ctx.id()))))]
    metrics: MemberMetrics,
    ctx: Context,
}

/// The key of the pool that a member belongs to, by its id.
fn pool_of(id: &ActorId) -> &str {
    id.as_text().and_then(|text| text.rsplit_once('/')).map_or("", |(pool, _)| pool)
}

/// Where a member belongs.
struct Place<R: Resource> {
    pool: String,
    index: u32,
    coordination: Coordination,
    coordinator: CoordinatorRef<R>,
}

impl<R: Resource> PoolMember<R> {
    fn place(&self) -> Result<&Place<R>> {
        self.place.as_ref().ok_or_else(|| Error::fatal("a member has no place before its activation"))
    }

    /// Finds out where it belongs.
    fn find_place(&self, coordination: Coordination) -> Result<Place<R>> {
        let id = self.ctx.id();
        let parts = id.as_text().and_then(|text| text.rsplit_once('/'));
        let Some((pool, index)) = parts.and_then(|(pool, index)| Some((pool, index.parse().ok()?))) else {
            return Err(Error::invalid(format!(
                "{}({id}) is no member of a pool: its id is the key of the pool and a number, such as `orders/3`",
                Names::<R>::MEMBER
            )));
        };
        let coordinator = self.ctx.actor_named(Names::<R>::COORDINATOR, pool)?;
        Ok(Place { pool: pool.to_owned(), index, coordination, coordinator })
    }

    /// Opens the resource, or says why a job is refused.
    async fn open_for_job(&mut self) -> Result<(), Refusal> {
        match self.ensure_open().await {
            Ok(()) => Ok(()),
            Err(NotOpen::Resting { left, cause }) => Err(Refusal::Resting { left, cause }),
            Err(NotOpen::Refused) => Err(Refusal::Retired { version: self.retired.unwrap_or(self.version) }),
            Err(NotOpen::NotTried(error) | NotOpen::Failed(error)) => Err(self.resting(error.to_string())),
        }
    }

    /// For how long it is left alone.
    fn resting(&self, cause: String) -> Refusal {
        let now = Instant::now();
        let left = self.owned.holding.resting(now).map_or(Duration::ZERO, |(left, _)| left);
        Refusal::Resting { left: left.max(self.breaker.left(now).unwrap_or_default()), cause }
    }

    /// Whether a job may be done at all.
    async fn admit_job(&mut self, ticket: JobTicket) -> Result<Option<Refusal>> {
        if let Some(version) = self.retired.filter(|version| ticket.version <= *version) {
            return Ok(Some(Refusal::Retired { version }));
        }
        self.retired = None;
        if self.place()?.coordination == Coordination::Server && !self.admit_lease(ticket.lease).await? {
            return Ok(Some(Refusal::LeaseOver));
        }
        let is_open = self.breaker.left(Instant::now()).is_some();
        Ok(is_open.then(|| self.resting("it has failed too often in a row, and its breaker is open".to_owned())))
    }

    /// Whether the lease of a job holds.
    async fn admit_lease(&mut self, token: Option<u64>) -> Result<bool> {
        let pool = &self.place()?.pool;
        let Some(token) = token else {
            return Err(Error::invalid(format!(
                "pool {pool:?} of {} is coordinated by its server: lease a member",
                R::NAME
            )));
        };
        let over = match self.leases_over {
            Some(over) => over,
            // What it knew has left memory with it.
            None if self.is_current(token).await? => token.saturating_sub(1),
            None => return Ok(false),
        };
        // Who comes with a later one is the holder now.
        self.leases_over = Some(over.max(token.saturating_sub(1)));
        Ok(token > over)
    }

    /// Lets nothing of another lease be found by the next one.
    async fn reset_unless_used_by(&mut self, token: Option<u64>) {
        if self.used_by.is_some_and(|used_by| Some(used_by) != token) {
            self.owned.holding.reset(&self.resource, &self.owned.settings).await;
            self.used_by = None;
        }
    }

    /// Asks whether a token is that of its lease.
    async fn is_current(&self, token: u64) -> Result<bool> {
        let Place { coordinator, index, pool, .. } = self.place()?;
        coordinator.is_current(*index, token).await.map_err(|error| {
            let text = format!("pool {pool:?} cannot say whose lease it is: the job has not begun, call again");
            Error::new(ErrorKind::Retry, text).with_source(error)
        })
    }
}

impl<R: Resource> OwnsResource<R> for PoolMember<R> {
    fn fields(&mut self) -> OwnerFields<'_, R> {
        let Self { fence, lineage, resource, owned, ctx, .. } = self;
        OwnerFields { fence, lineage, resource, owned, ctx }
    }

    fn opening(&self, fence: Fence) -> Result<Opening> {
        let Place { pool, index, .. } = self.place()?;
        Ok(Opening::of_member(pool, *index, fence).held_by(Holder::actor(Names::<R>::MEMBER, self.ctx.id())))
    }

    /// Asks the coordinator whether it belongs to the pool.
    async fn admit(&mut self) -> Result<bool> {
        let Place { coordinator, index, .. } = self.place()?;
        let coordinator = coordinator.with_timeout(self.owned.settings.open_time_max);
        let Admission { is_member, version } = coordinator.admit(*index).await?;
        match is_member {
            true => self.version = self.version.max(version),
            false => self.retired = Some(version),
        }
        Ok(is_member)
    }

    fn reopens_at(&self, due: Instant) -> Option<Instant> {
        let due = self.breaker.due().map_or(due, |trial| due.max(trial));
        self.retired.is_none().then_some(due)
    }

    fn opens(&mut self) {
        self.used_by = None;
        self.metrics.opens.increment(1);
    }

    fn failed(&mut self) {
        let now = Instant::now();
        let was_open = self.breaker.left(now).is_some();
        self.breaker.fail(now);
        self.metrics.failures.increment(1);
        if !was_open && self.breaker.left(now).is_some() {
            self.metrics.trips.increment(1);
        }
    }
}

impl<R: Resource> Lifecycle for PoolMember<R> {
    async fn activate(&mut self) -> Result<()> {
        let pool = pool_settings(&*self.resource, self.ctx.services())?;
        self.breaker = Breaker::new(pool.breaker);
        self.place = Some(self.find_place(pool.coordination)?);
        self.begin_owning()
    }

    async fn deactivate(&mut self) {
        self.close().await;
    }
}

impl<R: Resource> Remindable for PoolMember<R> {
    async fn remind(&mut self, reminder: Reminder) -> Result<()> {
        self.reopen().await?;
        match self.retired {
            Some(_) => self.ctx.cancel_reminder(&reminder.name).map(drop),
            None => Ok(()),
        }
    }
}

impl<R: Resource> Member<R> for PoolMember<R> {
    async fn run(&mut self, ticket: JobTicket, job: R::Job) -> Result<Ran<R>> {
        self.version = self.version.max(ticket.version);
        if let Some(refusal) = self.admit_job(ticket).await? {
            return Ok(Ran::Refused(job, refusal));
        }
        if ticket.opening.is_some_and(|opening| opening != *self.fence || !self.owned.holding.is_open()) {
            return Ok(Ran::Refused(job, Refusal::Reopened));
        }
        self.reset_unless_used_by(ticket.lease).await;
        if let Err(refusal) = self.open_for_job().await {
            self.plan_to_reopen()?;
            return Ok(Ran::Refused(job, refusal));
        }
        // Before it begins: whatever becomes of it, it may leave something behind.
        self.used_by = ticket.lease;
        let done = self.run_job(job).await;
        match self.owned.holding.is_open() {
            true => self.breaker.succeed(Instant::now()),
            false => self.failed(),
        }
        self.plan_to_reopen()?;
        done.map(|reply| Ran::Done { reply, opening: *self.fence, version: self.version })
    }

    async fn retire(&mut self, version: u64) -> Result<()> {
        self.retired = Some(self.retired.unwrap_or(0).max(version));
        if !self.retire_resource().await? {
            let text = format!("something of {} may still be open: it is looked after again", self.ctx.id());
            return Err(Error::new(ErrorKind::Retry, text));
        }
        Ok(())
    }

    async fn hear(&mut self, version: u64) -> Result<()> {
        self.version = self.version.max(version);
        Ok(())
    }

    async fn revoke(&mut self, token: u64) -> Result<()> {
        let over = self.leases_over.unwrap_or(0).max(token);
        self.leases_over = Some(over);
        if self.used_by.is_some_and(|used_by| used_by <= over) {
            self.reset_unless_used_by(None).await;
        }
        Ok(())
    }

    async fn status(&self) -> Result<MemberStatus> {
        let Holding { jobs, openings, .. } = self.owned.holding;
        let (state, breaker) = (self.owned.holding.state(), self.breaker.state(Instant::now()));
        Ok(MemberStatus { state, breaker, fence: *self.fence, jobs, openings })
    }
}
