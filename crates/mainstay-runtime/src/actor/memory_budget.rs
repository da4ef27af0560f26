use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use mainstay_core::time::{self, Duration, Instant};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::actor::eviction::Gathered;
use crate::actor::settings::ActorSettings;
use crate::actor::stray_fields::StrayFields;

/// Which bits of a stamp count activations within a scan; those above are the number of the scan. More activations than
/// that between two scans carry over, and make actors look used a scan later than they were.
const ACTIVATION_BITS: u32 = 24;

/// By how much the limits are undercut once they are passed, as a part of them: actors leave by the bunch, because to find
/// those that were used least recently takes a look at many.
const RELIEF_PART: u64 = 16;

/// All actors of one type on one node that are in memory, over all of its partitions: how many they are, how much they hold,
/// and the clock by which their use is told apart.
///
/// The clock costs a call no look at a real one. It moves with every scan for idle actors and with every activation: two
/// uses with no activation between them need not be told apart, since memory only gets short when actors come into it.
pub(crate) struct MemoryBudget {
    clock: AtomicU64,
    active: AtomicU64,
    bytes: AtomicU64,
    active_max: u64,
    bytes_max: u64,
    idle_scan: Duration,
    /// When the first partition was opened, from which scans are counted.
    start: OnceLock<Instant>,
    tables: Mutex<Vec<Weak<dyn Gathered>>>,
    pressed: Notify,
    /// What is stored of them that no field reads.
    pub(crate) stray_fields: StrayFields,
    /// Whoever has it sees to it that limits are kept.
    pub(crate) relieving: tokio::sync::Mutex<()>,
}

impl fmt::Debug for MemoryBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MemoryBudget({} active, {} bytes)", self.active(), self.bytes())
    }
}

/// What has to leave memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Excess {
    pub(crate) actors: u64,
    pub(crate) bytes: u64,
}

impl Excess {
    pub(crate) fn is_none(self) -> bool {
        self == Self::default()
    }

    /// What is left when an actor of so many bytes has gone.
    pub(crate) fn without(self, bytes: u64) -> Self {
        Self { actors: self.actors.saturating_sub(1), bytes: self.bytes.saturating_sub(bytes) }
    }
}

impl MemoryBudget {
    pub(crate) fn new(settings: &ActorSettings) -> Self {
        Self {
            clock: AtomicU64::new(0),
            active: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            active_max: settings.active_actors_max.unwrap_or(u64::MAX),
            bytes_max: settings.memory_max.unwrap_or(u64::MAX),
            idle_scan: settings.idle_scan,
            start: OnceLock::new(),
            tables: Mutex::default(),
            pressed: Notify::new(),
            stray_fields: StrayFields::default(),
            relieving: tokio::sync::Mutex::default(),
        }
    }

    /// The stamp of a use that happens now.
    #[inline]
    pub(crate) fn stamp(&self) -> u64 {
        self.clock.load(Ordering::Relaxed)
    }

    /// The stamp before which all uses were earlier than a scan.
    pub(crate) fn stamp_of(scan: u64) -> u64 {
        scan << ACTIVATION_BITS
    }

    /// Moves the clock to now, and returns the number of the scan.
    pub(crate) fn advance(&self) -> u64 {
        let scan = self.scans();
        self.clock.fetch_max(Self::stamp_of(scan), Ordering::Relaxed);
        scan
    }

    /// When the next scan is; `None` if that is beyond what a clock can tell.
    pub(crate) fn next_scan(&self) -> Option<Instant> {
        let nanos = self.idle_scan.as_nanos().checked_mul(u128::from(self.scans()) + 1)?;
        self.start().checked_add(Duration::from_nanos(u64::try_from(nanos).ok()?))
    }

    fn start(&self) -> Instant {
        *self.start.get_or_init(time::now)
    }

    /// How many scans there have been time for.
    fn scans(&self) -> u64 {
        let elapsed = time::now().saturating_duration_since(self.start());
        // A scan is a millisecond at least; ten years of them fit.
        (elapsed.as_nanos() / self.idle_scan.as_nanos().max(1)) as u64
    }

    pub(crate) fn active(&self) -> u64 {
        self.active.load(Ordering::Relaxed)
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// An actor has come into memory.
    pub(crate) fn enter(&self, bytes: u64) {
        self.clock.fetch_add(1, Ordering::Relaxed);
        let active = self.active.fetch_add(1, Ordering::Relaxed) + 1;
        if active > self.active_max {
            self.press();
        }
        self.grow(bytes);
    }

    /// An actor has left memory.
    pub(crate) fn leave(&self, bytes: u64) {
        self.active.fetch_sub(1, Ordering::Relaxed);
        self.shrink(bytes);
    }

    pub(crate) fn grow(&self, bytes: u64) {
        let bytes = self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if bytes > self.bytes_max {
            self.press();
        }
    }

    pub(crate) fn shrink(&self, bytes: u64) {
        if bytes > 0 {
            self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    /// Says that a limit has been passed.
    pub(crate) fn press(&self) {
        self.pressed.notify_one();
    }

    /// Ready when a limit has been passed, for one of those who wait.
    pub(crate) async fn pressed(&self) {
        self.pressed.notified().await;
    }

    /// What has to leave memory: nothing as long as the limits are kept, and somewhat more than what is above them else.
    pub(crate) fn excess(&self) -> Excess {
        let (active, bytes) = (self.active(), self.bytes());
        Excess { actors: excess(active, self.active_max), bytes: excess(bytes, self.bytes_max) }
    }

    pub(crate) fn add_table(&self, table: Weak<dyn Gathered>) {
        let mut tables = self.tables.lock();
        tables.retain(|table| table.strong_count() > 0);
        tables.push(table);
    }

    pub(crate) fn tables(&self) -> Vec<Arc<dyn Gathered>> {
        self.tables.lock().iter().filter_map(Weak::upgrade).collect()
    }
}

fn excess(value: u64, max: u64) -> u64 {
    if value <= max { 0 } else { value - (max - max / RELIEF_PART) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory_budget(change: fn(&mut ActorSettings)) -> MemoryBudget {
        let mut settings = ActorSettings { idle_scan: Duration::from_secs(60), ..ActorSettings::default() };
        change(&mut settings);
        MemoryBudget::new(&settings)
    }

    #[tokio::test(start_paused = true)]
    async fn the_clock_moves_with_scans_and_activations_and_never_back() {
        let memory_budget = memory_budget(|_| {});
        assert_eq!((memory_budget.advance(), memory_budget.stamp()), (0, 0));
        memory_budget.enter(1);
        assert_eq!(memory_budget.stamp(), 1);
        time::sleep(Duration::from_secs(150)).await;
        assert_eq!(memory_budget.advance(), 2);
        assert_eq!(memory_budget.stamp(), MemoryBudget::stamp_of(2));
        memory_budget.enter(1);
        assert_eq!(memory_budget.advance(), 2);
        assert_eq!(memory_budget.stamp(), MemoryBudget::stamp_of(2) + 1);
        assert_eq!(memory_budget.next_scan().unwrap(), time::now() + Duration::from_secs(30));
    }

    #[tokio::test(start_paused = true)]
    async fn scans_go_on_for_years_however_short_they_are() {
        let memory_budget = memory_budget(|settings| settings.idle_scan = Duration::from_millis(1));
        memory_budget.advance();
        for days in [50, 365, 365 * 9] {
            tokio::time::advance(Duration::from_secs(days * 24 * 60 * 60)).await;
            memory_budget.advance();
            assert_eq!(memory_budget.next_scan(), Some(time::now() + Duration::from_millis(1)), "{days} days later");
        }
    }

    #[tokio::test]
    async fn a_limit_that_is_passed_is_undercut() {
        let memory_budget =
            memory_budget(|settings| (settings.active_actors_max, settings.memory_max) = (Some(32), Some(64 << 10)));
        for _ in 0..32 {
            memory_budget.enter(2 << 10);
        }
        assert!(memory_budget.excess().is_none());
        memory_budget.enter(2 << 10);
        assert_eq!(memory_budget.excess(), Excess { actors: 3, bytes: (2 << 10) + (64 << 10) / 16 });
        memory_budget.pressed().await;
        memory_budget.leave(2 << 10);
        assert!(memory_budget.excess().is_none());
        assert_eq!((memory_budget.active(), memory_budget.bytes()), (32, 64 << 10));
    }
}
