use std::sync::atomic::{AtomicU32, Ordering};

use mainstay_core::Result;

use crate::actor::actor_shared::ActorShared;
use crate::call::current;

/// How many entries an actor has at most of the kinds that are limited per actor. They are counted when that is first asked
/// for, because most actors never have any.
#[derive(Debug)]
pub(crate) struct Tally {
    answers: AtomicU32,
    lanes: AtomicU32,
    reminders: AtomicU32,
}

/// Stands for a number that nobody has counted.
const UNCOUNTED: u32 = u32::MAX;

impl Default for Tally {
    fn default() -> Self {
        Self {
            answers: AtomicU32::new(UNCOUNTED),
            lanes: AtomicU32::new(UNCOUNTED),
            reminders: AtomicU32::new(UNCOUNTED),
        }
    }
}

impl Tally {
    /// How many answers are kept for calls of the actor.
    pub(crate) fn answers(&self, shared: &ActorShared) -> Result<usize> {
        counted(&self.answers, || {
            // Before what is stored: what is committed in between is counted twice, and not missed.
            let uncommitted = shared.gate.uncommitted();
            let kept: usize = uncommitted.iter().map(|writes| writes.kept_answers()).sum();
            Ok(kept + shared.partition.store()?.answer_count(&shared.id)?)
        })
    }

    /// How many lanes of callers have an answer of the actor.
    pub(crate) fn lanes(&self, shared: &ActorShared) -> Result<usize> {
        counted(&self.lanes, || {
            // As for the answers above.
            let uncommitted = shared.gate.uncommitted();
            let kept: usize = uncommitted.iter().map(|writes| writes.kept_lanes()).sum();
            Ok(kept + shared.partition.store()?.lane_count(&shared.id)?)
        })
    }

    /// How many reminders the actor has, with those that the turn has set.
    pub(crate) fn reminders(&self, shared: &ActorShared) -> Result<usize> {
        counted(&self.reminders, || {
            let set = |writes: &mainstay_state::actor::ActorWrites| {
                writes.changed_reminders().filter(|(_, reminder)| reminder.is_some()).count()
            };
            let uncommitted = shared.gate.uncommitted();
            let in_turn = current::changed(|writes| Some(set(writes))).unwrap_or_default();
            let before: usize = uncommitted.iter().map(|writes| set(writes)).sum();
            Ok(in_turn + before + shared.partition.store()?.reminder_count(&shared.id)?)
        })
    }

    /// An answer is kept.
    pub(crate) fn add_answer(&self) {
        add(&self.answers);
    }

    /// A lane gets its first answer.
    pub(crate) fn add_lane(&self) {
        add(&self.lanes);
    }

    /// A reminder is set.
    pub(crate) fn add_reminder(&self) {
        add(&self.reminders);
    }

    /// Notes how many reminders there are.
    pub(crate) fn set_reminders(&self, count: usize) {
        self.reminders.store(fitting(count), Ordering::Relaxed);
    }

    /// Has the answers counted anew, because some are gone.
    pub(crate) fn forget_answers(&self) {
        self.answers.store(UNCOUNTED, Ordering::Relaxed);
        self.lanes.store(UNCOUNTED, Ordering::Relaxed);
    }

    /// Has everything counted anew, because a commit has failed.
    pub(crate) fn forget(&self) {
        self.forget_answers();
        self.reminders.store(UNCOUNTED, Ordering::Relaxed);
    }
}

fn counted(number: &AtomicU32, count: impl FnOnce() -> Result<usize>) -> Result<usize> {
    match number.load(Ordering::Relaxed) {
        UNCOUNTED => {
            let count = count()?;
            number.store(fitting(count), Ordering::Relaxed);
            Ok(count)
        }
        known => Ok(known as usize),
    }
}

fn add(number: &AtomicU32) {
    let _ =
        number.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |known| (known < UNCOUNTED - 1).then_some(known + 1));
}

/// What there are more of than this is beyond every limit.
fn fitting(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(UNCOUNTED).min(UNCOUNTED - 1)
}
