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
/// A member is given on after a lease that was released, but not after one that has expired: then it is told first that the
/// tokens up to now are over, so that a holder who comes late is refused.
///
/// After a restart of the coordinator, which has forgotten its leases, a member may have a holder. Until a lease has had the
/// time to expire it is given to nobody, and whoever renews its lease meanwhile goes on as if nothing had happened.
pub(crate) struct Leases<W> {
    settings: LeaseSettings,
    slots: Vec<Slot>,
    /// How many of the slots belong to the pool. Those above go when their lease ends.
    size: usize,
    line: Line<W>,
    next_token: u64,
    /// Smaller tokens were given before a restart.
    first_token: u64,
}

#[derive(Debug, Clone, Copy)]
enum Slot {
    /// Nobody has it. It may rest for a while.
    Free { from: Instant },
    /// Somebody has it.
    Leased { token: u64, until: Instant },
    /// Somebody may have it, by a lease from before a restart.
    Inherited { until: Instant },
    /// It is to be told that tokens up to now are over: at once if its holder is known to have had it, so that what that has
    /// left is cleared away, and otherwise when somebody needs it.
    Unsure { from: Instant, was_leased: bool },
    /// It is being told.
    Revoking,
}

impl Slot {
    fn is_held(&self) -> bool {
        matches!(self, Self::Leased { .. } | Self::Inherited { .. })
    }
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
    /// Nothing is leased. Tokens begin at `next_token`: if that is not the first, there were leases.
    pub(crate) fn new(settings: LeaseSettings, size: u32, next_token: u64, now: Instant) -> Self {
        let line = Line::new(settings.ageing, now);
        let mut leases = Self { settings, slots: Vec::new(), size: 0, line, next_token, first_token: next_token };
        leases.resize(size, now);
        leases
    }

    /// Any of so many members may have a holder from before a restart.
    pub(crate) fn inherit(&mut self, members: u32, now: Instant) {
        let until = now + self.settings.time;
        self.slots = vec![Slot::Inherited { until }; (members as usize).max(self.size)];
    }

    /// The pool has another size.
    pub(crate) fn resize(&mut self, size: u32, now: Instant) {
        self.size = size as usize;
        let fresh = match self.next_token {
            1 => Slot::Free { from: now },
            _ => Slot::Unsure { from: now, was_leased: false },
        };
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

    /// How many are in line, some of whom may not wait any more.
    pub(crate) fn in_line(&self) -> usize {
        self.line.len()
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

    /// True if members have holders, or may have.
    pub(crate) fn is_any_held(&self) -> bool {
        self.slots.iter().any(Slot::is_held)
    }

    /// True if the token is that of the lease of a member.
    pub(crate) fn is_current(&mut self, index: u32, token: u64) -> bool {
        self.adopt(index, token).is_some()
    }

    /// Renews a lease, unless its member is to go. The time that it has left, or none if it is over.
    pub(crate) fn renew(&mut self, index: u32, token: u64, now: Instant) -> Option<Duration> {
        let (is_staying, renewed) = ((index as usize) < self.size, now + self.settings.time);
        let Slot::Leased { until, .. } = self.adopt(index, token)? else { return None };
        if is_staying {
            *until = renewed;
        }
        until.checked_duration_since(now)
    }

    /// Ends a lease. The member rests for a while if its holder says so.
    pub(crate) fn release(&mut self, index: u32, token: u64, rest: Duration, now: Instant) {
        if let Some(slot) = self.adopt(index, token) {
            *slot = Slot::Free { from: now + rest };
            self.forget_gone();
        }
    }

    /// A member was told, or could not be.
    pub(crate) fn revoked(&mut self, index: u32, was_told: bool, now: Instant) {
        if let Some(slot @ Slot::Revoking) = self.slots.get_mut(index as usize) {
            *slot = match was_told {
                true => Slot::Free { from: now },
                false => Slot::Unsure { from: now + REVOKE_AGAIN, was_leased: true },
            };
            self.forget_gone();
        }
    }

    /// Does what there is to do: ends leases whose time is over, and gives free members to those who wait.
    pub(crate) fn attend(&mut self, now: Instant, waits: impl Fn(&W) -> bool) -> Work<W> {
        for slot in &mut self.slots {
            if matches!(slot, Slot::Leased { until, .. } | Slot::Inherited { until } if *until <= now) {
                *slot = Slot::Unsure { from: now, was_leased: true };
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

    /// Members to be told: those whose lease has expired, and as many others as are waited for.
    fn revocations(&mut self, now: Instant) -> Vec<Revocation> {
        let under_way = self.slots.iter().filter(|slot| matches!(slot, Slot::Revoking)).count();
        let mut wanted = self.line.len().saturating_sub(under_way);
        let token = self.next_token - 1;
        let mut revocations = Vec::new();
        for (index, slot) in self.slots.iter_mut().enumerate().take(self.size) {
            let Slot::Unsure { from, was_leased } = *slot else { continue };
            if from > now || !(was_leased || wanted > 0) || under_way + revocations.len() >= REVOKING_MAX {
                continue;
            }
            wanted = wanted.saturating_sub(1);
            *slot = Slot::Revoking;
            revocations.push(Revocation { index: index as u32, token });
        }
        revocations
    }

    /// When a lease ends, a member is to be told again, or somebody waits and a member has rested.
    fn next_moment(&self, now: Instant) -> Option<Instant> {
        let has_line = self.line.len() > 0;
        let moments = self.slots.iter().filter_map(|slot| match slot {
            Slot::Leased { until, .. } | Slot::Inherited { until } => Some(*until),
            Slot::Unsure { from, was_leased: true } if *from > now => Some(*from),
            Slot::Free { from } | Slot::Unsure { from, .. } if has_line && *from > now => Some(*from),
            _ => None,
        });
        moments.min()
    }

    /// The slot of a member, if a token is that of its lease. One from before a restart is believed, unless a later one has been
    /// heard of: its holder asks for nothing once its lease has expired by its own clock, which is never after that of the
    /// coordinator.
    fn adopt(&mut self, index: u32, token: u64) -> Option<&mut Slot> {
        let is_earlier = token < self.first_token;
        let slot = self.slots.get_mut(index as usize)?;
        match slot {
            Slot::Leased { token: current, .. } if *current == token => Some(slot),
            Slot::Leased { token: current, until } if is_earlier && *current < token => {
                *slot = Slot::Leased { token, until: *until };
                Some(slot)
            }
            Slot::Inherited { until } if is_earlier => {
                *slot = Slot::Leased { token, until: *until };
                Some(slot)
            }
            _ => None,
        }
    }

    /// Drops the slots above the size whose lease has ended; one in the middle waits for those above it.
    fn forget_gone(&mut self) {
        while self.slots.len() > self.size && !self.slots.last().is_some_and(Slot::is_held) {
            self.slots.pop();
        }
    }
}

#[cfg(test)]
mod tests;
