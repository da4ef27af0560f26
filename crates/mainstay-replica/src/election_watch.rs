//! Stands for election as soon as the promise to the last primary is over, instead of some random time later.
//!
//! A voter that has acknowledged a primary votes for no other within `election_timeout_max`. When that time is over the voters stand
//! one after another, each a [step](crate::Timing::rank_step) after the one before, so that the first has mostly won before the second
//! stands. It is a pre-vote: who would not win changes nothing. Openraft's own timer, which is longer and random, stays as it is.

use std::collections::BTreeSet;
use std::sync::Weak;

use mainstay_core::{random, time};
use openraft::async_runtime::watch::WatchReceiver as _;
use openraft::{Instant as _, RaftState, ServerState};
use rand::RngExt as _;

use crate::options::Timing;
use crate::raft::Types;
use crate::replica::Inner;

/// What openraft knows of the last primary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LastHeard {
    /// When the vote was given or the primary was last heard of.
    at: time::Instant,
    /// A primary was elected by it: this replica has promised to vote for no other for a while.
    is_promised: bool,
    /// How many voters stand before this one.
    rank: u32,
    voters: u32,
}

/// What to do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// Look again at that moment.
    Wait(time::Instant),
    /// Ask the others.
    Stand,
}

impl LastHeard {
    /// When this replica stands, unless it hears of a primary before.
    fn due(&self, timing: &Timing) -> time::Instant {
        let promised = if self.is_promised { timing.election_timeout_max } else { timing.rank_step() };
        self.at + promised + timing.rank_step() * self.rank
    }

    /// What to do at a moment, if it was looked at last for `asked`. A replica that is woken long after it wanted to be was held up
    /// itself: it lets what has come in meanwhile be taken in first, and does not blame the primary for its own pause.
    fn next(&self, timing: &Timing, now: time::Instant, asked: Option<time::Instant>) -> Next {
        let due = self.due(timing);
        if now <= due {
            // Openraft's promise holds to the end of that moment.
            return Next::Wait(due + PROMISE_END);
        }
        match asked {
            Some(asked) if now.saturating_duration_since(asked) <= timing.heartbeat => Next::Stand,
            _ => Next::Wait(now + timing.rank_step()),
        }
    }
}

/// A timer may fire at the very moment at which the promise still holds.
const PROMISE_END: time::Duration = time::Duration::from_millis(1);

/// Stands for election when it is time, until the replica is gone.
pub(crate) async fn watch_for_elections(inner: Weak<Inner>) {
    let Some((raft, mut server, timing)) =
        inner.upgrade().map(|inner| (inner.raft.clone(), inner.raft.server_metrics(), inner.options.timing))
    else {
        return;
    };
    let mut asked = None;
    loop {
        let me = *raft.node_id();
        let Ok(heard) = raft.with_raft_state(move |state| last_heard(state, me)).await else { return };
        let Some(this) = inner.upgrade() else { return };
        let heard = heard.filter(|_| this.may_stand());
        let now = time::now();
        let wait = match heard.map(|heard| (heard, heard.next(&timing, now, asked))) {
            None => None,
            Some((_, Next::Wait(until))) => Some(until),
            Some((heard, Next::Stand)) => {
                if raft.trigger().elect(true).await.is_err() {
                    return;
                }
                // Time for all others to stand before this one does so again, and never the same for two.
                let round = timing.rank_step() * (heard.voters + 1);
                Some(now + round + random::rng().random_range(time::Duration::ZERO..=timing.rank_step()))
            }
        };
        let (nudged, until) = (this.election_nudge.clone(), wait);
        drop(this);
        asked = until;
        let woken = async {
            match until {
                Some(until) => time::sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            changed = server.changed() => {
                if changed.is_err() {
                    return;
                }
                asked = Some(time::now());
            }
            () = nudged.notified() => asked = Some(time::now()),
            () = woken => {}
        }
    }
}

fn last_heard(state: &RaftState<Types>, me: u64) -> Option<LastHeard> {
    let voters: BTreeSet<u64> = state.membership_state.effective().voter_ids().collect();
    // One that is alone is elected by openraft at once.
    if state.server_state == ServerState::Leader || voters.len() < 2 || !voters.contains(&me) {
        return None;
    }
    let vote = state.vote_ref();
    let now = time::now();
    let at = now.checked_sub(state.vote_last_modified()?.elapsed())?;
    let is_promised = vote.is_committed();
    let last_primary = vote.leader_id.voted_for;
    let others = voters.iter().filter(|voter| !is_promised || **voter != last_primary);
    let rank = others.filter(|voter| **voter < me).count() as u32;
    Some(LastHeard { at, is_promised, rank, voters: voters.len() as u32 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(at: time::Instant, is_promised: bool, rank: u32) -> LastHeard {
        LastHeard { at, is_promised, rank, voters: 3 }
    }

    #[test]
    fn voters_stand_one_after_another_when_the_promise_is_over() {
        let (timing, at) = (Timing::DEFAULT, time::now());
        let over = at + timing.election_timeout_max;
        assert_eq!(heard(at, true, 0).due(&timing), over);
        assert_eq!(heard(at, true, 1).due(&timing), over + timing.rank_step());
        assert_eq!(heard(at, false, 0).due(&timing), at + timing.rank_step());
        let asked = Some(over + PROMISE_END);
        assert_eq!(heard(at, true, 0).next(&timing, over, None), Next::Wait(over + PROMISE_END));
        assert_eq!(heard(at, true, 0).next(&timing, over + PROMISE_END, asked), Next::Stand);
    }

    #[test]
    fn a_replica_that_was_held_up_itself_looks_again_first() {
        let (timing, at) = (Timing::DEFAULT, time::now());
        let heard = heard(at, true, 0);
        let asked = heard.due(&timing) + PROMISE_END;
        let late = asked + timing.heartbeat + time::Duration::from_millis(1);
        let again = late + timing.rank_step();
        assert_eq!(heard.next(&timing, late, Some(asked)), Next::Wait(again));
        assert_eq!(heard.next(&timing, again, Some(again)), Next::Stand);
    }
}
