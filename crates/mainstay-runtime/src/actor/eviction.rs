//! Which actors leave memory without being told to: those that were idle for long, and those that were used least recently
//! when memory is short.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use mainstay_core::task::JoinHandle;
use mainstay_core::time::{self, Duration};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::actor::Actor;
use crate::actor::actor_table::ActorTable;
use crate::actor::cell::ActorCell;
use crate::actor::deactivation::leave_each;
use crate::actor::memory_budget::{Excess, MemoryBudget};

/// How many `deactivate` hooks of a partition run at a time, when actors leave it because they were idle or memory is short.
const LEAVING_AT_ONCE: usize = 64;

/// How many actors of a type are looked at to find out which of them were used least recently. If there are more, they are
/// a sample.
const SAMPLE: usize = 16 << 10;

/// How long a node waits that could not free as much memory as it should, because actors are busy, before it tries again.
const RELIEF_PAUSE: Duration = Duration::from_millis(100);

/// A [`ActorTable`] of actors of any type, as memory sees it.
pub(crate) trait Gathered: Send + Sync {
    /// How many places there are.
    fn places(&self) -> usize;

    /// The stamps and the bytes of idle actors: of every one whose place in the table is a multiple of `step`.
    fn sample(&self, step: usize) -> Vec<(u64, u64)>;

    /// Takes idle actors out of memory that were last used up to a stamp, the least recently used first, as long as
    /// something is left of the excess.
    fn shed(self: Arc<Self>, up_to: u64, excess: Arc<Mutex<Excess>>) -> JoinHandle<()>;
}

/// Watches over the actors of a partition, until the partition is closed.
pub(crate) async fn watch<T: Actor>(table: Weak<ActorTable<T>>, memory_budget: Arc<MemoryBudget>) {
    loop {
        let scan = async {
            inhabited(&table).await;
            match memory_budget.next_scan() {
                Some(moment) => time::sleep_until(moment).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = scan => {
                let Some(table) = table.upgrade() else { return };
                collect(&table, &memory_budget).await;
            }
            () = memory_budget.pressed() => relieve(&memory_budget).await,
        }
    }
}

/// Ready when an actor has a place in a partition: without any, a scan would find nothing, and none wakes up for it.
async fn inhabited<T: Actor>(table: &Weak<ActorTable<T>>) {
    let Some(vacancy) = table.upgrade().map(|table| table.partition().vacancy.clone()) else { return };
    vacancy.is_unwatched.store(true, Ordering::SeqCst);
    // Looked at after that: a place that is made from now on notifies.
    while table.upgrade().is_some_and(|table| table.len() == 0) {
        vacancy.ended.notified().await;
    }
    vacancy.is_unwatched.store(false, Ordering::SeqCst);
}

/// That a partition may have no place for any actor, and so no scan for idle ones.
#[derive(Default)]
pub(crate) struct Vacancy {
    is_unwatched: AtomicBool,
    ended: Notify,
}

impl Vacancy {
    /// Ends it, when a place was made. The clock of uses has stood still while nothing was scanned: it moves to now, before
    /// the first use of the new place.
    pub(crate) fn end(&self, memory_budget: &MemoryBudget) {
        if self.is_unwatched.load(Ordering::SeqCst) {
            memory_budget.advance();
            self.ended.notify_one();
        }
    }
}

/// Takes actors out of memory that were idle for long enough.
async fn collect<T: Actor>(table: &Arc<ActorTable<T>>, memory_budget: &MemoryBudget) {
    let settings = &table.partition().settings;
    let scan = memory_budget.advance();
    // One used at any time since a scan counts as used when the next one began.
    let scans = settings.idle_timeout.as_nanos().div_ceil(settings.idle_scan.as_nanos().max(1));
    let before = MemoryBudget::stamp_of(scan.saturating_sub(u64::try_from(scans).unwrap_or(u64::MAX)));
    let idle = table.idle_before(before);
    leave_each(table.partition(), idle, LEAVING_AT_ONCE, move |cell| cell.take_idle(before)).await;
}

/// Takes those actors of a type out of memory that were used least recently, until its limits are kept.
async fn relieve(memory_budget: &MemoryBudget) {
    loop {
        // Whoever does so already goes on until it is done.
        let Ok(alone) = memory_budget.relieving.try_lock() else { return };
        let is_relieved = relieve_alone(memory_budget).await;
        // Before anybody is told, and before the last look: whoever is told while it is taken leaves it at that.
        drop(alone);
        if !is_relieved {
            return memory_budget.press();
        }
        if memory_budget.excess().is_none() {
            return;
        }
    }
}

/// [`relieve`] for one alone. False if there is more to do, which has to wait because actors are busy.
async fn relieve_alone(memory_budget: &MemoryBudget) -> bool {
    loop {
        let excess = memory_budget.excess();
        if excess.is_none() {
            return true;
        }
        let before = (memory_budget.active(), memory_budget.bytes());
        let tables = memory_budget.tables();
        if let Some(up_to) = threshold(&tables, excess) {
            let excess = Arc::new(Mutex::new(excess));
            let shedding: Vec<_> = tables.into_iter().map(|table| table.shed(up_to, excess.clone())).collect();
            for table in shedding {
                // An error means that the partition is closed, and its actors are gone.
                let _ = table.await;
            }
        }
        if memory_budget.active() >= before.0 && memory_budget.bytes() >= before.1 {
            // By whoever comes first then, and not before idle actors have been looked for if it is time for that.
            time::sleep(RELIEF_PAUSE).await;
            return false;
        }
    }
}

/// Up to which stamp actors have to go; `None` if all are busy.
fn threshold(tables: &[Arc<dyn Gathered>], excess: Excess) -> Option<u64> {
    let places: usize = tables.iter().map(|table| table.places()).sum();
    let step = places.div_ceil(SAMPLE).max(1);
    let mut sample: Vec<_> = tables.iter().flat_map(|table| table.sample(step)).collect();
    sample.sort_unstable();
    cut(&sample, step as u64, excess)
}

/// The stamp of the last one that has to go, if each of the sample stands for `each` of them.
fn cut(sample: &[(u64, u64)], each: u64, excess: Excess) -> Option<u64> {
    let mut left = excess;
    for (stamp, bytes) in sample {
        left.actors = left.actors.saturating_sub(each);
        left.bytes = left.bytes.saturating_sub(bytes.saturating_mul(each));
        if left.is_none() {
            return Some(*stamp);
        }
    }
    sample.last().map(|(stamp, _)| *stamp)
}

impl<T: Actor> Gathered for ActorTable<T> {
    fn places(&self) -> usize {
        self.len()
    }

    fn sample(&self, step: usize) -> Vec<(u64, u64)> {
        let mut sample = Vec::new();
        self.each_cell(|place, cell| {
            if place.is_multiple_of(step)
                && let Some(used) = cell.idle_since()
            {
                sample.push((used, self.partition().overhead_bytes + cell.actor_shared().weight()));
            }
        });
        sample
    }

    fn shed(self: Arc<Self>, up_to: u64, excess: Arc<Mutex<Excess>>) -> JoinHandle<()> {
        let partition = self.partition().clone();
        partition.scope.clone().spawn(async move {
            let mut idle = Vec::new();
            self.each_cell(|_, cell| {
                if let Some(used) = cell.idle_since().filter(|used| *used <= up_to) {
                    idle.push((used, cell.clone()));
                }
            });
            idle.sort_unstable_by_key(|(used, _)| *used);
            let overhead = partition.overhead_bytes;
            drop(self);
            leave_each(&partition, idle, LEAVING_AT_ONCE, move |(used, cell): (u64, Arc<ActorCell<T>>)| {
                let mut left = excess.lock();
                if left.is_none() {
                    return None;
                }
                // Only if it was not used since.
                let guard = cell.take_idle(used.saturating_add(1))?;
                *left = left.without(overhead + cell.actor_shared().weight());
                Some(guard)
            })
            .await;
        })
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Wake, Waker};

    use super::*;
    use crate::actor::settings::ActorSettings;

    /// Polls a future when it is woken, in the midst of whatever wakes it: the worst that another thread could do.
    struct AtOnce(Mutex<Option<std::pin::Pin<Box<dyn Future<Output = ()> + Send>>>>);

    impl AtOnce {
        fn poll(self: &Arc<Self>) {
            let waker = Waker::from(self.clone());
            let mut future = self.0.lock();
            if future.as_mut().is_some_and(|future| future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready()) {
                *future = None;
            }
        }
    }

    impl Wake for AtOnce {
        fn wake(self: Arc<Self>) {
            self.poll();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_is_told_that_memory_is_short_finds_nobody_who_has_given_up() {
        let settings = ActorSettings { active_actors_max: Some(1), ..ActorSettings::default() };
        let memory_budget = Arc::new(MemoryBudget::new(&settings));
        // As many as are too many, and none of them can leave.
        (0..2).for_each(|_| memory_budget.enter(1));
        memory_budget.pressed().await;
        let other = memory_budget.clone();
        let other = Arc::new(AtOnce(Mutex::new(Some(Box::pin(async move {
            other.pressed().await;
            relieve(&other).await;
        })))));
        other.poll();
        relieve(&memory_budget).await;
        assert!(other.0.lock().take().is_some(), "it sees to what this one has left to who comes next");
    }

    #[test]
    fn the_least_recently_used_go_until_both_limits_are_kept() {
        let sample = [(1, 10), (2, 10), (3, 1000), (4, 10), (9, 10)];
        let cut = |actors, bytes| cut(&sample, 1, Excess { actors, bytes });
        assert_eq!(cut(1, 0), Some(1));
        assert_eq!(cut(2, 0), Some(2));
        assert_eq!(cut(0, 21), Some(3));
        assert_eq!(cut(4, 21), Some(4));
        assert_eq!(cut(100, 0), Some(9), "all of them");
    }

    #[test]
    fn each_of_a_sample_stands_for_many() {
        let sample = [(1, 10), (2, 10), (3, 10)];
        assert_eq!(cut(&sample, 100, Excess { actors: 150, bytes: 0 }), Some(2));
        assert_eq!(cut(&sample, 100, Excess { actors: 0, bytes: 2_010 }), Some(3));
        assert_eq!(cut(&[], 1, Excess { actors: 1, bytes: 0 }), None);
    }
}
