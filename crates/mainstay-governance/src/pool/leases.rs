use std::time::Duration;

use tokio::time::Instant;

use crate::pool::line::Line;
use crate::pool::{LeaseSettings, Priority};

/// How many members are told at a time that a lease is over. Each is a continuation of the coordinator, of which an actor
/// may have a limited number.
const REVOKING_MAX: usize = 64;

/// How long to wait before a member is told again that could not be reached.
const REVOKE_AGAIN: Duration = Duration::from_secs(1);

/// Which member of a pool is leased to whom, and who waits. Decisions only: whoever uses it carries them out.
///
/// A member is given on after a lease that was released, but not after one that has expired, and not after a restart of the
/// coordinator, which has forgotten its leases: then it is told first that the tokens up to now are over, so that a holder
/// who comes late is refused.
pub(crate) struct Leases<W> {
    settings: LeaseSettings,
    slots: Vec<Slot>,
    /// How many of the slots belong to the pool. Those above go when their lease ends.
    size: usize,
    line: Line<W>,
    next_token: u64,
}

#[derive(Debug, Clone, Copy)]
enum Slot {
    /// Nobody has it. It may rest for a while.
    Free { from: Instant },
    /// Somebody has it.
    Leased { token: u64, until: Instant },
    /// It is to be told that tokens up to now are over, when somebody needs it.
    Unsure { from: Instant },
    /// It is being told.
    Revoking,
}

/// What is to be done now.
pub(crate) struct Work<W> {
    pub(crate) granted: Vec<Granted<W>>,
    pub(crate) revocations: Vec<Revocation>,
    /// When to look again at the latest.
    pub(crate) next: Option<Instant>,
}

/// A lease for one who has waited.
pub(crate) struct Granted<W> {
    pub(crate) waiter: W,
    pub(crate) index: u32,
    pub(crate) token: u64,
}

/// A member that is to be told which tokens are over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Revocation {
    pub(crate) index: u32,
    pub(crate) token: u64,
}

impl<W> Leases<W> {
    /// Nothing is leased, as far as is known. Tokens begin at `next_token`: if that is not the first, there were leases.
    pub(crate) fn new(settings: LeaseSettings, size: u32, next_token: u64, now: Instant) -> Self {
        let slot = if next_token > 1 { Slot::Unsure { from: now } } else { Slot::Free { from: now } };
        let size = size as usize;
        Self { settings, slots: vec![slot; size], size, line: Line::new(settings.ageing, now), next_token }
    }

    /// The pool has another size.
    pub(crate) fn resize(&mut self, size: u32, now: Instant) {
        self.size = size as usize;
        let fresh = if self.next_token > 1 { Slot::Unsure { from: now } } else { Slot::Free { from: now } };
        if self.slots.len() < self.size {
            self.slots.resize(self.size, fresh);
        }
        self.forget_gone();
    }

    /// True if a member that is to go still has a lease.
    pub(crate) fn is_departing(&self) -> bool {
        self.slots.len() > self.size
    }

    pub(crate) fn next_token(&self) -> u64 {
        self.next_token
    }

    pub(crate) fn waiting(&self) -> impl Iterator<Item = &W> {
        self.line.iter()
    }

    /// How many members are leased.
    pub(crate) fn leased(&self) -> usize {
        self.slots.iter().filter(|slot| matches!(slot, Slot::Leased { .. })).count()
    }

    /// Lets somebody join the line. False if it is full of those who wait.
    pub(crate) fn join(&mut self, waiter: W, priority: Priority, now: Instant, waits: impl Fn(&W) -> bool) -> bool {
        if self.line.len() >= self.settings.waiting_max {
            self.line.retain(waits);
        }
        let has_room = self.line.len() < self.settings.waiting_max;
        if has_room {
            self.line.join(waiter, priority, now);
        }
        has_room
    }

    /// Lets somebody leave the line.
    pub(crate) fn leave(&mut self, leaves: impl Fn(&W) -> bool) {
        self.line.retain(|waiter| !leaves(waiter));
    }

    /// True if the token is that of the lease of a member.
    pub(crate) fn is_current(&self, index: u32, token: u64) -> bool {
        matches!(self.slots.get(index as usize), Some(Slot::Leased { token: current, .. }) if *current == token)
    }

    /// Renews a lease, unless its member is to go. The time that it has left, or none if it is over.
    pub(crate) fn renew(&mut self, token: u64, now: Instant) -> Option<Duration> {
        let index = self.find(token)?;
        let is_staying = index < self.size;
        let Slot::Leased { until, .. } = &mut self.slots[index] else { return None };
        if is_staying {
            *until = now + self.settings.time;
        }
        until.checked_duration_since(now)
    }

    /// Ends a lease. The member rests for a while if its holder says so.
    pub(crate) fn release(&mut self, token: u64, rest: Duration, now: Instant) {
        if let Some(index) = self.find(token) {
            self.slots[index] = Slot::Free { from: now + rest };
            self.forget_gone();
        }
    }

    /// A member was told, or could not be.
    pub(crate) fn revoked(&mut self, index: u32, was_told: bool, now: Instant) {
        if let Some(slot @ Slot::Revoking) = self.slots.get_mut(index as usize) {
            *slot = if was_told { Slot::Free { from: now } } else { Slot::Unsure { from: now + REVOKE_AGAIN } };
            self.forget_gone();
        }
    }

    /// Does what there is to do: ends leases whose time is over, and gives free members to those who wait.
    pub(crate) fn attend(&mut self, now: Instant, waits: impl Fn(&W) -> bool) -> Work<W> {
        for slot in &mut self.slots {
            if matches!(slot, Slot::Leased { until, .. } if *until <= now) {
                *slot = Slot::Unsure { from: now };
            }
        }
        self.forget_gone();
        let mut granted = Vec::new();
        for (index, slot) in self.slots.iter_mut().enumerate().take(self.size) {
            if !matches!(slot, Slot::Free { from } if *from <= now) {
                continue;
            }
            let Some(waiter) = std::iter::from_fn(|| self.line.next()).find(|waiter| waits(waiter)) else { break };
            let token = self.next_token;
            self.next_token += 1;
            *slot = Slot::Leased { token, until: now + self.settings.time };
            granted.push(Granted { waiter, index: index as u32, token });
        }
        let revocations = self.revocations(now);
        let next = self.next_moment(now);
        Work { granted, revocations, next }
    }

    /// Members to be told, as many as are waited for.
    fn revocations(&mut self, now: Instant) -> Vec<Revocation> {
        let under_way = self.slots.iter().filter(|slot| matches!(slot, Slot::Revoking)).count();
        let wanted = self.line.len().min(REVOKING_MAX).saturating_sub(under_way);
        let token = self.next_token - 1;
        let unsure = self.slots.iter_mut().enumerate().take(self.size);
        let unsure = unsure.filter(|(_, slot)| matches!(slot, Slot::Unsure { from } if *from <= now));
        unsure
            .take(wanted)
            .map(|(index, slot)| {
                *slot = Slot::Revoking;
                Revocation { index: index as u32, token }
            })
            .collect()
    }

    /// When a lease ends, or somebody waits and a member has rested.
    fn next_moment(&self, now: Instant) -> Option<Instant> {
        let has_line = self.line.len() > 0;
        let moments = self.slots.iter().filter_map(|slot| match slot {
            Slot::Leased { until, .. } => Some(*until),
            Slot::Free { from } | Slot::Unsure { from } if has_line && *from > now => Some(*from),
            _ => None,
        });
        moments.min()
    }

    fn find(&self, token: u64) -> Option<usize> {
        self.slots.iter().position(|slot| matches!(slot, Slot::Leased { token: current, .. } if *current == token))
    }

    /// Drops the slots above the size whose lease has ended; one in the middle waits for those above it.
    fn forget_gone(&mut self) {
        while self.slots.len() > self.size && !matches!(self.slots.last(), Some(Slot::Leased { .. })) {
            self.slots.pop();
        }
    }
}

#[cfg(test)]
mod tests;
