//! A reminder is neither lost nor settled twice.

use std::collections::BTreeMap;

use mainstay_sim::linearizability::Moment;

use super::Verdict;
use crate::action::{Action, Answer, Ticks};
use crate::history::History;

pub(super) fn judge(history: &History, verdict: &mut Verdict) {
    let mut tickers: BTreeMap<u32, Vec<(Moment, Moment, Ticks)>> = BTreeMap::new();
    for operation in &history.operations {
        if let (Action::Ticks { ticker }, Some(Answer::Ticks(ticks))) = (&operation.action, operation.answer()) {
            tickers.entry(*ticker).or_default().push((operation.called, operation.ended, *ticks));
        }
    }
    let has_fired = tickers.values().flatten().any(|(_, _, ticks)| ticks.count > 0);
    verdict.need(has_fired, "that reminders are neither lost nor settled twice: none has fired");
    for (number, told) in &mut tickers {
        if let Err(violation) = check(told) {
            verdict.object(format!("ticker {number}: {violation}"));
        }
    }
}

/// What was told is in the order of the calls.
fn check(told: &[(Moment, Moment, Ticks)]) -> Result<(), String> {
    for (_, _, ticks) in told {
        if ticks.miscounted > 0 {
            return Err(format!("the reminder came {} times with a number that was not its turn", ticks.miscounted));
        }
        if ticks.misplanned > 0 {
            return Err(format!("the reminder came {} times for another time than its next", ticks.misplanned));
        }
    }
    let mut by_end: Vec<_> = told.iter().collect();
    by_end.sort_by_key(|(_, ended, _)| *ended);
    let mut ended = by_end.into_iter().peekable();
    let mut highest = 0;
    for (called, _, ticks) in told {
        while let Some((_, _, earlier)) = ended.next_if(|(_, ended, _)| ended < called) {
            highest = highest.max(earlier.count);
        }
        if ticks.count < highest {
            return Err(format!("the count went back from {highest} to {}", ticks.count));
        }
    }
    Ok(())
}
