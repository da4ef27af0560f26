use std::time::Duration;

use mainstay::Error;
use tokio::time::Instant;

use super::super::line::Line;
use super::permit::Permit;
use super::shares::{Report, Share};
use crate::lease::HeldLease;

/// The share of a process, and who waits for permits of it.
pub(super) struct Desk {
    pub(super) limit: u64,
    pub(super) line: Line<Permit>,
    pub(super) till: Till,
    /// How long a share is good that is not renewed.
    pub(super) lease: Duration,
    number: u64,
    /// What was last said to be held.
    said: u64,
    /// True if others want what comes back.
    pub(super) is_recalled: bool,
}

/// The share of a process, and the permits of it that are out.
pub(super) struct Till {
    /// What may be out, unless more is already.
    target: u64,
    used: u64,
    /// The most that was out since the last report.
    peak: u64,
    /// What was wanted in vain, by those who did not wait.
    missed: u64,
    lease: HeldLease,
}

impl Till {
    /// Takes permits out, if the share has so many, and says under which lease.
    pub(super) fn take(&mut self, permits: u64, now: Instant) -> Option<u64> {
        let after = self.used.saturating_add(permits);
        if !self.lease.is_held(now) || after > self.target {
            return None;
        }
        self.used = after;
        self.peak = self.peak.max(after);
        Some(self.lease.number())
    }

    /// How long a lease is good. One that has run out stays so.
    pub(super) fn left_of(&self, lease: u64, now: Instant) -> Duration {
        self.lease.left_of(lease, now)
    }

    /// Takes permits back.
    pub(super) fn put(&mut self, permits: u64) {
        self.used = self.used.saturating_sub(permits);
    }

    /// Notes that permits were wanted in vain, so that there are some next time.
    pub(super) fn miss(&mut self, permits: u64) {
        self.missed = self.missed.max(permits);
    }
}

impl Desk {
    pub(super) fn new(limit: u64, waiting_max: usize, lease: Duration, now: Instant) -> Self {
        let till = Till { target: 0, used: 0, peak: 0, missed: 0, lease: HeldLease::begun(now, Duration::ZERO) };
        Self { limit, line: Line::new(waiting_max), till, lease, number: 0, said: 0, is_recalled: false }
    }

    /// What to say now. From here on the process keeps to it.
    pub(super) fn report(&mut self) -> Report {
        let (need, waiting) = self.line.needs();
        let till = &mut self.till;
        let (need, want) = (need.max(till.missed.min(1)), waiting.saturating_add(std::mem::take(&mut till.missed)));
        if want == 0 {
            // What was not used lately goes back.
            till.target = till.target.min(till.peak);
        }
        till.peak = till.used;
        self.number += 1;
        let held = till.target.max(till.used);
        self.said = held;
        let missing = want.saturating_sub(held - till.used);
        let lease_ms = self.lease.as_millis() as u64;
        Report { number: self.number, held, used: till.used, need: need.min(self.limit), want: missing, lease_ms }
    }

    /// Takes note of the answer to what was said at a moment.
    pub(super) fn receive(&mut self, share: Share, said: Report, asked: Instant, now: Instant) {
        // Under another number if it had run out: others may have what was out under it.
        self.till.lease.renew(asked, Duration::from_millis(said.lease_ms), now);
        self.till.target = share.permits;
        self.is_recalled = share.permits < said.held;
        self.learn(share.limit);
    }

    /// Takes note of the limit as it is.
    pub(super) fn learn(&mut self, limit: u64) {
        self.till.target = self.till.target.min(limit);
        if limit != self.limit {
            self.limit = limit;
            self.line.refuse_above(limit, |permits| too_many(permits, limit));
        }
    }

    /// True if less is held than was said, and others want it: to be said at once.
    pub(super) fn owes(&self) -> bool {
        self.is_recalled && self.said > self.till.target.max(self.till.used)
    }

    /// True if there is a share to renew, or one to ask for.
    pub(super) fn has_news(&mut self) -> bool {
        !self.line.is_empty() || self.till.target > 0 || self.till.used > 0 || self.till.missed > 0 || self.owes()
    }
}

/// What a caller is told who wants more than there can be.
pub(super) fn too_many(permits: u64, limit: u64) -> Error {
    Error::invalid(format!("{permits} permits at once can never be: ask for at most {limit} (the limit)"))
}
