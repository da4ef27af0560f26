use std::fmt;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use mainstay::actor::Events;
use mainstay::prelude::*;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::super::{LEASE_MAX, LEASE_MIN, LimiterSettings, check_name};
use super::actor::{ConcurrencyLimitingRef, SharesWanted};
use super::desk::{Desk, too_many};
use super::limiters::Limiters;
use super::permit::Permit;
use crate::as_services::AsServices;
use crate::lease;
use crate::metric::LimitMetrics;
use crate::settings::{LIMITS, in_force};
use crate::unserved::unserved;

/// A number of permits that all who open it by its name share. Cheap to clone and to open: those of one name on one node are
/// one. See the [module](crate::limit) for what holds.
#[derive(Clone)]
pub struct ConcurrencyLimiter {
    shared: Arc<LimiterCore>,
    settings: LimiterSettings,
    _use: Arc<Use>,
}

pub(super) struct LimiterCore {
    name: String,
    holder: String,
    actor: ConcurrencyLimitingRef,
    desk: Mutex<Desk>,
    bell: Notify,
    /// How many limiters use it.
    uses: AtomicUsize,
    /// Those of its node, where it is to be found until its keeper has ended.
    limiters: Weak<Limiters>,
    metrics: LimitMetrics,
}

/// A limiter and its clones. The keeper ends after the last of them, when no permit is out.
struct Use(Arc<LimiterCore>);

impl Use {
    fn of(shared: &Arc<LimiterCore>) -> Arc<Self> {
        shared.uses.fetch_add(1, Ordering::SeqCst);
        Arc::new(Self(shared.clone()))
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        self.0.uses.fetch_sub(1, Ordering::SeqCst);
        self.0.bell.notify_one();
    }
}

impl fmt::Debug for ConcurrencyLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ConcurrencyLimiter({:?})", self.shared.name)
    }
}

impl ConcurrencyLimiter {
    /// Opens the limit of a name. If there is none yet, it is this; one that there is stays as it is: see
    /// [`set_limit`](ConcurrencyLimiter::set_limit).
    ///
    /// # Errors
    /// `Invalid` for a name or limit that cannot be; `NotFound` if the node does not serve limits
    /// ([`serve`](crate::limit::serve)); those of a call.
    pub async fn open(node: &impl AsServices, name: &str, limit: u64) -> Result<Self> {
        Self::open_with(node, name, limit, LimiterSettings::default()).await
    }

    /// As [`open`](ConcurrencyLimiter::open), with settings.
    ///
    /// # Errors
    /// As there.
    pub async fn open_with(node: &impl AsServices, name: &str, limit: u64, settings: LimiterSettings) -> Result<Self> {
        check_name(name)?;
        let settings = in_force(node.services(), LIMITS, name, settings)?;
        let served = node.services().actor(name);
        let actor: ConcurrencyLimitingRef =
            served.map_err(unserved(format_args!("concurrency limit `{name}`"), "limit", "limit::serve(builder)"))?;
        let LimiterSettings { waiting_max, lease, .. } = settings;
        if !(LEASE_MIN..=LEASE_MAX).contains(&lease) {
            return Err(Error::invalid(format!(
                "the lease of limit {name:?} is {lease:?}: use {LEASE_MIN:?} to {LEASE_MAX:?}"
            )));
        }
        let events = actor.events::<SharesWanted>()?;
        let limit = actor.create_if_absent(limit).await?;
        let limiters = node.services().provided::<Limiters>().ok();
        let make = || {
            Arc::new(LimiterCore {
                name: name.to_owned(),
                holder: format!("{:032x}", rand::random::<u128>()),
                actor: actor.clone(),
                desk: Mutex::new(Desk::new(limit, waiting_max, lease, lease::now())),
                bell: Notify::new(),
                uses: AtomicUsize::new(0),
                limiters: limiters.as_ref().map_or_else(Weak::new, Arc::downgrade),
                metrics: LimitMetrics::of("concurrency", name, limiters.as_deref().map(Limiters::labels)),
            })
        };
        let (shared, in_use, is_new) = match &limiters {
            Some(limiters) => limiters.one(name, make, Use::of),
            None => {
                let shared = make();
                (shared.clone(), Use::of(&shared), true)
            }
        };
        if is_new {
            tokio::spawn(keep(shared.clone(), events));
        } else {
            let mut desk = shared.desk.lock();
            desk.lease = desk.lease.min(lease);
            desk.learn(limit);
        }
        Ok(Self { shared, settings, _use: in_use })
    }

    /// Waits for permits, first come, first served, for as long as the settings say. They are back when what this returns is
    /// dropped.
    ///
    /// # Errors
    /// `Timeout` if they did not come in time; `Overloaded` if too many wait already; `Invalid` for more than there can
    /// ever be; `Fatal` once the node has stopped. Nothing was taken then.
    pub async fn acquire(&self, permits: u64) -> Result<Permit> {
        self.acquire_within(permits, self.settings.wait_max).await
    }

    /// Waits for permits for so long at most.
    ///
    /// # Errors
    /// As [`acquire`](ConcurrencyLimiter::acquire).
    pub async fn acquire_within(&self, permits: u64, time: Duration) -> Result<Permit> {
        let acquired = self.acquire_uncounted(permits, time).await;
        self.shared.metrics.count(permits, acquired.is_ok());
        acquired
    }

    async fn acquire_uncounted(&self, permits: u64, time: Duration) -> Result<Permit> {
        let place = {
            let mut desk = self.shared.desk.lock();
            if permits > desk.limit {
                return Err(too_many(permits, desk.limit));
            }
            if desk.line.is_empty()
                && let Some(lease) = desk.till.take(permits, lease::now())
            {
                return Ok(Permit::new(self.shared.clone(), permits, lease));
            }
            desk.line.join_within(permits, self.settings.waiting_max)?
        };
        self.shared.bell.notify_one();
        let _waiting = self.shared.metrics.wait();
        place.served(&self.shared.name, time).await
    }

    /// Takes permits if the share of this process has so many and nobody waits before; asks nobody. If it
    /// has not, some are fetched for the next time.
    pub fn try_acquire(&self, permits: u64) -> Option<Permit> {
        let mut desk = self.shared.desk.lock();
        let lease = if desk.line.is_empty() { desk.till.take(permits, lease::now()) } else { None };
        if lease.is_none() {
            let wanted = permits.min(desk.limit);
            desk.till.miss(wanted);
            self.shared.bell.notify_one();
        }
        self.shared.metrics.count(permits, lease.is_some());
        lease.map(|lease| Permit::new(self.shared.clone(), permits, lease))
    }

    /// The limit, as this process last heard of it.
    pub fn limit(&self) -> u64 {
        self.shared.desk.lock().limit
    }

    /// Changes the limit for everybody. If it is lower, nothing is given until enough is back: at once in this process, in
    /// others when they hear of it, which is at their next renewal at the latest.
    ///
    /// # Errors
    /// `Invalid` for a limit that cannot be; those of a call.
    pub async fn set_limit(&self, limit: u64) -> Result<()> {
        self.shared.actor.set_limit(limit).await?;
        self.shared.desk.lock().learn(limit);
        Ok(())
    }
}

impl LimiterCore {
    /// How long a lease of this process is good.
    pub(super) fn left_of(&self, lease: u64) -> Duration {
        self.desk.lock().till.left_of(lease, lease::now())
    }

    /// True if no limiter uses it, and nothing of it is out or wanted.
    pub(super) fn is_done(&self) -> bool {
        self.uses.load(Ordering::SeqCst) == 0 && !self.desk.lock().has_news()
    }

    /// Takes permits back, and serves who waits.
    pub(super) fn put(shared: &Arc<Self>, permits: u64) {
        let is_wanted = {
            let mut desk = shared.desk.lock();
            desk.till.put(permits);
            desk.owes()
        };
        Self::serve(shared);
        if is_wanted {
            shared.bell.notify_one();
        }
    }

    /// Serves who waits, as far as the share goes.
    fn serve(shared: &Arc<Self>) {
        let now = lease::now();
        let undelivered = {
            let mut desk = shared.desk.lock();
            let Desk { line, till, .. } = &mut *desk;
            line.serve(|permits| till.take(permits, now).map(|lease| Permit::new(shared.clone(), permits, lease)))
        };
        // Their dropping locks again.
        drop(undelivered);
    }
}

/// Keeps the share of a process, and what others want of it, up to date.
async fn keep(shared: Arc<LimiterCore>, mut events: Events<SharesWanted>) {
    loop {
        // Whoever opens one by its name now finds it, or has found it before.
        let is_done = match shared.limiters.upgrade() {
            Some(limiters) => limiters.forget_if_done(&shared.name, &shared),
            None => shared.is_done(),
        };
        if is_done {
            break;
        }
        let has_news = shared.desk.lock().has_news();
        if has_news {
            match renew(&shared).await {
                ControlFlow::Break(()) => return,
                // What comes back is to be said at once.
                ControlFlow::Continue(Heard::Yes) if shared.desk.lock().owes() => continue,
                ControlFlow::Continue(_) => {}
            }
        }
        let length = shared.desk.lock().lease;
        let renewal = tokio::time::sleep(lease::renewal_pause(length));
        tokio::select! {
            () = shared.bell.notified() => {}
            () = renewal => {}
            () = wanted(&mut events, &shared.holder) => {}
        }
    }
    // If it does not arrive, the lease runs out.
    let lease = shared.desk.lock().lease;
    drop(shared.actor.with_timeout(lease).leave(shared.holder.clone()).await);
}

/// Returns when the process is to renew its share at once.
async fn wanted(events: &mut Events<SharesWanted>, holder: &str) {
    loop {
        match events.next().await {
            Ok(received) if received.missed == 0 && received.event.holder.as_ref().is_some_and(|it| it != holder) => {}
            Ok(_) => return,
            // The next renewal is told as well.
            Err(error) if error.kind() == ErrorKind::Fatal => return std::future::pending().await,
            Err(_) => {}
        }
    }
}

/// Whether the actor has heard of a renewal.
enum Heard {
    Yes,
    No,
}

async fn renew(shared: &Arc<LimiterCore>) -> ControlFlow<(), Heard> {
    let asked = lease::now();
    let report = shared.desk.lock().report();
    // What comes later than this is of no use.
    let asking = shared.actor.with_timeout(report.lease());
    match asking.renew(shared.holder.clone(), report).await {
        Ok(share) => {
            shared.desk.lock().receive(share, report, asked, lease::now());
            LimiterCore::serve(shared);
            ControlFlow::Continue(Heard::Yes)
        }
        Err(error) if error.kind() == ErrorKind::Fatal => {
            if let Some(limiters) = shared.limiters.upgrade() {
                limiters.forget(&shared.name);
            }
            shared.desk.lock().line.end(error.to_string());
            ControlFlow::Break(())
        }
        Err(error) => {
            tracing::warn!(limit = shared.name, ?error, "a share could not be renewed, will be tried again");
            ControlFlow::Continue(Heard::No)
        }
    }
}
