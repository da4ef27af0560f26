use std::collections::BTreeMap;
use std::fmt;
use std::pin::pin;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

/// Those who use the partitions of a replica while it is primary, and who let their work end before the role is handed over.
#[derive(Debug, Default)]
pub(crate) struct Participants {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// The hand-over that is under way, by its number.
    round: Option<u64>,
    /// How many there were.
    rounds: u64,
    /// Who takes part, and up to which hand-over each has let its work end.
    done: BTreeMap<u64, u64>,
    next_participant: u64,
}

impl Participants {
    /// Asks all to let their work end; `None` if a hand-over is under way already.
    pub(crate) fn begin(self: &Arc<Self>) -> Option<Round> {
        let mut state = self.state.lock();
        if state.round.is_some() {
            return None;
        }
        state.rounds += 1;
        let number = state.rounds;
        state.round = Some(number);
        drop(state);
        self.changed.notify_waiters();
        Some(Round { participants: self.clone(), number })
    }

    pub(crate) fn join(self: &Arc<Self>) -> Quiescence {
        let mut state = self.state.lock();
        let participant = state.next_participant;
        state.next_participant += 1;
        state.done.insert(participant, 0);
        Quiescence { participants: self.clone(), participant }
    }

    async fn until(&self, is_so: impl Fn(&State) -> bool) {
        loop {
            // Listens before it looks, so that nothing can change in between.
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            if is_so(&self.state.lock()) {
                return;
            }
            changed.await;
        }
    }
}

/// A hand-over that is under way. Work goes on when it is dropped, if the role is still here.
#[derive(Debug)]
pub(crate) struct Round {
    participants: Arc<Participants>,
    number: u64,
}

impl Round {
    /// Waits until all have let their work end.
    pub(crate) async fn all_done(&self) {
        self.participants.until(|state| state.done.values().all(|done| *done >= self.number)).await;
    }
}

impl Drop for Round {
    fn drop(&mut self) {
        self.participants.state.lock().round = None;
        self.participants.changed.notify_waiters();
    }
}

/// Takes part in hand-overs of a partition's role: whoever runs work on the partition lets it end before another node becomes
/// primary, so that no caller sees it cut off. Dropping it is to have no work any more.
///
/// To be correct: after [`requested`](Quiescence::requested) begin nothing new, let what runs end, and say [`done`](Quiescence::done). The
/// role stays until then, but no longer than `QUIESCE_TIMEOUT`. Then either the role moves, or the hand-over has failed and
/// [`resumed`](Quiescence::resumed) returns.
pub struct Quiescence {
    participants: Arc<Participants>,
    participant: u64,
}

impl fmt::Debug for Quiescence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Quiescence({})", self.participant)
    }
}

impl Quiescence {
    /// Waits until the role is about to be handed over, and this one is not done yet.
    pub async fn requested(&self) {
        let is_asked =
            |state: &State| state.round.is_some_and(|round| state.done.get(&self.participant) < Some(&round));
        self.participants.until(is_asked).await;
    }

    /// Says that all work has ended. Until [`resumed`](Quiescence::resumed) none begins.
    pub fn done(&self) {
        let mut state = self.participants.state.lock();
        if let Some(round) = state.round {
            state.done.insert(self.participant, round);
        }
        drop(state);
        self.participants.changed.notify_waiters();
    }

    /// Waits until no hand-over is under way.
    pub async fn resumed(&self) {
        self.participants.until(|state| state.round.is_none()).await;
    }
}

impl Drop for Quiescence {
    fn drop(&mut self) {
        self.participants.state.lock().done.remove(&self.participant);
        self.participants.changed.notify_waiters();
    }
}
