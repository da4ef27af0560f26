use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use bytes::Bytes;
use mainstay_core::Result;
use parking_lot::{Mutex, MutexGuard};

use super::batch::{LogBatch, LogWrite};
use super::callback::call;
use super::group::{Group, check};
use super::{Done, GroupId, GroupView, NodeLog, Refused};

/// A log in memory, for groups whose members keep each other's state and no disk does.
///
/// `done` is called at once, by the caller of [`submit`](NodeLog::submit) or by one that is calling back already.
///
/// Entries are kept as they were given, not copied: one that is a small part of something large keeps all of that in
/// memory until it is dropped.
///
/// ```
/// use mainstay_store::log::{GroupId, LogBatch, MemoryLog, NodeLog};
///
/// let log = MemoryLog::new();
/// let mut batch = LogBatch::new();
/// batch.append(GroupId(1), 1, vec!["first".into(), "second".into()]);
/// log.submit(batch, Box::new(|result| result.unwrap()))?;
/// assert_eq!(log.read(GroupId(1), 2..10, usize::MAX)?, ["second"]);
/// # Ok::<(), mainstay_core::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct MemoryLog {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    groups: BTreeMap<GroupId, Group<Bytes>>,
    /// Who has not been called yet, in order.
    waiting: VecDeque<Done>,
    /// Somebody is calling, outside of the lock, until nobody waits.
    calling: bool,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("groups", &self.groups.len()).finish_non_exhaustive()
    }
}

impl MemoryLog {
    /// An empty log.
    pub fn new() -> Self {
        Self::default()
    }
}

impl NodeLog for MemoryLog {
    fn submit(&self, batch: LogBatch, done: Done) -> Result<(), Box<Refused>> {
        let mut state = self.state.lock();
        if let Err(error) = check(&batch, &state.groups) {
            return Err(Refused::new(error, batch, done));
        }
        for write in batch.writes {
            apply(&mut state.groups, write);
        }
        state.waiting.push_back(done);
        if state.calling {
            return Ok(());
        }
        state.calling = true;
        while let Some(done) = state.waiting.pop_front() {
            MutexGuard::unlocked(&mut state, || call(done, Ok(())));
        }
        state.calling = false;
        Ok(())
    }

    fn read(&self, group: GroupId, range: Range<u64>, bytes_max: usize) -> Result<Vec<Bytes>> {
        let state = self.state.lock();
        let Some(found) = state.groups.get(&group) else { return Ok(Vec::new()) };
        let mut bytes = 0usize;
        let mut entries = Vec::new();
        for entry in found.range(group, &range)? {
            bytes = bytes.saturating_add(entry.len());
            if bytes > bytes_max && !entries.is_empty() {
                break;
            }
            entries.push(entry.clone());
        }
        Ok(entries)
    }

    fn lengths(&self, group: GroupId, range: Range<u64>) -> Result<Vec<u64>> {
        let state = self.state.lock();
        let Some(found) = state.groups.get(&group) else { return Ok(Vec::new()) };
        Ok(found.range(group, &range)?.map(|entry| entry.len() as u64).collect())
    }

    fn group(&self, group: GroupId) -> GroupView {
        self.state.lock().groups.get(&group).map(Group::view).unwrap_or_default()
    }

    fn groups(&self) -> Vec<GroupId> {
        self.state.lock().groups.keys().copied().collect()
    }
}

fn apply(groups: &mut BTreeMap<GroupId, Group<Bytes>>, write: LogWrite) {
    match write {
        LogWrite::Append { entries, .. } if entries.is_empty() => {}
        LogWrite::Append { group, first, entries } => {
            let group = groups.entry(group).or_default();
            group.start_at(first);
            group.entries.extend(entries);
        }
        // What stays for long is copied: the caller's bytes may be a small part of something large.
        LogWrite::HardState { group, state } => {
            groups.entry(group).or_default().hard_state = Some(Bytes::copy_from_slice(&state));
        }
        LogWrite::Truncate { group, from } => {
            if let Some(group) = groups.get_mut(&group) {
                drop(group.truncate(from));
            }
        }
        LogWrite::Compact { group, through, mark } => {
            let group = groups.entry(group).or_default();
            drop(group.compact(through, Bytes::copy_from_slice(&mark)));
            group.give_back();
        }
        LogWrite::Remove { group } => drop(groups.remove(&group)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_log_conforms() {
        super::super::conformance::check(&|| MemoryLog::new());
    }

    #[test]
    fn memory_is_given_back() {
        let group = GroupId(1);
        let log = MemoryLog::new();
        let submit = |fill: &dyn Fn(&mut LogBatch)| {
            let mut batch = LogBatch::new();
            fill(&mut batch);
            log.submit(batch, Box::new(drop)).unwrap();
        };
        submit(&|batch| _ = batch.append(group, 1, vec![Bytes::new(); 100_000]));
        let large = Bytes::from(vec![1; 1 << 20]);
        submit(&|batch| _ = batch.hard_state(group, large.slice(..3)).compact(group, 99_990, large.slice(5..9)));
        assert!(large.is_unique(), "a hard state or a mark keeps all that it was a part of");
        assert_eq!(log.group(group).next, 100_001);
        assert!(log.state.lock().groups[&group].entries.capacity() < 10_000);
    }
}
