use std::fmt;
use std::ops::ControlFlow;
use std::sync::{Arc, Weak};
use std::time::Duration;

use mainstay::actor::Events;
use mainstay::prelude::*;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::super::{LEASE, LimiterSettings, check_name};
use super::actor::{ConcurrencyLimitingRef, SharesWanted};
use super::desk::{Desk, too_many};
use super::permit::Permit;
use crate::reach::Reach;

/// How often a lease is renewed within its length, so that one renewal may be lost without consequence.
const RENEWALS_PER_LEASE: u32 = 3;

/// A number of permits that all who open it by its name share. Cheap to clone: open one for a process, and share it. See
/// the [module](crate::limit) for what holds.
#[derive(Clone)]
pub struct ConcurrencyLimiter {
    shared: Arc<Shared>,
    /// Ends the keeper with the last limiter, though permits may still be out.
    _use: Arc<Use>,
}

pub(super) struct Shared {
    name: String,
    holder: String,
    actor: ConcurrencyLimitingRef,
    /// The same, for renewals.
    asking: ConcurrencyLimitingRef,
    settings: LimiterSettings,
    desk: Mutex<Desk>,
    bell: Arc<Notify>,
}

/// The limiters of a process that share a share.
struct Use {
    bell: Arc<Notify>,
}

impl Drop for Use {
    fn drop(&mut self) {
        self.bell.notify_one();
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
    pub async fn open(node: &impl Reach, name: &str, limit: u64) -> Result<Self> {
        Self::open_with(node, name, limit, LimiterSettings::default()).await
    }

    /// As [`open`](ConcurrencyLimiter::open), with settings.
    ///
    /// # Errors
    /// As there.
    pub async fn open_with(node: &impl Reach, name: &str, limit: u64, settings: LimiterSettings) -> Result<Self> {
        check_name(name)?;
        let actor: ConcurrencyLimitingRef = node.services().actor(name)?;
        let events = actor.events::<SharesWanted>()?;
        let limit = actor.found(limit).await?;
        let bell = Arc::new(Notify::new());
        let shared = Arc::new(Shared {
            name: name.to_owned(),
            holder: format!("{:032x}", rand::random::<u128>()),
            asking: actor.with_timeout(LEASE),
            actor,
            desk: Mutex::new(Desk::new(limit, settings.waiting_max, Instant::now())),
            settings,
            bell: bell.clone(),
        });
        let in_use = Arc::new(Use { bell });
        tokio::spawn(keep(shared.clone(), Arc::downgrade(&in_use), events));
        Ok(Self { shared, _use: in_use })
    }

    /// Waits for permits, first come, first served, for as long as the settings say. They are back when what this returns is
    /// dropped.
    ///
    /// # Errors
    /// `Timeout` if they did not come in time; `Overloaded` if too many wait already; `Invalid` for more than there can
    /// ever be; `Fatal` once the node has stopped. Nothing was taken then.
    pub async fn acquire(&self, permits: u64) -> Result<Permit> {
        self.acquire_within(permits, self.shared.settings.wait_max).await
    }

    /// Waits for permits for so long at most.
    ///
    /// # Errors
    /// As [`acquire`](ConcurrencyLimiter::acquire).
    pub async fn acquire_within(&self, permits: u64, time: Duration) -> Result<Permit> {
        let place = {
            let mut desk = self.shared.desk.lock();
            if permits > desk.limit {
                return Err(too_many(permits, desk.limit));
            }
            if desk.line.is_empty() && desk.till.take(permits, Instant::now()) {
                return Ok(Permit::new(self.shared.clone(), permits));
            }
            desk.line.join(permits)?
        };
        self.shared.bell.notify_one();
        place.served(&self.shared.name, time).await
    }

    /// Takes permits if the share of this process has so many and nobody waits before; asks nobody. If it
    /// has not, some are fetched for the next time.
    pub fn try_acquire(&self, permits: u64) -> Option<Permit> {
        let mut desk = self.shared.desk.lock();
        let is_taken = desk.line.is_empty() && desk.till.take(permits, Instant::now());
        if !is_taken {
            let wanted = permits.min(desk.limit);
            desk.till.miss(wanted);
            self.shared.bell.notify_one();
        }
        is_taken.then(|| Permit::new(self.shared.clone(), permits))
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

impl Shared {
    pub(super) fn valid_until(&self) -> Instant {
        self.desk.lock().till.valid_until
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
        let now = Instant::now();
        let undelivered = {
            let mut desk = shared.desk.lock();
            let Desk { line, till, .. } = &mut *desk;
            line.serve(|permits| till.take(permits, now).then(|| Permit::new(shared.clone(), permits)))
        };
        // Their dropping locks again.
        drop(undelivered);
    }
}

/// Keeps the share of a process, and what others want of it, up to date.
async fn keep(shared: Arc<Shared>, in_use: Weak<Use>, mut events: Events<SharesWanted>) {
    loop {
        let is_used = in_use.strong_count() > 0;
        let has_news = shared.desk.lock().has_news();
        if !is_used && !has_news {
            break;
        }
        if has_news {
            match renew(&shared).await {
                ControlFlow::Break(()) => return,
                // What comes back is to be said at once.
                ControlFlow::Continue(Heard::Yes) if shared.desk.lock().owes() => continue,
                ControlFlow::Continue(_) => {}
            }
        }
        let renewal = tokio::time::sleep(LEASE / RENEWALS_PER_LEASE);
        tokio::select! {
            () = shared.bell.notified() => {}
            () = renewal => {}
            () = wanted(&mut events, &shared.holder) => {}
        }
    }
    // If it does not arrive, the lease runs out.
    drop(shared.asking.leave(shared.holder.clone()).await);
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

async fn renew(shared: &Arc<Shared>) -> ControlFlow<(), Heard> {
    let asked = Instant::now();
    let report = shared.desk.lock().report();
    match shared.asking.renew(shared.holder.clone(), report).await {
        Ok(share) => {
            shared.desk.lock().receive(share, report, asked);
            Shared::serve(shared);
            ControlFlow::Continue(Heard::Yes)
        }
        Err(error) if error.kind() == ErrorKind::Fatal => {
            shared.desk.lock().line.end(error.to_string());
            ControlFlow::Break(())
        }
        Err(error) => {
            tracing::warn!(limit = shared.name, ?error, "a share could not be renewed, will be tried again");
            ControlFlow::Continue(Heard::No)
        }
    }
}
