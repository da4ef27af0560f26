//! Each judge finds what was planted for it, and has nothing to say to the same history without it.

use super::journals::Journals;
use super::*;
use crate::action::{Action, Answer, Ticks};
use crate::history::{Failure, Operation, Outcome};
use crate::workload::journal::JournalEntry;

/// A history that is written down step by step.
#[derive(Default)]
struct Story {
    history: History,
    moment: u64,
}

impl Story {
    fn tick(&mut self) -> u64 {
        self.moment += 1;
        self.moment
    }

    /// Asks for something that has no end yet, and says under which number.
    fn call(&mut self, action: Action) -> usize {
        let called = self.tick();
        let op = self.history.operations.len() as u64 + 1;
        let outcome = Outcome::Unknown(None);
        self.history.operations.push(Operation { op, action, called, ended: u64::MAX, outcome });
        self.history.operations.len() - 1
    }

    fn answer(&mut self, call: usize, answer: Answer) {
        let ended = self.tick();
        let operation = &mut self.history.operations[call];
        (operation.ended, operation.outcome) = (ended, Outcome::Ok(answer));
    }

    fn ok(&mut self, action: Action, answer: Answer) -> &mut Self {
        let call = self.call(action);
        self.answer(call, answer);
        self
    }

    fn fail(&mut self, action: Action, kind: &str) -> &mut Self {
        let call = self.call(action);
        let ended = self.tick();
        let operation = &mut self.history.operations[call];
        let failure = Failure { kind: kind.to_owned(), text: "planted".to_owned() };
        (operation.ended, operation.outcome) = (ended, Outcome::Fail(failure));
        self
    }

    fn unknown(&mut self, action: Action) -> &mut Self {
        self.call(action);
        self
    }

    fn judged_by(&self, judge: impl Fn(&History, &mut Verdict)) -> Vec<String> {
        let mut verdict = Verdict::of(&self.history);
        judge(&self.history, &mut verdict);
        verdict.violations
    }
}

fn assert_clean(violations: Vec<String>) {
    assert_eq!(violations, Vec::<String>::new());
}

fn assert_one(violations: Vec<String>, text: &str) {
    assert_eq!(violations.len(), 1, "{violations:?}");
    assert!(violations[0].contains(text), "{violations:?} does not say {text:?}");
}

fn read() -> Action {
    Action::Read { register: 3 }
}

fn write(value: u64) -> Action {
    Action::Write { register: 3, value }
}

fn swap(expected: u64, value: u64) -> Action {
    Action::Swap { register: 3, expected, value }
}

#[test]
fn a_read_of_what_was_replaced_is_found() {
    let mut story = Story::default();
    story.ok(write(1), Answer::Done).ok(swap(1, 2), Answer::Value(1)).unknown(write(3)).ok(read(), Answer::Value(2));
    assert_clean(story.judged_by(registers::judge));
    story.ok(read(), Answer::Value(1));
    assert_one(story.judged_by(registers::judge), "register 3 is not linearizable");
}

#[test]
fn a_swap_that_was_lost_is_found() {
    let mut story = Story::default();
    story.ok(swap(0, 1), Answer::Value(0)).ok(swap(0, 2), Answer::Value(1)).ok(read(), Answer::Value(1));
    assert_clean(story.judged_by(registers::judge));
    story.ok(swap(0, 4), Answer::Value(0));
    assert_one(story.judged_by(registers::judge), "0 was replaced twice, by 1 and by 4");
}

#[test]
fn a_write_that_was_refused_and_is_read_is_found() {
    let mut story = Story::default();
    story.fail(write(1), "NotPrimary").ok(read(), Answer::Value(0));
    assert_clean(story.judged_by(registers::judge));
    story.ok(read(), Answer::Value(1));
    assert_one(story.judged_by(registers::judge), "1 was read and never written");
}

fn add() -> Action {
    Action::Add { counter: 7 }
}

fn total(total: u64) -> (Action, Answer) {
    (Action::Total { counter: 7 }, Answer::Total(total))
}

/// Two adds that were answered, and one of unknown outcome.
fn counted() -> Story {
    let mut story = Story::default();
    story.ok(add(), Answer::Total(1)).unknown(add()).ok(add(), Answer::Total(2)).fail(add(), "Overloaded");
    story
}

#[test]
fn an_add_that_was_lost_is_found() {
    for (total, answer) in [total(2), total(3)] {
        let mut story = counted();
        story.ok(total, answer);
        assert_clean(story.judged_by(counters::judge));
    }
    let (action, answer) = total(1);
    assert_one(counted().ok(action, answer).judged_by(counters::judge), "total was 1 when 2 were acknowledged");
    assert_one(counted().ok(add(), Answer::Total(2)).judged_by(counters::judge), "two adds were answered 2");
}

#[test]
fn an_add_that_happened_twice_is_found() {
    let (action, answer) = total(4);
    assert_one(counted().ok(action, answer).judged_by(counters::judge), "the total was 4 when 3 were asked for");
    // There are not too many in all, because some have begun meanwhile; but when 3 was told, the second place had no add.
    let mut story = Story::default();
    story.ok(add(), Answer::Total(1));
    let (one, other) = (story.call(add()), story.call(add()));
    story.ok(add(), Answer::Total(3)).unknown(add());
    story.answer(one, Answer::Total(4));
    story.answer(other, Answer::Total(5));
    assert_one(story.judged_by(counters::judge), "of the first 3, 1 were not acknowledged, and only 0");
}

#[test]
fn a_total_that_goes_back_is_found() {
    let mut story = Story::default();
    let pending = story.call(add());
    let (action, answer) = total(1);
    story.ok(action, answer);
    story.answer(pending, Answer::Total(1));
    assert_clean(story.judged_by(counters::judge));
    let mut story = Story::default();
    let pending = story.call(add());
    for (action, answer) in [total(1), total(0)] {
        story.ok(action, answer);
    }
    story.answer(pending, Answer::Total(1));
    assert_one(story.judged_by(counters::judge), "went back from 1 to 0");
}

fn transfer(id: u64) -> Action {
    Action::Transfer { bank: 2, id, from: 0, to: 1, amount: 10 }
}

fn statement(balances: &[u64], transfers: &[u64]) -> (Action, Answer) {
    let answer = Answer::Statement { balances: balances.to_vec(), transfers: transfers.to_vec() };
    (Action::Statement { bank: 2 }, answer)
}

/// One transfer that was acknowledged, one that was refused, and one of unknown outcome; and then a statement.
fn banked(balances: &[u64], transfers: &[u64]) -> Vec<String> {
    let mut story = Story::default();
    story.ok(transfer(1), Answer::Transferred(true)).fail(transfer(2), "Timeout").unknown(transfer(3));
    story.ok(transfer(4), Answer::Transferred(false));
    let (action, answer) = statement(balances, transfers);
    story.ok(action, answer).judged_by(banks::judge)
}

#[test]
fn a_transfer_that_was_seen_in_part_is_found() {
    assert_clean(banked(&[90, 110, 100, 100, 100], &[1]));
    assert_clean(banked(&[80, 120, 100, 100, 100], &[1, 3]));
    assert_one(banked(&[90, 100, 100, 100, 100], &[1]), "hold 490 and not 500");
    let mut story = Story::default();
    story.ok(Action::Balances { bank: 2 }, Answer::Balances(vec![90, 110, 110, 100, 100]));
    assert_one(story.judged_by(banks::judge), "hold 510 and not 500");
}

#[test]
fn a_transfer_that_is_lost_refused_or_made_twice_is_found() {
    assert_one(banked(&[100, 100, 100, 100, 100], &[]), "transfer 1 was acknowledged and is lost");
    assert_one(banked(&[80, 120, 100, 100, 100], &[1, 2]), "transfer 2 was refused and has happened");
    assert_one(banked(&[80, 120, 100, 100, 100], &[1, 4]), "transfer 4 was refused and has happened");
    assert_one(banked(&[80, 120, 100, 100, 100], &[1]), "once each");
    assert_one(banked(&[80, 120, 100, 100, 100], &[1, 9]), "transfer 9 is on record and was never asked for");
}

fn ticks(count: u64) -> Ticks {
    Ticks { count, planned_ms: 500 * count, ..Ticks::default() }
}

fn ticked(told: &[Ticks]) -> Vec<String> {
    let mut story = Story::default();
    for ticks in told {
        story.ok(Action::Ticks { ticker: 1 }, Answer::Ticks(*ticks));
    }
    story.judged_by(tickers::judge)
}

#[test]
fn a_reminder_that_is_lost_or_settled_twice_is_found() {
    assert_clean(ticked(&[ticks(0), ticks(2), ticks(2), ticks(5)]));
    assert_one(ticked(&[ticks(2), ticks(1)]), "the count went back from 2 to 1");
    assert_one(ticked(&[Ticks { miscounted: 1, ..ticks(2) }]), "a number that was not its turn");
    assert_one(ticked(&[Ticks { misplanned: 1, ..ticks(2) }]), "another time than its next");
}

fn opened(fence: u64) -> JournalEntry {
    JournalEntry { fence, line: None }
}

fn wrote(fence: u64, line: u64) -> JournalEntry {
    JournalEntry { fence, line: Some(line) }
}

/// A line that was acknowledged, one that was refused, and one of unknown outcome; and what the journal says.
fn journaled(entries: &[JournalEntry]) -> Vec<String> {
    let mut story = Story::default();
    let append = |line| Action::Append { journal: 0, line };
    story.ok(append(1), Answer::Fence(1)).fail(append(2), "Retry").unknown(append(3));
    let journals = Journals::from([(0, entries.to_vec())]);
    story.judged_by(|history, verdict| journals::judge(history, &journals, verdict))
}

#[test]
fn a_stale_owner_that_writes_is_found() {
    assert_clean(journaled(&[opened(1), wrote(1, 1), opened(2), wrote(2, 3)]));
    // Sent twice, because nobody knew whether it had happened.
    assert_clean(journaled(&[opened(1), wrote(1, 1), opened(2), wrote(2, 1), wrote(2, 3)]));
    let stale = journaled(&[opened(1), wrote(1, 1), opened(2), wrote(2, 3), wrote(1, 3)]);
    assert_one(stale, "line 3 was written with fence 1 when the last opening had 2");
    assert_one(journaled(&[opened(1), wrote(1, 1), opened(1)]), "opened with fence 1 after 1");
}

#[test]
fn a_line_that_is_lost_or_refused_is_found() {
    assert_one(journaled(&[opened(1), wrote(1, 3)]), "line 1 was acknowledged with fence 1 and is lost");
    assert_one(journaled(&[opened(1), wrote(1, 1), wrote(1, 2)]), "line 2 was refused and is there");
}

#[test]
fn an_error_that_no_fault_explains_is_found_once() {
    let mut story = Story::default();
    story.fail(add(), "StorageFull").fail(add(), "NotPrimary");
    assert_clean(story.judged_by(errors::judge));
    story.fail(add(), "Corrupt").fail(add(), "Corrupt");
    assert_one(story.judged_by(errors::judge), "counter 7 failed with Corrupt, which no fault explains: planted");
}

#[test]
fn a_verdict_says_what_was_not_shown() {
    let folder = tempfile::tempdir().unwrap();
    let verdict = check(&History::default(), folder.path()).unwrap();
    assert!(!verdict.is_clean());
    assert_eq!(verdict.not_shown.len(), 5, "{verdict}");
    assert!(verdict.to_string().ends_with("nothing was shown: no operation was answered"), "{verdict}");
}

#[test]
fn journals_are_read_line_by_line() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(crate::workload::journal::path(folder.path(), 0), "{\"fence\":1}\n{\"fence\":1,\"line\":5}\n")
        .unwrap();
    assert_eq!(journals::read(folder.path()).unwrap(), Journals::from([(0, vec![opened(1), wrote(1, 5)])]));
    std::fs::write(crate::workload::journal::path(folder.path(), 1), "{\"fence\":1}\nrubbish\n").unwrap();
    let error = journals::read(folder.path()).unwrap_err();
    assert!(error.to_string().contains("journal-1.journal, line 2"), "{error}");
}
