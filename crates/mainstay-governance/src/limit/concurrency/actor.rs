use std::time::Duration;

use mainstay::prelude::*;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::super::LEASE;
use super::shares::{Nudge, PERMITS_MAX, Report, Share, Shares};
use crate::lease;

/// The timer by which is seen that leases have run out, that nothing is out any more, and that this process stood still.
const LOOK: &str = "look";

/// How often it comes while shares are out.
const LOOK_PERIOD: Duration = Duration::from_millis(LEASE.as_millis() as u64 / 4);

/// What is published when processes are to renew their shares at once.
#[derive(Debug, Clone, Event, Serialize, Deserialize)]
pub(super) struct SharesWanted {
    /// The one that there is enough for now; all if there is none.
    pub(super) holder: Option<String>,
}

/// One concurrency limit of the cluster. Its id is the limit's name.
#[interface]
pub(crate) trait ConcurrencyLimiting {
    /// Makes the limit, if there is none yet.
    async fn create_if_absent(&mut self, limit: u64) -> Result<u64>;

    /// Answers a process that renews its share.
    async fn renew(&mut self, holder: String, report: Report) -> Result<Share>;

    /// Forgets a process whose permits are all back.
    async fn leave(&mut self, holder: String) -> Result<()>;

    /// Changes the limit.
    async fn set_limit(&mut self, limit: u64) -> Result<()>;
}

#[derive(Actor)]
#[actor(implements(ConcurrencyLimiting), name = "mainstay.ConcurrencyLimit")]
pub(crate) struct ConcurrencyLimitActor {
    limit: State<Option<u64>>,
    /// True while shares may be out. Stored before the first is given.
    is_shared: State<bool>,
    /// The longest lease of a share that may be out, in milliseconds; 0 is [`LEASE`]. Stored before the first is given.
    lease_ms: State<u64>,
    shares: Option<Shares>,
    /// When it has last done something.
    active: Option<Instant>,
    ctx: Context,
}

impl Lifecycle for ConcurrencyLimitActor {
    async fn activate(&mut self) -> Result<()> {
        let now = lease::now();
        let lease = self.lease();
        self.shares = self.limit.map(|limit| match *self.is_shared {
            true => Shares::after_restart(limit, lease, now),
            false => Shares::new(limit, now),
        });
        if *self.is_shared {
            self.look_later()?;
        }
        Ok(())
    }
}

impl ConcurrencyLimiting for ConcurrencyLimitActor {
    async fn create_if_absent(&mut self, limit: u64) -> Result<u64> {
        check(limit)?;
        if let Some(known) = *self.limit {
            return Ok(known);
        }
        *self.limit = Some(limit);
        self.shares = Some(Shares::new(limit, lease::now()));
        Ok(limit)
    }

    async fn renew(&mut self, holder: String, report: Report) -> Result<Share> {
        let now = self.notice()?;
        let (share, nudge) = self.shares()?.renew(&holder, report, now)?;
        if share.permits > 0 {
            let is_longer = report.lease() > self.lease();
            // The share leaves when this is durable.
            if is_longer {
                *self.lease_ms = report.lease().as_millis() as u64;
            }
            if !*self.is_shared {
                *self.is_shared = true;
                self.look_later()?;
            }
        }
        self.publish(nudge)?;
        Ok(share)
    }

    async fn leave(&mut self, holder: String) -> Result<()> {
        let nudge = self.shares()?.leave(&holder);
        self.publish(nudge)
    }

    async fn set_limit(&mut self, limit: u64) -> Result<()> {
        check(limit)?;
        self.shares()?.set_limit(limit);
        *self.limit = Some(limit);
        self.ctx.publish(SharesWanted { holder: None })
    }
}

impl ConcurrencyLimitActor {
    fn shares(&mut self) -> Result<&mut Shares> {
        let id = self.ctx.id().clone();
        self.shares.as_mut().ok_or_else(|| {
            Error::new(ErrorKind::NotFound, format!("limit {id} does not exist: open it with a limit first"))
        })
    }

    fn publish(&self, nudge: Nudge) -> Result<()> {
        match nudge {
            Nudge::Nobody => Ok(()),
            Nudge::First(holder) => self.ctx.publish(SharesWanted { holder: Some(holder) }),
            Nudge::All => self.ctx.publish(SharesWanted { holder: None }),
        }
    }

    /// The longest lease of a share that may be out.
    fn lease(&self) -> Duration {
        Duration::from_millis(*self.lease_ms).max(LEASE)
    }

    /// The time. While shares are out a timer comes every [`LOOK_PERIOD`]: if it is late by as much, this process stood still,
    /// and whoever was to renew its share meanwhile may have as well.
    fn notice(&mut self) -> Result<Instant> {
        let now = lease::now();
        let last = self.active.replace(now);
        let stood_still = last.is_some_and(|last| now.saturating_duration_since(last) >= 2 * LOOK_PERIOD);
        if stood_still && *self.is_shared {
            self.shares()?.stood_still(now);
        }
        Ok(now)
    }

    fn look_later(&mut self) -> Result<()> {
        self.active = Some(lease::now());
        self.ctx.set_timer(LOOK, LOOK_PERIOD, Some(LOOK_PERIOD), Self::look).map(drop)
    }

    /// Sees to what leases that have run out leave behind, and notes that nothing is out, so that nobody has to wait for
    /// it after a restart.
    async fn look(&mut self) -> Result<()> {
        let now = self.notice()?;
        let nudge = self.shares()?.look(now);
        if self.shares()?.is_all_in(now) {
            *self.is_shared = false;
            *self.lease_ms = 0;
            self.ctx.cancel_timer(LOOK);
        }
        self.publish(nudge)
    }
}

fn check(limit: u64) -> Result<()> {
    if !(1..=PERMITS_MAX).contains(&limit) {
        return Err(Error::invalid(format!("a limit of {limit} permits cannot be: use 1 to {PERMITS_MAX}")));
    }
    Ok(())
}
