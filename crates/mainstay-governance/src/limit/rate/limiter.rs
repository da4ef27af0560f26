use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use mainstay::prelude::*;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::super::concurrency::Limiters;
use super::super::{LEASE, LimiterSettings, check_name};
use super::actor::RateLimitingRef;
use super::bucket::Request;
use super::pool::{Plan, Pool, too_many};
use super::rate_limit::RateLimit;
use crate::as_services::AsServices;
use crate::lease;
use crate::metric::LimitMetrics;
use crate::settings::{LIMITS, in_force};
use crate::unserved::unserved;

/// How long to wait after a call that has failed.
const PAUSE: Duration = Duration::from_millis(100);

/// A rate that all who open it by its name keep together. Cheap to clone: open one for a process, and share it. See the
/// [module](crate::limit) for what holds.
#[derive(Clone)]
pub struct RateLimiter {
    shared: Arc<Shared>,
}

struct Shared {
    name: String,
    holder: String,
    actor: RateLimitingRef,
    /// The same, for requests: what is given later than this could not be used any more.
    asking: RateLimitingRef,
    settings: LimiterSettings,
    pool: Mutex<Pool>,
    bell: Arc<Notify>,
    metrics: LimitMetrics,
}

impl fmt::Debug for RateLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RateLimiter({:?})", self.shared.name)
    }
}

impl RateLimiter {
    /// Opens the limit of a name. If there is none yet, it is this; one that there is stays as it is: see
    /// [`set_limit`](RateLimiter::set_limit).
    ///
    /// # Errors
    /// `Invalid` for a name or limit that cannot be; `NotFound` if the node does not serve limits
    /// ([`serve`](crate::limit::serve)); those of a call.
    pub async fn open(node: &impl AsServices, name: &str, limit: RateLimit) -> Result<Self> {
        Self::open_with(node, name, limit, LimiterSettings::default()).await
    }

    /// As [`open`](RateLimiter::open), with settings.
    ///
    /// # Errors
    /// As there.
    pub async fn open_with(
        node: &impl AsServices,
        name: &str,
        limit: RateLimit,
        settings: LimiterSettings,
    ) -> Result<Self> {
        check_name(name)?;
        let settings = in_force(node.services(), LIMITS, name, settings)?;
        let served = node.services().actor(name);
        let actor: RateLimitingRef =
            served.map_err(unserved(format_args!("rate limit `{name}`"), "limit", "limit::serve(builder)"))?;
        let limit = actor.create_if_absent(limit).await?;
        let labels = node.services().provided::<Limiters>().ok();
        let pool = Pool::new(limit, settings.waiting_max, lease::now());
        let holder = format!("{:032x}", rand::random::<u128>());
        let shared = Arc::new(Shared {
            name: name.to_owned(),
            holder,
            asking: actor.with_timeout(LEASE),
            actor,
            settings,
            pool: Mutex::new(pool),
            bell: Arc::new(Notify::new()),
            metrics: LimitMetrics::of("rate", name, labels.as_deref().map(Limiters::labels)),
        });
        tokio::spawn(keep(Arc::downgrade(&shared), shared.bell.clone()));
        Ok(Self { shared })
    }

    /// Waits for permits, first come, first served, for as long as the settings say. Once it has returned they are used.
    /// Giving up waiting costs nothing, unless they come at that very moment.
    ///
    /// # Errors
    /// `Timeout` if they did not come in time; `Overloaded` if too many wait already; `Invalid` for more than there can
    /// ever be; `Fatal` once the node has stopped. Nothing was taken then.
    pub async fn acquire(&self, permits: u64) -> Result<()> {
        self.acquire_within(permits, self.shared.settings.wait_max).await
    }

    /// Waits for permits for so long at most.
    ///
    /// # Errors
    /// As [`acquire`](RateLimiter::acquire).
    pub async fn acquire_within(&self, permits: u64, time: Duration) -> Result<()> {
        let acquired = self.acquire_uncounted(permits, time).await;
        self.shared.metrics.count(permits, acquired.is_ok());
        acquired
    }

    async fn acquire_uncounted(&self, permits: u64, time: Duration) -> Result<()> {
        let now = lease::now();
        let place = {
            let mut pool = self.shared.pool.lock();
            if permits > pool.limit.burst {
                return Err(too_many(permits, &pool.limit));
            }
            if pool.try_take(permits, now) {
                drop(pool);
                // It may be time to ask for more.
                self.shared.bell.notify_one();
                return Ok(());
            }
            pool.line.join(permits)?
        };
        self.shared.bell.notify_one();
        let _waiting = self.shared.metrics.wait();
        place.served(&self.shared.name, time).await
    }

    /// Takes permits if they are in this process and nobody waits before; asks nobody. If they are not, some are fetched
    /// for the next time.
    pub fn try_acquire(&self, permits: u64) -> bool {
        let mut pool = self.shared.pool.lock();
        let is_taken = pool.try_take(permits, lease::now());
        if !is_taken {
            let wanted = permits.min(pool.limit.burst);
            pool.miss(wanted);
        }
        drop(pool);
        self.shared.metrics.count(permits, is_taken);
        self.shared.bell.notify_one();
        is_taken
    }

    /// The limit, as this process last heard of it.
    pub fn limit(&self) -> RateLimit {
        self.shared.pool.lock().limit
    }

    /// Changes the limit for everybody. It holds from when this returns for what is given then.
    ///
    /// # Errors
    /// `Invalid` for a limit that cannot be; those of a call.
    pub async fn set_limit(&self, limit: RateLimit) -> Result<()> {
        self.shared.actor.set_limit(limit).await?;
        self.shared.pool.lock().learn(limit);
        Ok(())
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Wakes the keeper, which ends then.
        self.bell.notify_one();
        let (actor, holder, request) = (self.asking.clone(), self.holder.clone(), self.pool.get_mut().close());
        // What is here goes back, if there is anybody to do so; otherwise it runs out.
        if let (false, Ok(runtime)) = (request.done.is_empty(), tokio::runtime::Handle::try_current()) {
            runtime.spawn(async move { actor.ask(holder, request).await });
        }
    }
}

/// Sees to it that there are permits while anybody uses the limiter.
async fn keep(shared: Weak<Shared>, bell: Arc<Notify>) {
    loop {
        let Some(held) = shared.upgrade() else { return };
        let plan = held.pool.lock().plan(lease::now());
        match plan {
            Plan::Ask(request) => {
                if ask(&held, request).await.is_break() {
                    return;
                }
            }
            Plan::Wait(until) => {
                drop(held);
                tokio::select! {
                    () = bell.notified() => {}
                    () = tokio::time::sleep(until.saturating_duration_since(lease::now())) => {}
                }
            }
        }
    }
}

async fn ask(shared: &Shared, request: Request) -> std::ops::ControlFlow<()> {
    let asked = lease::now();
    let answer = shared.asking.ask(shared.holder.clone(), request.clone()).await;
    let now = lease::now();
    let mut pool = shared.pool.lock();
    match answer {
        Ok(share) => pool.receive(share, asked, now),
        Err(error) if error.kind() == ErrorKind::Fatal => {
            pool.line.end(error.to_string());
            return std::ops::ControlFlow::Break(());
        }
        Err(error) => {
            tracing::warn!(limit = shared.name, ?error, "no permits could be asked for, will be tried again");
            pool.failed(request, PAUSE, now);
        }
    }
    std::ops::ControlFlow::Continue(())
}
