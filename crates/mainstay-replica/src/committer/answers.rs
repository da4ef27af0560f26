use std::task::{Context, Poll, Waker};

use mainstay_core::{NodeId, SequenceNumber};
use slab::Slab;

/// Finds the answer of one caller.
pub(super) type AnswerKey = usize;

/// How many places are kept when nobody waits.
const KEPT_PLACES_MAX: usize = 4 << 10;

/// What callers are going to hear. Each has a place, which the next one gets after it: waiting takes no allocation.
#[derive(Debug, Default)]
pub(super) struct Answers {
    places: Slab<Answer>,
}

/// What came of a commit. Whoever hears it makes an error of it: many are told at a time, while others wait for them to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    Committed(SequenceNumber),
    /// Nothing was changed, and where the primary may be.
    NotPrimary(Option<NodeId>),
    /// It cannot be applied, and why.
    Refused(Box<str>),
    /// It may or may not have happened.
    Unknown,
}

#[derive(Debug)]
enum Answer {
    /// Nothing is known yet.
    Awaited(Option<Waker>),
    Given(Outcome),
    /// The caller went away.
    Unwanted,
}

impl Answers {
    /// A place for somebody who is going to wait, with who is to be woken if that is known.
    pub(super) fn admit(&mut self, waker: Option<Waker>) -> AnswerKey {
        self.places.insert(Answer::Awaited(waker))
    }

    /// Answers whoever waits at a place, and returns who is to be woken for it.
    #[must_use]
    pub(super) fn give(&mut self, key: AnswerKey, outcome: Outcome) -> Option<Waker> {
        match self.places.get_mut(key)? {
            Answer::Awaited(waker) => {
                let waker = waker.take();
                self.places[key] = Answer::Given(outcome);
                waker
            }
            Answer::Given(_) => None,
            Answer::Unwanted => {
                self.free(key);
                None
            }
        }
    }

    /// Takes the answer from its place, which is free then; or notes who is to be woken for it, and returns who was before.
    pub(super) fn poll(&mut self, key: AnswerKey, cx: &Context<'_>) -> (Poll<Outcome>, Option<Waker>) {
        match self.places.get_mut(key) {
            Some(Answer::Awaited(Some(waker))) if waker.will_wake(cx.waker()) => (Poll::Pending, None),
            Some(Answer::Awaited(waker)) => (Poll::Pending, waker.replace(cx.waker().clone())),
            Some(Answer::Given(outcome)) => {
                let outcome = std::mem::replace(outcome, Outcome::Unknown);
                self.free(key);
                (Poll::Ready(outcome), None)
            }
            Some(Answer::Unwanted) | None => {
                debug_assert!(false, "whoever has gone does not ask");
                (Poll::Pending, None)
            }
        }
    }

    /// Leaves a place before there was an answer, or with it. Returns who would have been woken.
    #[must_use]
    pub(super) fn leave(&mut self, key: AnswerKey) -> Option<Waker> {
        match self.places.get_mut(key)? {
            Answer::Awaited(waker) => {
                let waker = waker.take();
                self.places[key] = Answer::Unwanted;
                waker
            }
            Answer::Given(_) | Answer::Unwanted => {
                self.free(key);
                None
            }
        }
    }

    /// Frees a place, and with the last one the memory of a crowd.
    fn free(&mut self, key: AnswerKey) {
        self.places.remove(key);
        if self.places.is_empty() && self.places.capacity() > KEPT_PLACES_MAX {
            self.places = Slab::new();
        }
    }

    /// True if nobody waits at a place any more, which is free then.
    pub(super) fn is_left(&mut self, key: AnswerKey) -> bool {
        let is_left = matches!(self.places.get(key), Some(Answer::Unwanted));
        if is_left {
            self.free(key);
        }
        is_left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn committed(number: u64) -> Outcome {
        Outcome::Committed(SequenceNumber(number))
    }

    fn waiting(answers: &mut Answers) -> AnswerKey {
        let key = answers.admit(None);
        assert!(answers.poll(key, &Context::from_waker(Waker::noop())).0.is_pending());
        key
    }

    #[test]
    fn an_answer_is_heard_once_and_the_first_one_counts() {
        let mut answers = Answers::default();
        let key = waiting(&mut answers);
        assert!(answers.give(key, committed(7)).is_some(), "somebody is to be woken");
        assert!(answers.give(key, committed(8)).is_none());
        let (answer, _) = answers.poll(key, &Context::from_waker(Waker::noop()));
        assert_eq!(answer, Poll::Ready(committed(7)));
        assert!(answers.places.is_empty());
    }

    #[test]
    fn whoever_leaves_leaves_no_place_behind() {
        let mut answers = Answers::default();
        let [before, in_flight, answered] = [(); 3].map(|()| waiting(&mut answers));
        assert!(answers.leave(before).is_some() && answers.is_left(before));
        assert!(answers.leave(in_flight).is_some() && answers.give(in_flight, committed(1)).is_none());
        assert!(answers.give(answered, committed(2)).is_some() && answers.leave(answered).is_none());
        assert!(answers.places.is_empty());
        let stays = waiting(&mut answers);
        assert!(!answers.is_left(stays));
        assert_eq!(answers.places.len(), 1);
    }

    #[test]
    fn the_memory_of_a_crowd_goes_with_it() {
        let mut answers = Answers::default();
        let crowd: Vec<AnswerKey> = (0..2 * KEPT_PLACES_MAX).map(|_| answers.admit(None)).collect();
        for key in crowd {
            assert!(answers.leave(key).is_none() && answers.is_left(key), "nobody was lost");
        }
        assert!(answers.places.capacity() <= KEPT_PLACES_MAX);
    }
}
