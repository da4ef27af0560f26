use mainstay::prelude::*;

use super::super::{LEASE, MARGIN};
use super::bucket::{Bucket, Request, Share};
use super::rate_limit::RateLimit;
use crate::lease;

/// The timer by which is seen that nothing is out any more.
const SETTLE: &str = "settle";

/// One rate limit of the cluster. Its id is the limit's name.
#[interface]
pub(crate) trait RateLimiting {
    /// Makes the limit, if there is none yet.
    async fn create_if_absent(&mut self, limit: RateLimit) -> Result<RateLimit>;

    /// Answers a process that wants permits.
    async fn ask(&mut self, holder: String, request: Request) -> Result<Share>;

    /// Changes the limit.
    async fn set_limit(&mut self, limit: RateLimit) -> Result<()>;
}

#[derive(Actor)]
#[actor(implements(RateLimiting), name = "mainstay.RateLimit")]
pub(crate) struct RateLimitActor {
    limit: State<Option<RateLimit>>,
    /// True while shares may be out. Stored before the first is given.
    is_shared: State<bool>,
    bucket: Option<Bucket>,
    ctx: Context,
}

impl Lifecycle for RateLimitActor {
    async fn activate(&mut self) -> Result<()> {
        let now = lease::now();
        self.bucket = self.limit.map(|limit| match *self.is_shared {
            true => Bucket::after_restart(limit, first_id(), now),
            // What there was in it is not known, but nothing of it is out.
            false => Bucket::empty(limit, first_id(), now),
        });
        if *self.is_shared {
            self.ctx.set_timer(SETTLE, LEASE + MARGIN, Some(LEASE), Self::settle)?;
        }
        Ok(())
    }
}

/// Ids that no earlier activation has given.
fn first_id() -> u64 {
    u64::from(rand::random::<u32>()) << 24
}

impl RateLimiting for RateLimitActor {
    async fn create_if_absent(&mut self, limit: RateLimit) -> Result<RateLimit> {
        limit.check()?;
        if let Some(known) = *self.limit {
            return Ok(known);
        }
        *self.limit = Some(limit);
        self.bucket = Some(Bucket::full(limit, lease::now()));
        Ok(limit)
    }

    async fn ask(&mut self, holder: String, request: Request) -> Result<Share> {
        let share = self.bucket()?.ask(&holder, request, lease::now());
        if share.permits > 0 && !*self.is_shared {
            // The share leaves when this is durable.
            *self.is_shared = true;
            self.ctx.set_timer(SETTLE, LEASE + MARGIN, Some(LEASE), Self::settle)?;
        }
        Ok(share)
    }

    async fn set_limit(&mut self, limit: RateLimit) -> Result<()> {
        limit.check()?;
        self.bucket()?.set_limit(limit, lease::now());
        *self.limit = Some(limit);
        Ok(())
    }
}

impl RateLimitActor {
    fn bucket(&mut self) -> Result<&mut Bucket> {
        let id = self.ctx.id().clone();
        self.bucket.as_mut().ok_or_else(|| {
            Error::new(ErrorKind::NotFound, format!("rate limit {id} does not exist: open it with a limit first"))
        })
    }

    /// Notes that nothing is out, so that nobody has to wait for it after a restart.
    async fn settle(&mut self) -> Result<()> {
        if self.bucket()?.is_all_in(lease::now()) {
            *self.is_shared = false;
            self.ctx.cancel_timer(SETTLE);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn an_activation_has_millions_of_ids_to_itself() {
        let drawn: BTreeSet<u64> = (0..10).map(|_| first_id()).collect();
        assert!(drawn.len() > 5, "{drawn:?}");
        assert!(drawn.iter().all(|id| id % (1 << 24) == 0), "{drawn:?}");
    }
}
