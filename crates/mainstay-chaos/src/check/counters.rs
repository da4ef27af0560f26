//! An add happens once: its answer is its place in the order of all adds of its counter.

use std::collections::{BTreeMap, BTreeSet};

use mainstay_sim::linearizability::Moment;

use super::Verdict;
use crate::action::{Action, Answer};
use crate::history::History;

/// A total that somebody was told.
struct Told {
    called: Moment,
    ended: Moment,
    total: u64,
    /// True for the answer of an add, which is counted in.
    is_add: bool,
}

#[derive(Default)]
struct Counter {
    told: Vec<Told>,
    /// When the adds were called that may have happened.
    called: Vec<Moment>,
    /// When those were called of which it is not known.
    unknown: Vec<Moment>,
    /// When those ended that were answered.
    ended: Vec<Moment>,
}

pub(super) fn judge(history: &History, verdict: &mut Verdict) {
    let mut counters: BTreeMap<u32, Counter> = BTreeMap::new();
    for operation in &history.operations {
        let (Action::Add { counter } | Action::Total { counter }) = operation.action else { continue };
        let (called, ended) = (operation.called, operation.ended);
        let is_add = matches!(operation.action, Action::Add { .. });
        let counter = counters.entry(counter).or_default();
        if is_add && operation.may_have_happened() {
            counter.called.push(called);
        }
        match operation.answer() {
            Some(Answer::Total(total)) => {
                counter.told.push(Told { called, ended, total: *total, is_add });
                if is_add {
                    counter.ended.push(ended);
                }
            }
            _ if is_add && operation.may_have_happened() => counter.unknown.push(called),
            _ => {}
        }
    }
    let is_read = counters.values().any(|counter| counter.told.iter().any(|told| !told.is_add));
    verdict.need(is_read, "that adds happen once: no total was read");
    for (number, counter) in &mut counters {
        if let Err(violation) = counter.check() {
            verdict.object(format!("counter {number}: {violation}"));
        }
    }
}

impl Counter {
    fn check(&mut self) -> Result<(), String> {
        self.called.sort_unstable();
        self.unknown.sort_unstable();
        self.ended.sort_unstable();
        self.check_places()?;
        self.check_bounds()?;
        self.check_order()
    }

    /// No two adds have the same place.
    fn check_places(&self) -> Result<(), String> {
        let mut places = BTreeSet::new();
        match self.told.iter().find(|told| told.is_add && !places.insert(told.total)) {
            Some(Told { total, .. }) => Err(format!("two adds were answered {total}: one of them was lost")),
            None => Ok(()),
        }
    }

    /// A total counts what had been acknowledged, and nothing that was not asked for.
    fn check_bounds(&self) -> Result<(), String> {
        let before = |moments: &[Moment], moment| moments.partition_point(|at| *at < moment) as u64;
        let mut places: Vec<u64> = self.told.iter().filter(|told| told.is_add).map(|told| told.total).collect();
        places.sort_unstable();
        for Told { called, ended, total, is_add } in &self.told {
            let least = before(&self.ended, *called) + u64::from(*is_add);
            if *total < least {
                return Err(format!("the total was {total} when {least} were acknowledged: some were lost"));
            }
            let most = before(&self.called, *ended);
            if *total > most {
                return Err(format!("the total was {total} when {most} were asked for: some happened twice"));
            }
            // A place up to this one that no answer has is that of an add of unknown outcome.
            let open = total - places.partition_point(|place| place <= total) as u64;
            let unknown = before(&self.unknown, *ended);
            if open > unknown {
                return Err(format!(
                    "of the first {total}, {open} were not acknowledged, and only {unknown} have an unknown outcome: \
                     some happened twice"
                ));
            }
        }
        Ok(())
    }

    /// Who asks later is not told less.
    fn check_order(&self) -> Result<(), String> {
        let mut by_end: Vec<&Told> = self.told.iter().collect();
        by_end.sort_by_key(|told| told.ended);
        let mut by_call: Vec<&Told> = self.told.iter().collect();
        by_call.sort_by_key(|told| told.called);
        let mut ended = by_end.into_iter().peekable();
        let mut highest = 0;
        for told in by_call {
            while let Some(earlier) = ended.next_if(|earlier| earlier.ended < told.called) {
                highest = highest.max(earlier.total);
            }
            let is_less = if told.is_add { told.total <= highest } else { told.total < highest };
            if is_less {
                return Err(format!("the total went back from {highest} to {}", told.total));
            }
        }
        Ok(())
    }
}
