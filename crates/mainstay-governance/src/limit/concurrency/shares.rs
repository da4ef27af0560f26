use std::collections::VecDeque;
use std::time::Duration;

use mainstay::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::super::{LEASE, LEASE_MAX, LEASE_MIN, LIMIT_HOLDERS_MAX};
use crate::lease::{GrantedLease, LeaseTable};

/// The largest limit.
pub const PERMITS_MAX: u64 = 1 << 40;

/// What a process says of itself when it renews its share.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Report {
    /// Grows from one report to the next.
    pub(super) number: u64,
    /// The share that it keeps to from now on, until it is given more.
    pub(super) held: u64,
    /// How many permits of that are out.
    pub(super) used: u64,
    /// What the first caller who waits needs.
    pub(super) need: u64,
    /// What all who wait need.
    pub(super) want: u64,
    /// How long its share is good unless it is renewed.
    pub(super) lease_ms: u64,
}

impl Default for Report {
    fn default() -> Self {
        Self { number: 0, held: 0, used: 0, need: 0, want: 0, lease_ms: LEASE.as_millis() as u64 }
    }
}

impl Report {
    /// The same, whatever a process has said.
    pub(super) fn lease(&self) -> Duration {
        Duration::from_millis(self.lease_ms).clamp(LEASE_MIN, LEASE_MAX)
    }
}

/// What a process is told.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Share {
    /// The share that it is to have: less than it holds if others need some.
    pub(super) permits: u64,
    /// The limit as it is.
    pub(super) limit: u64,
}

/// What others are to do because of a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Nudge {
    Nobody,
    /// There is enough for the one who waits first.
    First(String),
    /// Somebody has begun to wait: whoever has more than it uses, or than is fair, is to give some back.
    All,
}

/// Who may have how many permits out. The shares together are never more than the limit, unless that was lowered.
pub(super) struct Shares {
    limit: u64,
    holders: LeaseTable<String, Holder>,
    /// Those who wait for more, in the order in which they asked.
    queue: VecDeque<String>,
    /// What may be with processes of before a restart that have not been heard of.
    unknown: GrantedLease<u64>,
}

#[derive(Default)]
struct Holder {
    /// What it may have out at most.
    granted: u64,
    report: Report,
}

impl Shares {
    /// Nothing is out.
    pub(super) fn new(limit: u64, now: Instant) -> Self {
        let unknown = GrantedLease::new(0, Duration::ZERO, now);
        Self { limit, holders: LeaseTable::default(), queue: VecDeque::new(), unknown }
    }

    /// It is not known what is out: everything may be, until leases of this length have run out.
    pub(super) fn after_restart(limit: u64, lease: Duration, now: Instant) -> Self {
        Self { unknown: GrantedLease::new(limit, lease, now), ..Self::new(limit, now) }
    }

    /// Nothing was heard for so long that it is this process that stood still. No holder is taken for dead before it has had the
    /// time to be heard.
    pub(super) fn stood_still(&mut self, now: Instant) {
        self.holders.extend(now);
        self.unknown.extend(now);
    }

    pub(super) fn set_limit(&mut self, limit: u64) {
        self.limit = limit;
    }

    /// Takes note of what a process says, and answers it.
    pub(super) fn renew(&mut self, id: &str, report: Report, now: Instant) -> Result<(Share, Nudge)> {
        self.expire(now);
        if self.holders.get(id).is_none() {
            if self.holders.len() >= LIMIT_HOLDERS_MAX {
                return Err(Error::new(
                    ErrorKind::Overloaded,
                    format!("{LIMIT_HOLDERS_MAX} processes share this limit (LIMIT_HOLDERS_MAX): share a limiter"),
                ));
            }
            self.adopt(id, report, now);
        }
        if let Some(known) = self.holders.get(id).filter(|known| report.number <= known.report.number) {
            // Overtaken by a later one.
            return Ok((Share { permits: known.granted, limit: self.limit }, Nudge::Nobody));
        }
        if let Some(holder) = self.holders.renew(id, Some(report.lease()), now) {
            holder.granted = holder.granted.min(report.held).max(report.used);
            holder.report = report;
        }
        let was_waiting = self.queue.iter().any(|waiting| waiting == id);
        let permits = self.settle(id, report);
        let is_waiting = self.queue.iter().any(|waiting| waiting == id);
        // Once, when it begins to wait: those who give back do so by themselves from then on.
        let nudge = if is_waiting && !was_waiting { Nudge::All } else { self.nudge() };
        Ok((Share { permits, limit: self.limit }, nudge))
    }

    /// Forgets a process whose permits are all back.
    pub(super) fn leave(&mut self, id: &str) -> Nudge {
        self.holders.release(id);
        self.queue.retain(|waiting| waiting != id);
        self.nudge()
    }

    /// True if nothing is out.
    pub(super) fn is_all_in(&mut self, now: Instant) -> bool {
        self.expire(now);
        self.unknown.of == 0 && self.holders.values().all(|holder| holder.granted == 0)
    }

    /// Lets time pass, and says whom that concerns.
    pub(super) fn look(&mut self, now: Instant) -> Nudge {
        self.expire(now);
        self.nudge()
    }

    /// A process that is not known: one of before a restart keeps what it holds; one whose lease has run out, only what it
    /// cannot give back.
    fn adopt(&mut self, id: &str, report: Report, now: Instant) {
        let unknown = &mut self.unknown.of;
        let granted = if report.held <= *unknown { report.held } else { report.used };
        *unknown = unknown.saturating_sub(granted);
        self.holders.grant(id.to_owned(), Holder { granted, ..Holder::default() }, report.lease(), now);
    }

    /// The share of a process after a report.
    fn settle(&mut self, id: &str, report: Report) -> u64 {
        if report.want == 0 {
            self.queue.retain(|waiting| waiting != id);
            // If others wait, it is to keep what it uses alone.
            let kept = if self.queue.is_empty() { report.held } else { report.used };
            return self.after_recall(id, report.held, kept);
        }
        if !self.queue.iter().any(|waiting| waiting == id) {
            self.queue.push_back(id.to_owned());
        }
        let ahead = self.ranked().take_while(|waiting| *waiting != id);
        let ahead = ahead.fold(0, |sum: u64, waiting| sum.saturating_add(self.need_of(waiting)));
        let there = self.free().saturating_sub(ahead);
        let need = self.need_of(id);
        let waiting = (self.queue.len() as u64).max(1);
        let Some(holder) = self.holders.get_mut(id) else { return 0 };
        if there < need {
            let granted = holder.granted;
            return self.after_recall(id, granted, granted);
        }
        let more = report.want.max(need).min((there / waiting).max(need));
        holder.granted += more;
        let granted = holder.granted;
        self.queue.retain(|waiting| waiting != id);
        if more < report.want {
            // Not all that it wants: it goes on waiting, behind those who wait already.
            self.queue.push_back(id.to_owned());
        }
        granted
    }

    /// What a process is to keep of a share, when more is out than the limit, or when somebody waits who has less than is
    /// fair or than its first caller needs.
    fn after_recall(&self, id: &str, held: u64, kept: u64) -> u64 {
        let kept = kept.min(held.saturating_sub(self.given().saturating_sub(self.limit)));
        match self.ranked().next() {
            Some(first) if first != id && self.is_short(first) => {
                let missing = self.need_of(first).saturating_sub(self.free());
                kept.min(self.fair().max(1)).min(held.saturating_sub(missing))
            }
            _ => kept,
        }
    }

    /// Those who wait: first who has less than is fair or than it needs, each in the order in which they asked.
    fn ranked(&self) -> impl Iterator<Item = &str> {
        let those = |short: bool| self.queue.iter().map(String::as_str).filter(move |id| self.is_short(id) == short);
        those(true).chain(those(false))
    }

    fn is_short(&self, id: &str) -> bool {
        let fair = self.fair();
        self.holders.get(id).is_some_and(|holder| holder.granted < fair || holder.report.need > holder.granted)
    }

    /// What each would have if all who want any had the same.
    fn fair(&self) -> u64 {
        let active = self.holders.values().filter(|holder| holder.report.used > 0 || holder.report.want > 0).count();
        self.limit / (active as u64).max(1)
    }

    /// What a process that waits lacks for the first of its callers.
    fn need_of(&self, id: &str) -> u64 {
        self.holders.get(id).map_or(0, |holder| {
            let Report { used, need, .. } = holder.report;
            used.saturating_add(need).saturating_sub(holder.granted).max(1)
        })
    }

    fn given(&self) -> u64 {
        self.holders.values().fold(self.unknown.of, |sum, holder| sum.saturating_add(holder.granted))
    }

    fn free(&self) -> u64 {
        self.limit.saturating_sub(self.given())
    }

    fn nudge(&self) -> Nudge {
        match self.ranked().next() {
            Some(first) if self.free() >= self.need_of(first) => Nudge::First(first.to_owned()),
            _ => Nudge::Nobody,
        }
    }

    fn expire(&mut self, now: Instant) {
        if self.unknown.is_over(now) {
            self.unknown.of = 0;
        }
        for (_, gone, _) in self.holders.expire(now) {
            self.queue.retain(|waiting| *waiting != gone);
        }
    }
}

#[cfg(test)]
mod tests;
