use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::super::{LEASE, LIMIT_HOLDERS_MAX};
use super::rate_limit::RateLimit;
use crate::lease::LeaseTable;

/// How soon a process asks again at the earliest.
const RETRY_MIN: Duration = Duration::from_millis(1);

/// How late a process asks again, so that what comes back meanwhile does not wait for it.
const RETRY_MAX: Duration = Duration::from_millis(200);

/// How many shares one process can have at a time.
const SHARES_PER_HOLDER_MAX: usize = 64;

/// What a process asks for, and what it has done with earlier shares.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Request {
    /// What the first caller who waits needs; less is of no use.
    pub(super) need: u64,
    /// What it could use.
    pub(super) want: u64,
    /// The shares that have ended, with what was left of each.
    pub(super) done: Vec<(u64, u64)>,
}

/// What a process gets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Share {
    pub(super) id: u64,
    /// How many permits; none if there are not enough yet.
    pub(super) permits: u64,
    /// When to ask again, if there is none.
    pub(super) retry: Duration,
    /// The limit as it is.
    pub(super) limit: RateLimit,
}

/// A token bucket some of whose tokens are with processes. Tokens in it and tokens out together are never more than the
/// burst: that is what makes the bound hold whenever the latter are used.
pub(super) struct Bucket {
    limit: RateLimit,
    /// What is in it, in units of which a permit is as many as `per` has nanoseconds; each nanosecond brings `permits`.
    level: u128,
    filled: Instant,
    shares: LeaseTable<u64, Out>,
    /// The permits in `shares`.
    out: u64,
    queue: VecDeque<Want>,
    /// When each process has last asked.
    seen: BTreeMap<String, Instant>,
    next_id: u64,
}

struct Out {
    holder: String,
    permits: u64,
}

struct Want {
    holder: String,
    need: u64,
    /// When it is forgotten, unless it asks again.
    until: Instant,
}

impl Bucket {
    /// A bucket that nobody has taken from, which is full.
    pub(super) fn full(limit: RateLimit, now: Instant) -> Self {
        let mut bucket = Self {
            limit,
            level: 0,
            filled: now,
            shares: LeaseTable::default(),
            out: 0,
            queue: VecDeque::new(),
            seen: BTreeMap::new(),
            next_id: 0,
        };
        bucket.level = bucket.units(limit.burst);
        bucket
    }

    /// A bucket of which it is not known what it held, but that nothing is out. Ids start where no earlier share can be
    /// taken for one of these.
    pub(super) fn empty(limit: RateLimit, first_id: u64, now: Instant) -> Self {
        Self { level: 0, next_id: first_id, ..Self::full(limit, now) }
    }

    /// A bucket of which it is not known what was taken: it is empty, and as much may be out as there can be.
    pub(super) fn after_restart(limit: RateLimit, first_id: u64, now: Instant) -> Self {
        let mut bucket = Self::empty(limit, first_id, now);
        bucket.give(String::new(), limit.burst, now);
        bucket
    }

    pub(super) fn set_limit(&mut self, limit: RateLimit, now: Instant) {
        self.fill(now);
        let permits = self.level / self.units(1);
        self.limit = limit;
        self.level = permits * self.units(1);
        self.level = self.level.min(self.room());
    }

    /// Answers a process.
    pub(super) fn ask(&mut self, holder: &str, request: Request, now: Instant) -> Share {
        self.fill(now);
        for (id, left) in request.done {
            self.take_back(holder, id, left);
        }
        self.seen.retain(|_, at| now.saturating_duration_since(*at) < LEASE);
        self.queue.retain(|want| want.until > now);
        let is_room = self.seen.contains_key(holder) || self.seen.len() < LIMIT_HOLDERS_MAX;
        if is_room {
            self.seen.insert(holder.to_owned(), now);
        }
        let need = request.need.clamp(1, self.limit.burst);
        if request.want == 0 || !is_room {
            self.queue.retain(|want| want.holder != holder);
            return self.share(0, RETRY_MAX);
        }
        let ahead = self.queue.iter().take_while(|want| want.holder != holder);
        let ahead = ahead.fold(0, |sum: u64, want| sum.saturating_add(want.need));
        let there = u64::try_from(self.level / self.units(1)).unwrap_or(u64::MAX).saturating_sub(ahead);
        let has_many = self.shares.values().filter(|out| out.holder == holder).count() >= SHARES_PER_HOLDER_MAX;
        if there >= need && !has_many {
            let fair = there / (self.seen.len() as u64).max(1);
            let permits = request.want.max(need).min(fair.max(need));
            self.queue.retain(|want| want.holder != holder);
            self.level -= self.units(permits);
            let id = self.give(holder.to_owned(), permits, now);
            return Share { id, ..self.share(permits, RETRY_MIN) };
        }
        let retry = self.time_until(ahead.saturating_add(need));
        let until = now + retry + LEASE;
        match self.queue.iter_mut().find(|want| want.holder == holder) {
            Some(want) => (want.need, want.until) = (need, until),
            None => self.queue.push_back(Want { holder: holder.to_owned(), need, until }),
        }
        self.share(0, retry)
    }

    /// True if nothing is out.
    pub(super) fn is_all_in(&mut self, now: Instant) -> bool {
        self.fill(now);
        self.shares.len() == 0
    }

    fn share(&self, permits: u64, retry: Duration) -> Share {
        Share { id: 0, permits, retry, limit: self.limit }
    }

    fn give(&mut self, holder: String, permits: u64, now: Instant) -> u64 {
        self.next_id += 1;
        self.out += permits;
        self.shares.grant(self.next_id, Out { holder, permits }, LEASE, now);
        self.next_id
    }

    /// A share has ended: what was used of it is gone, the rest is back. One that has run out meanwhile counts as used.
    fn take_back(&mut self, holder: &str, id: u64, left: u64) {
        if self.shares.get(&id).is_none_or(|out| out.holder != holder) {
            return;
        }
        if let Some(out) = self.shares.release(&id) {
            self.out -= out.permits;
            self.level += self.units(left.min(out.permits));
        }
    }

    /// Lets time pass: shares run out when they do, and tokens come as far as there is room.
    fn fill(&mut self, now: Instant) {
        for (expired, _, out) in self.shares.expire(now) {
            self.fill_to(expired);
            self.out -= out.permits;
        }
        self.fill_to(now);
    }

    fn fill_to(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.filled).as_nanos();
        self.filled = self.filled.max(now);
        let came = passed.saturating_mul(u128::from(self.limit.permits));
        self.level = self.level.saturating_add(came).min(self.room().max(self.level));
    }

    /// How much the bucket can hold beside what is out.
    fn room(&self) -> u128 {
        self.units(self.limit.burst.saturating_sub(self.out))
    }

    /// When so many permits may be there.
    fn time_until(&self, permits: u64) -> Duration {
        let missing = self.units(permits).saturating_sub(self.level);
        let nanos = missing.div_ceil(u128::from(self.limit.permits.max(1)));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)).clamp(RETRY_MIN, RETRY_MAX)
    }

    fn units(&self, permits: u64) -> u128 {
        u128::from(permits) * self.limit.per.as_nanos()
    }
}

#[cfg(test)]
mod tests;
