use std::collections::BTreeMap;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::action::Object;
use crate::history::Phase;

/// How the load goes, as it says on its output: JSON, a line each.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// When, in nanoseconds since the beginning.
    pub at: u64,
    /// How many calls were answered.
    pub ok: u64,
    /// How many failed.
    pub fail: u64,
    /// How many may have happened.
    pub unknown: u64,
    /// Every object has answered a call that was made then or later; none if one has never answered.
    pub whole_since: Option<u64>,
    /// The object that has not answered for longest.
    pub last_object: String,
    /// The longest time without any answer since the last status, in milliseconds.
    pub pause_ms: u64,
}

/// Counts what the callers are told.
#[derive(Debug)]
pub struct Progress {
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    ok: u64,
    fail: u64,
    unknown: u64,
    /// When the last call of each object was made that was answered.
    answered: BTreeMap<Object, Option<u64>>,
    last_ok: u64,
    pause: u64,
}

impl Progress {
    /// Begins to count for these objects.
    pub fn new(objects: Vec<Object>) -> Self {
        let answered = objects.into_iter().map(|object| (object, None)).collect();
        Self { counts: Mutex::new(Counts { answered, ..Counts::default() }) }
    }

    /// Counts what became of a call.
    pub fn count(&self, object: &Object, called: u64, ended: u64, phase: &Phase) {
        let mut counts = self.counts.lock();
        match phase {
            Phase::Ok(_) => {
                counts.ok += 1;
                counts.pause = counts.pause.max(ended.saturating_sub(counts.last_ok));
                counts.last_ok = counts.last_ok.max(ended);
                if let Some(answered) = counts.answered.get_mut(object) {
                    *answered = (*answered).max(Some(called));
                }
            }
            Phase::Fail(_) => counts.fail += 1,
            Phase::Unknown(_) => counts.unknown += 1,
            Phase::Invoke(_) => {}
        }
    }

    /// How it goes.
    pub fn status(&self, now: u64) -> Status {
        let mut counts = self.counts.lock();
        let last = counts.answered.iter().min_by_key(|(_, answered)| **answered);
        let (last_object, whole_since) =
            last.map_or((String::new(), None), |(object, answered)| (object.to_string(), *answered));
        // A pause that has not ended yet counts as far as it has come.
        let pause = counts.pause.max(now.saturating_sub(counts.last_ok));
        let Counts { ok, fail, unknown, .. } = *counts;
        counts.pause = 0;
        Status { at: now, ok, fail, unknown, whole_since, last_object, pause_ms: pause / 1_000_000 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::Answer;
    use crate::history::Failure;

    #[test]
    fn the_system_is_whole_since_the_call_of_the_object_that_is_furthest_behind() {
        let (one, two) = (Object::Register(1), Object::Counter(2));
        let progress = Progress::new(vec![one, two]);
        let ok = Phase::Ok(Answer::Done);
        progress.count(&one, 100, 150, &ok);
        assert_eq!(progress.status(200).whole_since, None);
        assert_eq!(progress.status(200).last_object, "counter 2");
        progress.count(&two, 120, 190, &ok);
        progress.count(&one, 160, 195, &ok);
        let failure = Failure { kind: "Retry".to_owned(), text: String::new() };
        progress.count(&two, 170, 180, &Phase::Fail(failure));
        let status = progress.status(200);
        assert_eq!((status.whole_since, status.last_object.as_str()), (Some(120), "counter 2"));
        assert_eq!((status.ok, status.fail, status.unknown), (3, 1, 0));
    }

    #[test]
    fn a_pause_is_the_longest_time_without_an_answer_and_counts_while_it_lasts() {
        const MS: u64 = 1_000_000;
        let progress = Progress::new(vec![Object::Register(1)]);
        let ok = |at| progress.count(&Object::Register(1), at, at, &Phase::Ok(Answer::Done));
        ok(10 * MS);
        ok(50 * MS);
        ok(60 * MS);
        assert_eq!(progress.status(65 * MS).pause_ms, 40);
        assert_eq!(progress.status(165 * MS).pause_ms, 105);
        ok(170 * MS);
        assert_eq!(progress.status(171 * MS).pause_ms, 110);
    }
}
