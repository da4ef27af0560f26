//! Transfers are atomic and happen once: money is neither made nor lost, and what was acknowledged is on record.

use std::collections::{BTreeMap, BTreeSet};

use super::Verdict;
use crate::action::{Action, Answer};
use crate::history::{History, Operation};
use crate::workload::bank::{ACCOUNTS, INITIAL};

pub(super) fn judge(history: &History, verdict: &mut Verdict) {
    let mut banks: BTreeMap<u32, Vec<&Operation>> = BTreeMap::new();
    for operation in &history.operations {
        if let Action::Transfer { bank, .. } | Action::Balances { bank } | Action::Statement { bank } = operation.action
        {
            banks.entry(bank).or_default().push(operation);
        }
    }
    let mut is_shown = false;
    for (number, operations) in &banks {
        let transfers: BTreeMap<u64, &Operation> = operations
            .iter()
            .filter_map(|operation| match operation.action {
                Action::Transfer { id, .. } => Some((id, *operation)),
                _ => None,
            })
            .collect();
        for operation in operations {
            let judged = match operation.answer() {
                Some(Answer::Balances(balances)) => check_sum(balances),
                Some(Answer::Statement { balances, transfers: made }) => {
                    is_shown = true;
                    let made: BTreeSet<u64> = made.iter().copied().collect();
                    check_sum(balances)
                        .and_then(|()| check_record(operation, &made, &transfers))
                        .and_then(|()| check_replay(balances, &made, &transfers))
                }
                _ => Ok(()),
            };
            if let Err(violation) = judged {
                verdict.object(format!("bank {number}: {violation}"));
            }
        }
    }
    verdict.need(is_shown, "that transfers are atomic and happen once: no statement was read");
}

fn check_sum(balances: &[u64]) -> Result<(), String> {
    let expected = u64::from(ACCOUNTS) * INITIAL;
    let sum: u64 = balances.iter().sum();
    if balances.len() == ACCOUNTS as usize && sum == expected {
        return Ok(());
    }
    Err(format!("the accounts {balances:?} hold {sum} and not {expected}: a transfer was seen in part"))
}

/// What was acknowledged before is there; what was refused, or asked for later, is not.
fn check_record(
    statement: &Operation,
    made: &BTreeSet<u64>,
    transfers: &BTreeMap<u64, &Operation>,
) -> Result<(), String> {
    for (id, transfer) in transfers {
        let is_made = made.contains(id);
        let is_refused = !transfer.may_have_happened() || transfer.answer() == Some(&Answer::Transferred(false));
        let is_acknowledged = transfer.answer() == Some(&Answer::Transferred(true));
        if is_made && is_refused {
            return Err(format!("transfer {id} was refused and has happened"));
        }
        if is_made && transfer.called > statement.ended {
            return Err(format!("transfer {id} has happened before it was asked for"));
        }
        if !is_made && is_acknowledged && transfer.ended < statement.called {
            return Err(format!("transfer {id} was acknowledged and is lost"));
        }
    }
    match made.iter().find(|id| !transfers.contains_key(id)) {
        Some(id) => Err(format!("transfer {id} is on record and was never asked for")),
        None => Ok(()),
    }
}

/// The accounts are what the transfers on record, once each, have made of them.
fn check_replay(balances: &[u64], made: &BTreeSet<u64>, transfers: &BTreeMap<u64, &Operation>) -> Result<(), String> {
    let mut expected = vec![i128::from(INITIAL); ACCOUNTS as usize];
    for id in made {
        if let Some(Operation { action: Action::Transfer { from, to, amount, .. }, .. }) = transfers.get(id) {
            for (account, change) in [(from, -i128::from(*amount)), (to, i128::from(*amount))] {
                if let Some(held) = expected.get_mut(*account as usize) {
                    *held += change;
                }
            }
        }
    }
    if balances.iter().map(|held| i128::from(*held)).eq(expected.iter().copied()) {
        return Ok(());
    }
    Err(format!("the accounts hold {balances:?}, and the transfers on record, once each, make {expected:?}"))
}
