use std::collections::VecDeque;
use std::time::Duration;

use mainstay::Error;
use tokio::time::Instant;

use super::super::LEASE;
use super::super::line::Line;
use super::bucket::{Request, Share};
use super::rate_limit::RateLimit;

/// For how long a process keeps permits ready, at the speed at which it used them lately.
const AHEAD: Duration = Duration::from_millis(200);

/// The permits that are in a process, and who waits for some.
pub(super) struct Pool {
    pub(super) limit: RateLimit,
    pub(super) line: Line<()>,
    stock: Stock,
    asked: Instant,
    /// What is expected to be used in [`AHEAD`].
    expected: u64,
    /// Not before this.
    retry: Instant,
}

/// Permits of several shares, the oldest first.
#[derive(Default)]
struct Stock {
    grants: VecDeque<Grant>,
    /// The shares that have ended, with what was left of each.
    done: Vec<(u64, u64)>,
    /// What was used, or could have been, since the last request.
    used: u64,
}

struct Grant {
    id: u64,
    left: u64,
    expires: Instant,
}

/// What is to be done next.
pub(super) enum Plan {
    Ask(Request),
    Wait(Instant),
}

impl Stock {
    fn take(&mut self, permits: u64, now: Instant) -> bool {
        if self.left(now) < permits {
            return false;
        }
        let mut missing = permits;
        while let Some(first) = self.grants.front_mut().filter(|_| missing > 0) {
            let taken = first.left.min(missing);
            (first.left, missing) = (first.left - taken, missing - taken);
            if first.left == 0 {
                self.done.push((first.id, 0));
                self.grants.pop_front();
            }
        }
        self.used = self.used.saturating_add(permits);
        true
    }

    /// What is here and may be used.
    fn left(&mut self, now: Instant) -> u64 {
        let Self { grants, done, .. } = self;
        grants.retain(|grant| {
            let is_good = now < grant.expires;
            if !is_good {
                done.push((grant.id, grant.left));
            }
            is_good
        });
        grants.iter().fold(0, |sum: u64, grant| sum.saturating_add(grant.left))
    }
}

impl Pool {
    pub(super) fn new(limit: RateLimit, waiting_max: usize, now: Instant) -> Self {
        Self { limit, line: Line::new(waiting_max), stock: Stock::default(), asked: now, expected: 1, retry: now }
    }

    /// Takes permits, if they are here and nobody waits before.
    pub(super) fn try_take(&mut self, permits: u64, now: Instant) -> bool {
        self.line.is_empty() && self.stock.take(permits, now)
    }

    /// Notes that permits were wanted in vain, so that there are some next time.
    pub(super) fn miss(&mut self, permits: u64) {
        self.stock.used = self.stock.used.saturating_add(permits);
    }

    /// Serves who waits, as far as there is enough. What nobody takes any more counts as used.
    fn serve(&mut self, now: Instant) {
        let Self { line, stock, .. } = self;
        drop(line.serve(|permits| stock.take(permits, now).then_some(())));
    }

    /// What is to be done now.
    pub(super) fn plan(&mut self, now: Instant) -> Plan {
        let left = self.stock.left(now);
        let (need, waiting) = self.line.needs();
        let is_low = waiting > left || (self.stock.used > 0 && left <= self.expected / 2);
        let is_due = now >= self.retry;
        let has_back = self.stock.done.iter().any(|(_, left)| *left > 0);
        if (is_low || has_back) && is_due {
            let passed = now.saturating_duration_since(self.asked).max(Duration::from_millis(1));
            let speed = u128::from(self.stock.used).saturating_mul(AHEAD.as_nanos()) / passed.as_nanos();
            self.expected = u64::try_from(speed).unwrap_or(u64::MAX).clamp(1, self.limit.burst.div_ceil(2));
            (self.stock.used, self.asked) = (0, now);
            let want = if is_low { waiting.saturating_add(self.expected).saturating_sub(left).max(1) } else { 0 };
            let need = need.saturating_sub(left);
            return Plan::Ask(Request { need, want, done: std::mem::take(&mut self.stock.done) });
        }
        let expiry = self.stock.grants.iter().map(|grant| grant.expires).min();
        let retry = (is_low || has_back).then_some(self.retry);
        // What was used up is told with the next request, or at the end of its lease.
        let report = (!self.stock.done.is_empty()).then_some((self.asked + LEASE).max(self.retry));
        match report {
            Some(at) if at <= now && is_due => {
                self.asked = now;
                Plan::Ask(Request { done: std::mem::take(&mut self.stock.done), ..Request::default() })
            }
            _ => Plan::Wait(expiry.into_iter().chain(retry).chain(report).min().unwrap_or(now + LEASE)),
        }
    }

    /// Takes in what was given for a request that was made at a moment, and serves who waits.
    pub(super) fn receive(&mut self, share: Share, asked: Instant, now: Instant) {
        self.retry = now + share.retry;
        self.learn(share.limit);
        if share.permits > 0 {
            self.stock.grants.push_back(Grant { id: share.id, left: share.permits, expires: asked + LEASE });
        }
        self.serve(now);
    }

    /// Takes note of the limit as it is.
    pub(super) fn learn(&mut self, limit: RateLimit) {
        if limit != self.limit {
            self.limit = limit;
            self.line.refuse_above(limit.burst, |permits| too_many(permits, &limit));
        }
    }

    /// Takes note that nothing came of a request.
    pub(super) fn failed(&mut self, request: Request, pause: Duration, now: Instant) {
        self.stock.done.extend(request.done);
        self.retry = now + pause;
    }

    /// Everything that is here goes back.
    pub(super) fn close(&mut self) -> Request {
        self.stock.done.extend(self.stock.grants.drain(..).map(|grant| (grant.id, grant.left)));
        Request { done: std::mem::take(&mut self.stock.done), ..Request::default() }
    }
}

/// What a caller is told who wants more than there can be.
pub(super) fn too_many(permits: u64, limit: &RateLimit) -> Error {
    Error::invalid(format!("{permits} permits at one go can never be: ask for at most {} (burst)", limit.burst))
}

#[cfg(test)]
mod tests {
    use super::super::bucket::Bucket;
    use super::*;

    /// A process that uses nearly all there is, a permit at a time.
    #[test]
    fn a_permit_does_not_cost_a_request() {
        let limit = RateLimit { permits: 1000, per: Duration::from_secs(1), burst: 1000 };
        let mut now = Instant::now();
        let (mut pool, mut bucket) = (Pool::new(limit, 10, now), Bucket::full(limit, now));
        let (mut used, mut requests, mut refused) = (0, 0, 0);
        for _ in 0..9000 {
            now += Duration::from_micros(1200);
            match pool.try_take(1, now) {
                true => used += 1,
                false => {
                    refused += 1;
                    pool.miss(1);
                }
            }
            if let Plan::Ask(request) = pool.plan(now) {
                requests += 1;
                let share = bucket.ask("a", request, now);
                pool.receive(share, now, now);
            }
        }
        assert!(used > 8900 && refused < 50 && requests < 200, "{used} used, {refused} refused, {requests} requests");
    }

    #[test]
    fn what_is_not_used_goes_back_when_its_lease_is_over() {
        let limit = RateLimit::per_second(100);
        let now = Instant::now();
        let mut pool = Pool::new(limit, 10, now);
        pool.receive(Share { id: 7, permits: 5, retry: Duration::ZERO, limit }, now, now);
        assert!(pool.try_take(2, now));
        assert!(!pool.try_take(3, now + LEASE), "not a moment longer than it may");
        let Plan::Ask(request) = pool.plan(now + LEASE) else { panic!("nothing to do") };
        assert_eq!(request.done, [(7, 3)]);
    }
}
