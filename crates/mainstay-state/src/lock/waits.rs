use std::collections::{HashMap, HashSet, VecDeque};

use foldhash::fast::FixedState;
use mainstay_replica::Key;

use super::deadlock::Deadlock;
use super::held::Held;
use super::queue::Place;
use super::request::Request;
use super::table::LockTable;
use super::wait::{LockWait, WaitsFor};
use super::{LockMode, TransactionId};

/// A map that lost most of its records keeps room for this many.
const RECORDS_ROOM_MIN: usize = 64;

/// Who waits for what: the nodes of the graph whose cycles are deadlocks. Its edges are in the table.
///
/// Whoever waits has a record. The reverse does not hold: who is granted its request leaves the queue at once, and
/// removes the record when it has heard of it.
#[derive(Debug, Default)]
pub(super) struct Waits {
    records: HashMap<TransactionId, Record, FixedState>,
    tickets: u64,
}

/// A request that waits, or was granted a moment ago.
#[derive(Debug)]
struct Record {
    request: Request,
    place: Place,
    resource: String,
}

impl Waits {
    /// Makes a record of a request that is about to wait, and says at which place it is to stand.
    pub(super) fn add(&mut self, request: &Request, resource: String) -> Place {
        let place = Place::new(self.tickets, request.former);
        self.tickets += 1;
        self.records.insert(request.id, Record { request: request.clone(), place, resource });
        place
    }

    /// Forgets a request, and gives back the name of what it wanted.
    pub(super) fn remove(&mut self, id: TransactionId) -> String {
        let record = self.records.remove(&id);
        // Each time costs what it frees, and at least as many were removed since the last time.
        if self.records.capacity() > RECORDS_ROOM_MIN && self.records.len() * 8 < self.records.capacity() {
            self.records.shrink_to((self.records.len() * 2).max(RECORDS_ROOM_MIN / 2));
        }
        record.map_or_else(String::new, |record| record.resource)
    }

    /// The cycle that was closed when the request of `id` began to wait, if there is one.
    ///
    /// `held` is what its owner holds.
    pub(super) fn find_deadlock(&self, table: &LockTable, id: TransactionId, held: &Held) -> Option<Deadlock> {
        if !self.is_waited_for(table, id, held) {
            return None;
        }
        Search { waits: self, table, victim: id, reached: HashMap::default(), shared: HashSet::default() }.run()
    }

    /// Whether anyone may wait for `id`. If not, it is in no cycle, and most who wait for a popular key are not.
    ///
    /// Who waits for it waits for a key that it holds: a new request has nobody behind it but in the queue of a key
    /// that is held, where a conversion goes to the front.
    fn is_waited_for(&self, table: &LockTable, id: TransactionId, held: &Held) -> bool {
        if self.records.len() < held.len() {
            return self.records.values().any(|record| {
                let Request { hash, key, .. } = &record.request;
                record.request.id != id && held.get(*hash, key).is_some()
            });
        }
        held.iter().any(|lock| {
            table.with_entry(lock.hash, &lock.key, |entry| entry.is_waited_for_by_another(id)).unwrap_or(false)
        })
    }
}

/// The search for a way from a transaction back to itself, the shortest way first.
struct Search<'a> {
    waits: &'a Waits,
    table: &'a LockTable,
    victim: TransactionId,
    /// Whoever was reached: from where, and by which edge.
    reached: HashMap<TransactionId, (TransactionId, WaitsFor), FixedState>,
    /// The keys whose sharers were all reached: many may wait for a key that many share.
    shared: HashSet<&'a Key, FixedState>,
}

impl<'a> Search<'a> {
    fn run(mut self) -> Option<Deadlock> {
        let mut next = VecDeque::from([self.victim]);
        while let Some(id) = next.pop_front() {
            let Some(record) = self.waits.records.get(&id) else { continue };
            for edge in self.edges(record) {
                let to = edge.transaction();
                if to == self.victim {
                    return Some(self.deadlock(id, edge));
                }
                self.reached.entry(to).or_insert_with(|| {
                    next.push_back(to);
                    (id, edge)
                });
            }
        }
        None
    }

    /// For whom a request waits, as far as a cycle can go through it.
    ///
    /// - Holders in its way. Of those only the ones that wait themselves, and the victim.
    /// - Those ahead in the queue. Whoever is ahead waits here, for the holders in its own way. For a request that
    ///   wants to share or to update these are the strong holder, if any, which is in the way of everyone behind it
    ///   too. So only those that want the key for themselves lead further, and all of these lead to the same holders:
    ///   the first one stands for all.
    ///
    /// Those who are behind the victim in its queue are not asked whether they are, because they lead to it anyhow or
    /// close no circle. They are there only if the victim converts, and so is a holder. If it wants the key for itself,
    /// it is the first of that kind ahead of them, or in the way of the first. If it wants to update, then what it waits
    /// for, the strong holder or somebody ahead, they wait for too: a circle through both would have been one without
    /// the victim, and refused earlier.
    fn edges(&mut self, record: &'a Record) -> Vec<WaitsFor> {
        let Request { hash, ref key, id, mode, .. } = record.request;
        self.table
            .with_entry(hash, key, |entry| {
                let mut edges = Vec::new();
                let Some(queue) = entry.queue.as_ref().filter(|_| entry.is_waiting(record.place)) else {
                    return edges;
                };
                // The victim does not reach itself, so that what it reaches is not all.
                let all = mode.is_compatible_with(LockMode::Shared) || id == self.victim || self.shared.insert(key);
                let holders = entry.holders.in_the_way_of(id, mode);
                // If another one has reached the sharers, the strong holder, which is the first, is all that is left.
                for (holder, mode) in holders.take(if all { usize::MAX } else { 1 }) {
                    if holder.id == self.victim || self.waits.records.contains_key(&holder.id) {
                        edges.push(WaitsFor::Holder { transaction: holder.id, mode });
                    }
                }
                if let Some(waiter) = queue.first_exclusive_ahead_of(record.place) {
                    edges.push(WaitsFor::Ahead { transaction: waiter.id, mode: waiter.mode });
                }
                edges
            })
            .unwrap_or_default()
    }

    /// The cycle from the victim to itself, closed by an edge of `last`.
    fn deadlock(&self, last: TransactionId, edge: WaitsFor) -> Deadlock {
        let mut cycle = Vec::from_iter(self.wait(last, edge));
        let mut id = last;
        // Each step goes to the one from which the search came, and ends where it began.
        while let Some((from, edge)) = self.reached.get(&id) {
            cycle.extend(self.wait(*from, *edge));
            id = *from;
        }
        cycle.reverse();
        Deadlock { victim: self.victim, cycle }
    }

    fn wait(&self, id: TransactionId, edge: WaitsFor) -> Option<LockWait> {
        let record = self.waits.records.get(&id)?;
        Some(LockWait {
            transaction: id,
            resource: record.resource.clone(),
            mode: record.request.mode,
            waits_for: vec![edge],
        })
    }
}

#[cfg(test)]
impl Waits {
    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.records.len()
    }
}
