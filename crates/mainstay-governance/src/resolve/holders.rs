use std::collections::BTreeSet;
use std::time::Duration;

use mainstay::actor::Responder;
use mainstay::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::lease::LeaseTable;

/// How many processes can hold resolutions of one resolver at a time.
pub const HOLDERS_MAX: usize = 4096;

/// How many moves and drains can be waited for at a time.
pub(super) const WAITERS_MAX: usize = 1024;

/// What a holder says of itself when it renews its lease.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Report {
    /// The version as of which it begins calls from now on.
    pub(super) seen: u64,
    /// The resources on which it has calls under way.
    pub(super) busy: BTreeSet<String>,
}

/// Who may be using resolutions, up to when and as of which version; and who waits until nobody uses old ones.
#[derive(Default)]
pub(super) struct Holders {
    /// What each holder has said last; `None` for one that is known to exist and has said nothing since the map was activated.
    live: LeaseTable<String, Option<Report>>,
    waiters: Vec<Waiter>,
}

struct Waiter {
    responder: Responder<u64>,
    version: u64,
    /// The resource that nobody may be busy on, if that is waited for.
    idle: Option<String>,
    deadline: Option<Instant>,
}

impl Holders {
    /// Takes note of a holder, or of what one says; its lease begins anew.
    pub(super) fn hear(&mut self, id: String, lease: Duration, report: Option<Report>, now: Instant) {
        self.live.grant(id, report, lease, now);
    }

    /// Renews the lease of a holder that is known.
    pub(super) fn renew(&mut self, id: &str, report: Report, now: Instant) -> bool {
        self.live.renew(id, None, now).map(|said| *said = Some(report)).is_some()
    }

    pub(super) fn leave(&mut self, id: &str) {
        self.live.release(id);
    }

    /// Forgets the holders whose leases have run out, and names them.
    pub(super) fn expire(&mut self, now: Instant) -> impl Iterator<Item = String> + use<> {
        self.live.expire(now).into_iter().map(|(_, id, _)| id)
    }

    /// Answers when all holders are at a version, and nobody is busy on a resource if one is given.
    pub(super) fn wait(
        &mut self,
        responder: Responder<u64>,
        version: u64,
        idle: Option<String>,
        deadline: Option<Instant>,
    ) -> Result<()> {
        self.waiters.retain(|waiter| !waiter.responder.is_abandoned());
        if self.waiters.len() >= WAITERS_MAX {
            return Err(Error::new(
                ErrorKind::Overloaded,
                format!("{WAITERS_MAX} moves are under way already (WAITERS_MAX): wait for some of them"),
            ));
        }
        self.waiters.push(Waiter { responder, version, idle, deadline });
        Ok(())
    }

    /// Answers those who need not wait any longer.
    pub(super) fn settle(&mut self, now: Instant) {
        let waiters = std::mem::take(&mut self.waiters);
        for waiter in waiters {
            let (behind, busy) = self.in_the_way_of(&waiter);
            if behind + busy == 0 {
                waiter.responder.respond(Ok(waiter.version));
            } else if waiter.deadline.is_some_and(|deadline| deadline <= now) {
                waiter.responder.respond(Err(Error::new(
                    ErrorKind::Timeout,
                    format!(
                        "{} is moved away from, but not unused yet: {behind} holders have not heard of it, {busy} have \
                         calls under way: drain it again to go on waiting",
                        waiter.idle.as_deref().unwrap_or("it")
                    ),
                )));
            } else {
                self.waiters.push(waiter);
            }
        }
    }

    /// How many holders are behind a version, and how many are up to date but busy.
    fn in_the_way_of(&self, waiter: &Waiter) -> (usize, usize) {
        let (mut behind, mut busy) = (0, 0);
        for said in self.live.values() {
            match said {
                Some(report) if report.seen >= waiter.version => {
                    busy += usize::from(waiter.idle.as_ref().is_some_and(|idle| report.busy.contains(idle)));
                }
                _ => behind += 1,
            }
        }
        (behind, busy)
    }

    /// When to look again, if anybody waits.
    pub(super) fn next_look(&self) -> Option<Instant> {
        let expiries = self.live.next_expiry().into_iter();
        let deadlines = self.waiters.iter().filter_map(|waiter| waiter.deadline);
        (!self.waiters.is_empty()).then(|| expiries.chain(deadlines).min()).flatten()
    }

    pub(super) fn count(&self) -> usize {
        self.live.len()
    }
}
