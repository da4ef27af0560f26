//! Registers are linearizable: one order of all reads, writes and swaps explains every answer.

use std::collections::BTreeMap;

use mainstay_sim::linearizability::{self, Read, Swap, Write};

use super::Verdict;
use crate::action::{Action, Answer};
use crate::history::{History, Operation, Outcome};

#[derive(Default)]
struct Register {
    writes: Vec<Write>,
    reads: Vec<Read>,
    swaps: Vec<Swap>,
}

pub(super) fn judge(history: &History, verdict: &mut Verdict) {
    let mut registers: BTreeMap<u32, Register> = BTreeMap::new();
    for operation in &history.operations {
        if let Action::Read { register } | Action::Write { register, .. } | Action::Swap { register, .. } =
            operation.action
        {
            registers.entry(register).or_default().add(operation);
        }
    }
    let has_reads = registers.values().any(|register| !register.reads.is_empty());
    verdict.need(has_reads, "that registers are linearizable: none was read");
    for (number, Register { writes, reads, swaps }) in &registers {
        if let Err(contradiction) = linearizability::check(writes, reads, swaps) {
            verdict.object(format!("register {number} is not linearizable: {contradiction}"));
        }
    }
}

impl Register {
    fn add(&mut self, operation: &Operation) {
        let Operation { called, ended, .. } = *operation;
        let is_certain = operation.answer().is_some();
        match (&operation.action, &operation.outcome) {
            // A value that was refused and is seen all the same was never written.
            (_, Outcome::Fail(_)) => {}
            (Action::Write { value, .. }, _) => self.writes.push(Write { value: *value, called, ended, is_certain }),
            (Action::Read { .. }, Outcome::Ok(Answer::Value(value))) => {
                self.reads.push(Read { value: *value, called, ended });
            }
            (Action::Swap { expected, .. }, Outcome::Ok(Answer::Value(found))) if found != expected => {
                self.reads.push(Read { value: *found, called, ended });
            }
            (Action::Swap { expected, value, .. }, _) => {
                self.swaps.push(Swap { expected: *expected, value: *value, called, ended, is_certain });
            }
            _ => {}
        }
    }
}
