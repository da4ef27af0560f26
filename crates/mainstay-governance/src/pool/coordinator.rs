use std::time::Duration;

use futures_util::future::try_join_all;
use mainstay::actor::deferred;
use mainstay::prelude::*;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::lease;
use crate::metric::CoordinatorMetrics;
use crate::owner::Resource;
use crate::pool::interface::{Admission, Coordinator, CoordinatorStatus, Grant, MemberRef, REVOKE_TIME_MAX, View};
use crate::pool::leases::{Leases, Revocation, Work};
use crate::pool::names::Names;
use crate::pool::settings::check_size;
use crate::pool::settings::pool_settings;
use crate::pool::{Coordination, DRAIN_TIME_MAX, PoolSettings, Priority};

/// The name of the timer that ends leases.
const LEASES: &str = "leases";
/// The name of the timer that goes on with draining.
const DRAIN: &str = "drain";
/// How long to wait before a member that could not be reached is told again to go.
const DRAIN_AGAIN: Duration = Duration::from_secs(1);
/// The name of the reminder that goes on with what a new size calls for.
const SETTLE: &str = "settle";
/// How often a coordinator is woken until all members know of a new size, in case that it was interrupted.
const SETTLE_CHECK: Duration = Duration::from_secs(30);
/// How many may wait until the pool has a size.
const RESIZES_WAITING_MAX: usize = 1024;
/// How many tokens of leases are taken at a time. Stored, so that none is given twice, whatever becomes of the coordinator.
const TOKENS_AT_A_TIME: u64 = 4096;

/// The actor that decides how large a pool is. There is one for each pool, by its key, and its word is stored.
///
/// It never waits for a member in a turn of its own, because members ask it before they open.
#[derive(Actor)]
#[actor(implements(Coordinator<R>), name = Names::<R>::COORDINATOR)]
pub struct PoolCoordinator<R: Resource> {
    plan: State<Plan>,
    resource: Provided<R>,
    settings: PoolSettings,
    /// There from activation on.
    leases: Option<Leases<Applicant>>,
    /// Who waits until the members that are to go are closed.
    resizing: Vec<Responder<View>>,
    /// The version for which members are being told to go.
    draining: Option<u64>,
    /// The version that members are being told.
    announcing: Option<u64>,
    /// When the timer for leases is due.
    armed: Option<Instant>,
    /// Since when no lease is held, while it is on record that some may be.
    idle_since: Option<Instant>,
    #[open(Ok(CoordinatorMetrics::of(R::NAME, ctx.id().as_text().unwrap_or_default())))]
    metrics: CoordinatorMetrics,
    ctx: Context,
}

/// Who waits for a lease.
struct Applicant {
    number: u64,
    responder: Responder<Grant>,
    since: Instant,
}

impl Applicant {
    fn waits(&self) -> bool {
        !self.responder.is_abandoned()
    }
}

/// What is stored of a pool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Plan {
    /// 0 before its first use.
    version: u64,
    size: u32,
    /// No member from this number on is open. Above the size while members are being drained.
    open_below: u32,
    /// The version that all members know of, or a later one.
    told: u64,
    /// Tokens up to this one may have been given.
    tokens: u64,
    /// Leases may be held. An older version has not said.
    #[serde(default = "perhaps")]
    has_leases: bool,
}

fn perhaps() -> bool {
    true
}

impl<R: Resource> PoolCoordinator<R> {
    fn now_view(&self) -> View {
        let Plan { version, size, .. } = *self.plan;
        View { version, size, coordination: self.settings.coordination, pick: self.settings.pick }
    }

    fn key(&self) -> Result<&str> {
        let id = self.ctx.id();
        id.as_text()
            .ok_or_else(|| Error::invalid(format!("{}({id}) is no pool: the id of a pool is its key, a text", R::NAME)))
    }

    fn member(&self, index: u32) -> Result<MemberRef<R>> {
        self.ctx.actor_named(Names::<R>::MEMBER, format!("{}/{index}", self.key()?))
    }

    fn leases(&mut self) -> Result<&mut Leases<Applicant>> {
        self.leases.as_mut().ok_or_else(|| Error::fatal("a coordinator has no leases before its activation"))
    }

    /// Tells members above the size to go, once their leases have ended.
    fn drain(&mut self) -> Result<()> {
        let Plan { version, size, open_below, .. } = *self.plan;
        if open_below <= size || self.draining == Some(version) || self.leases()?.is_departing() {
            return Ok(());
        }
        let members = (size..open_below).map(|index| self.member(index)).collect::<Result<Vec<_>>>()?;
        self.ctx.then(retire(members, version), Self::drained)?;
        self.draining = Some(version);
        Ok(())
    }

    async fn drained(&mut self, (version, outcome): (u64, Result<()>)) -> Result<()> {
        if version != self.plan.version {
            // Another size has been asked for since, and its own drain is under way.
            return Ok(());
        }
        self.draining = None;
        if let Err(error) = outcome {
            tracing::warn!(pool = %self.ctx.id(), ?error, "a member of a pool that is to go cannot be reached yet");
            return self.ctx.set_timer(DRAIN, DRAIN_AGAIN, None, Self::drain_again).map(drop);
        }
        self.plan.open_below = self.plan.size;
        let view = self.now_view();
        self.resizing.drain(..).for_each(|responder| responder.respond(Ok(view)));
        self.sleep_if_settled()
    }

    async fn drain_again(&mut self) -> Result<()> {
        self.drain()
    }

    /// Tells members the version of the size, for callers that go by an older one and would not hear of new members.
    fn announce(&mut self) -> Result<()> {
        let Plan { version, size, told, .. } = *self.plan;
        if told >= version || self.announcing == Some(version) {
            return Ok(());
        }
        let members = (0..size).map(|index| self.member(index)).collect::<Result<Vec<_>>>()?;
        self.ctx.then(tell(members, version), Self::announced)?;
        self.announcing = Some(version);
        Ok(())
    }

    async fn announced(&mut self, (version, outcome): (u64, Result<()>)) -> Result<()> {
        self.announcing = self.announcing.filter(|announcing| *announcing != version);
        if let Err(error) = outcome {
            tracing::warn!(pool = %self.ctx.id(), ?error, "a member of a pool cannot be told of its size yet");
            return Ok(());
        }
        self.plan.told = self.plan.told.max(version);
        self.sleep_if_settled()
    }

    fn is_settled(&self) -> bool {
        self.plan.open_below <= self.plan.size && self.plan.told >= self.plan.version
    }

    /// Ends the reminder, if there is nothing left to go on with.
    fn sleep_if_settled(&self) -> Result<()> {
        if self.is_settled() {
            self.ctx.cancel_reminder(SETTLE)?;
        }
        Ok(())
    }

    /// Does what a new size calls for. To be the last thing in a turn: what it begins is noted as begun.
    fn settle(&mut self) -> Result<()> {
        if let Err(error) = self.announce() {
            // The reminder comes back to it.
            tracing::warn!(pool = %self.ctx.id(), ?error, "the members of a pool cannot be told of its size yet");
        }
        self.drain()
    }

    /// Gives members to those who wait, and ends leases whose time is over.
    fn attend(&mut self) -> Result<()> {
        let now = lease::now();
        let Some(leases) = &mut self.leases else { return Ok(()) };
        let is_leasing = self.settings.coordination == Coordination::Server;
        if is_leasing && leases.next_token() + u64::from(self.plan.size) > self.plan.tokens {
            self.plan.tokens = leases.next_token() + u64::from(self.plan.size) + TOKENS_AT_A_TIME;
        }
        let Work { granted, revocations, next } = leases.attend(now, Applicant::waits);
        let (time, is_any_held) = (self.settings.leases.time, leases.is_any_held());
        let next = [next, self.note_leases(is_any_held, now)].into_iter().flatten().min();
        for grant in granted {
            self.metrics.wait.record(now.saturating_duration_since(grant.waiter.since).as_secs_f64());
            grant.waiter.responder.respond(Ok(Grant { index: grant.index, token: grant.token, time }));
        }
        for revocation in revocations {
            let member = self.member(revocation.index)?.with_timeout(REVOKE_TIME_MAX);
            self.ctx.then(revoke(member, revocation), Self::revoked)?;
        }
        if let Some(next) = next.filter(|next| self.armed.is_none_or(|armed| armed <= now || *next < armed)) {
            self.ctx.set_timer(LEASES, next - now, None, Self::look_at_leases)?;
            self.armed = Some(next);
        }
        self.measure();
        self.settle()
    }

    fn measure(&mut self) {
        let Some(leases) = &self.leases else { return };
        self.metrics.size.set(self.plan.size.into());
        self.metrics.leased.set(leases.leased() as u64);
        self.metrics.waiting.set(leases.in_line() as u64);
    }

    /// Has on record whether leases may be held, for whoever is activated next: before the first is given, and until none has
    /// been for as long as one lasts, so that a pool in use does not store it for each. Returns when to look again.
    fn note_leases(&mut self, is_any_held: bool, now: Instant) -> Option<Instant> {
        if is_any_held {
            self.idle_since = None;
            if !self.plan.has_leases {
                self.plan.has_leases = true;
            }
            return None;
        }
        if !self.plan.has_leases {
            return None;
        }
        let until = *self.idle_since.get_or_insert(now) + self.settings.leases.time;
        if until > now {
            return Some(until);
        }
        self.idle_since = None;
        self.plan.has_leases = false;
        None
    }

    async fn look_at_leases(&mut self) -> Result<()> {
        self.armed = None;
        self.attend()
    }

    async fn revoked(&mut self, (index, was_told): (u32, bool)) -> Result<()> {
        self.leases()?.revoked(index, was_told, lease::now());
        self.attend()
    }
}

/// Tells members to go, and waits until they have closed.
async fn retire<R: Resource>(members: Vec<MemberRef<R>>, version: u64) -> (u64, Result<()>) {
    let told = members.into_iter().map(|member| async move {
        let member = member.with_timeout(DRAIN_TIME_MAX);
        member.retire(version).await
    });
    (version, try_join_all(told).await.map(drop))
}

/// Tells members of a version.
async fn tell<R: Resource>(members: Vec<MemberRef<R>>, version: u64) -> (u64, Result<()>) {
    let told = members.into_iter().map(|member| async move {
        let member = member.with_timeout(DRAIN_TIME_MAX);
        member.hear(version).await
    });
    (version, try_join_all(told).await.map(drop))
}

/// Tells a member that leases are over. The answer is whether it has heard.
async fn revoke<R: Resource>(member: MemberRef<R>, revocation: Revocation) -> (u32, bool) {
    let told = member.revoke(revocation.token).await;
    if let Err(error) = &told {
        tracing::warn!(?member, ?error, "a member of a pool whose lease has expired cannot be reached yet");
    }
    (revocation.index, told.is_ok())
}

impl<R: Resource> Lifecycle for PoolCoordinator<R> {
    async fn activate(&mut self) -> Result<()> {
        self.key()?;
        self.settings = pool_settings(&*self.resource, self.ctx.services())?;
        if self.plan.version == 0 {
            let size = self.settings.initial_size;
            *self.plan = Plan { version: 1, size, open_below: size, told: 1, tokens: 0, has_leases: false };
        }
        let (Plan { size, open_below, tokens, has_leases, .. }, now) = (*self.plan, lease::now());
        let mut leases = Leases::new(self.settings.leases, size, tokens + 1, now);
        if has_leases && tokens > 0 {
            leases.inherit(open_below, now);
        }
        self.leases = Some(leases);
        // What was interrupted.
        self.attend()
    }
}

impl<R: Resource> Remindable for PoolCoordinator<R> {
    async fn remind(&mut self, reminder: Reminder) -> Result<()> {
        match self.is_settled() {
            true => self.ctx.cancel_reminder(&reminder.name).map(drop),
            false => self.attend(),
        }
    }
}

impl<R: Resource> Coordinator<R> for PoolCoordinator<R> {
    async fn view(&self) -> Result<View> {
        Ok(self.now_view())
    }

    async fn admit(&self, index: u32) -> Result<Admission> {
        Ok(Admission { is_member: index < self.plan.size, version: self.plan.version })
    }

    async fn resize(&mut self, size: u32) -> Result<Deferred<View>> {
        check_size(size)?;
        self.resizing.retain(|earlier| !earlier.is_abandoned());
        if self.resizing.len() >= RESIZES_WAITING_MAX {
            let text = format!("{RESIZES_WAITING_MAX} wait for the pool to be resized already: ask again later");
            return Err(Error::new(ErrorKind::Overloaded, text));
        }
        let (answer, responder) = deferred();
        if size != self.plan.size {
            for earlier in self.resizing.drain(..) {
                let text = format!("another size was asked for meanwhile: the pool is resized to {size}");
                earlier.respond(Err(Error::new(ErrorKind::Conflict, text)));
            }
            let Plan { version, size: before, open_below, .. } = *self.plan;
            let open_below = open_below.max(before).max(size);
            *self.plan = Plan { version: version + 1, size, open_below, ..*self.plan };
            self.leases()?.resize(size, lease::now());
            self.ctx.remind(SETTLE).after(SETTLE_CHECK).every(SETTLE_CHECK).set()?;
        }
        match self.plan.open_below > size {
            true => self.resizing.push(responder),
            false => responder.respond(Ok(self.now_view())),
        }
        self.attend()?;
        Ok(answer)
    }

    async fn acquire(&mut self, priority: Priority, applicant: u64) -> Result<Deferred<Grant>> {
        if self.settings.coordination != Coordination::Server {
            return Err(Error::invalid(format!(
                "pool {:?} of {} is coordinated by its callers and leases nothing: use `run`, or set its coordination to \
                 `Server`",
                self.key()?,
                R::NAME
            )));
        }
        let (answer, responder) = deferred();
        let applicant = Applicant { number: applicant, responder, since: lease::now() };
        let has_joined = self.leases()?.join(applicant, priority, lease::now(), Applicant::waits);
        if !has_joined {
            let (key, waiting_max) = (self.key()?, self.settings.leases.waiting_max);
            let text = format!("waiting_max of {waiting_max} callers wait for a member of pool {key:?}: slow down");
            return Err(Error::new(ErrorKind::Overloaded, text));
        }
        self.attend()?;
        Ok(answer)
    }

    async fn withdraw(&mut self, applicant: u64) -> Result<()> {
        self.leases()?.leave(|waiter| waiter.number == applicant);
        self.measure();
        Ok(())
    }

    async fn renew(&mut self, index: u32, token: u64) -> Result<Option<Duration>> {
        Ok(self.leases()?.renew(index, token, lease::now()))
    }

    async fn release(&mut self, index: u32, token: u64, rest: Duration) -> Result<()> {
        self.leases()?.release(index, token, rest, lease::now());
        self.attend()
    }

    async fn is_current(&mut self, index: u32, token: u64) -> Result<bool> {
        Ok(self.leases()?.is_current(index, token))
    }

    async fn status(&self) -> Result<CoordinatorStatus> {
        let (leased, waiting) = match &self.leases {
            Some(leases) => (leases.leased(), leases.waiting().filter(|waiter| waiter.waits()).count()),
            None => (0, 0),
        };
        Ok(CoordinatorStatus { view: self.now_view(), open_below: self.plan.open_below, leased, waiting })
    }
}
