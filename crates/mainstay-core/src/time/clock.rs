//! The wall clock, as a function of tokio's clock.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Notify;

use super::WallTime;

/// How far the system's clock may be from what is expected of it before it is followed. Whoever sets a clock right moves it
/// by more; less is what reading two clocks one after the other can make of it.
const STEP_MIN_MS: u64 = 250;

/// How long reading the two clocks may take: if this thread did not run in between, they do not belong together.
const READING_TIME_MAX: Duration = Duration::from_millis(50);

/// How often they are read until they do. A machine that is so slow keeps to what it had.
const READINGS_MAX: u32 = 4;

thread_local! {
    /// What the current thread's clock showed at which moment, if it was started.
    static STARTED: Cell<Option<(WallTime, Instant)>> = const { Cell::new(None) };

    /// Wakes the tasks that wait until the current thread's clock is set.
    static SET: Arc<Notify> = Arc::default();
}

/// The moment from which on this process measures, and what the system's clock shows for it.
static SYSTEM: OnceLock<(Instant, AtomicU64)> = OnceLock::new();

/// The time of day, for what outlives the process: times to live, reminders, schedules.
///
/// It follows tokio's clock: while that is paused, the wall clock stands still to the millisecond, and moves by what the
/// other one is advanced. Otherwise it is the system's clock, so it can be set, back as well, and machines differ: never
/// decide by it who may write. See [`start_thread_wall`] for simulation.
///
/// ```
/// let due = mainstay_core::time::wall().saturating_add(std::time::Duration::from_secs(60));
/// assert!(mainstay_core::time::wall() < due);
/// ```
pub fn wall() -> WallTime {
    let now = super::now().into_std();
    let (shown, at) = STARTED.get().unwrap_or_else(system);
    match now.checked_duration_since(at) {
        Some(passed) => WallTime::from_millis(shown.as_millis().saturating_add(millis(passed))),
        // A clock that was paused before this one was first read. Rounded so that it moves in step with it.
        None => shown.saturating_sub(at.duration_since(now)),
    }
}

/// Starts the current thread's wall clock: it shows `start` now, and moves with tokio's clock alone from here on.
///
/// A simulation calls it first thing inside of its runtime, so that the same seed sees the same times. Threads that did not
/// call it, and what runs on them, keep to the system's clock.
pub fn start_thread_wall(start: WallTime) {
    STARTED.set(Some((start, super::now().into_std())));
    SET.with(|set| set.notify_waiters());
}

/// Ready when the wall clock may have been set: for a task that sleeps by the other clock until the wall clock shows a time.
///
/// The system does not say that its clock was set, so that this is ready after `look_again`. A thread's own clock
/// ([`start_thread_wall`]) says so: nothing wakes up in between, and simulated time goes from one due time to the next.
pub async fn wall_set(look_again: Duration) {
    let is_of_one_thread =
        Handle::try_current().is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::CurrentThread);
    if is_of_one_thread && STARTED.get().is_some() {
        let set = SET.with(Arc::clone);
        set.notified().await;
    } else {
        super::sleep(look_again).await;
    }
}

/// What the system's clock shows for a moment.
fn system() -> (WallTime, Instant) {
    let (at, system, is_close) = read_both();
    let (start, shown) = SYSTEM.get_or_init(|| (at, AtomicU64::new(system)));
    let expected = shown.load(Ordering::Relaxed);
    let measured = system.saturating_sub(millis(at.saturating_duration_since(*start)));
    if is_close && is_set(expected, measured) {
        shown.store(measured, Ordering::Relaxed);
        return (WallTime::from_millis(measured), *start);
    }
    (WallTime::from_millis(expected), *start)
}

/// A moment and what the system's clock showed then, and whether they belong together.
fn read_both() -> (Instant, u64, bool) {
    let mut readings_left = READINGS_MAX;
    loop {
        let at = Instant::now();
        let system = millis(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default());
        let is_close = at.elapsed() <= READING_TIME_MAX;
        readings_left -= 1;
        if is_close || readings_left == 0 {
            return (at, system, is_close);
        }
    }
}

/// True if somebody has set the system's clock.
fn is_set(expected: u64, measured: u64) -> bool {
    measured.abs_diff(expected) >= STEP_MIN_MS
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::{sleep, timeout};

    const START: WallTime = WallTime::from_millis(1_700_000_000_000);

    #[test]
    fn outside_a_runtime_it_is_the_clock_of_the_system() {
        let before = SystemTime::now();
        let shown = wall();
        let after = SystemTime::now();
        let shown = UNIX_EPOCH + Duration::from_millis(shown.as_millis());
        let tolerance = Duration::from_millis(2 * STEP_MIN_MS);
        assert!(before - tolerance <= shown && shown <= after + tolerance, "{before:?} {shown:?} {after:?}");
    }

    #[test]
    fn a_clock_that_is_set_is_followed_and_noise_is_not() {
        for (measured, followed) in [(5000, false), (4751, false), (5249, false), (4750, true), (5250, true), (0, true)]
        {
            assert_eq!(is_set(5000, measured), followed, "{measured}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_paused_clock_stands_still_and_moves_by_what_it_is_advanced() {
        // Of the system's clock, which goes on.
        let start = wall();
        for millis in [0, 1, 999, 86_400_000, 1] {
            let before = wall();
            tokio::time::advance(Duration::from_millis(millis)).await;
            assert_eq!(wall().as_millis() - before.as_millis(), millis);
        }
        sleep(Duration::from_secs(7)).await;
        let never = std::future::pending::<()>();
        assert!(timeout(Duration::from_secs(3), never).await.is_err());
        assert_eq!(wall().as_millis() - start.as_millis(), 1001 + 86_400_000 + 10_000);
    }

    #[test]
    fn a_clock_that_was_paused_earlier_moves_in_step_as_well() {
        let paused = || tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let (early, late) = (paused(), paused());
        // The moment from which on the thread's clock measures is after the one at which the early one stands.
        late.block_on(async {
            tokio::time::advance(Duration::from_micros(5_000_500)).await;
            start_thread_wall(START);
        });
        early.block_on(async {
            let first = wall();
            assert!(first < START);
            tokio::time::advance(Duration::from_secs(4)).await;
            assert_eq!(wall().checked_duration_since(first), Some(Duration::from_secs(4)));
            tokio::time::advance(Duration::from_secs(4)).await;
            assert_eq!(wall().checked_duration_since(first), Some(Duration::from_secs(8)));
            start_thread_wall(WallTime::EPOCH);
        });
        late.block_on(async { assert!(wall() < START, "it was started anew") });
    }

    #[test]
    fn a_started_clock_shows_the_same_in_every_run() {
        let run = || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
            runtime.block_on(async {
                sleep(Duration::from_millis(3)).await;
                start_thread_wall(START);
                let mut shown = vec![wall()];
                for millis in [5, 0, 60_000] {
                    sleep(Duration::from_millis(millis)).await;
                    shown.push(wall());
                }
                shown
            })
        };
        let shown = run();
        assert_eq!(shown[0], START);
        assert_eq!(shown[3].checked_duration_since(shown[0]).map(|passed| passed.as_secs()), Some(60));
        assert_eq!(run(), shown);
        let elsewhere = std::thread::scope(|scope| scope.spawn(wall).join().unwrap());
        assert!(elsewhere > shown[3], "another thread keeps to the system's clock");
    }

    #[tokio::test(start_paused = true)]
    async fn the_clock_of_a_thread_says_when_it_is_set_and_the_systems_is_looked_at_again() {
        let (minute, year) = (Duration::from_secs(60), Duration::from_secs(365 * 24 * 60 * 60));
        let begun = crate::time::now();
        wall_set(minute).await;
        assert!((minute..2 * minute).contains(&begun.elapsed()), "{:?}", begun.elapsed());

        start_thread_wall(START);
        assert!(timeout(year, wall_set(minute)).await.is_err(), "nothing has set it");
        let set = async {
            sleep(Duration::from_secs(1)).await;
            start_thread_wall(START);
        };
        let begun = crate::time::now();
        tokio::join!(wall_set(minute), set);
        assert!(begun.elapsed() < minute);
    }

    #[test]
    fn it_never_panics_at_the_ends_of_time() {
        start_thread_wall(WallTime::MAX);
        assert_eq!(wall(), WallTime::MAX);
        start_thread_wall(WallTime::EPOCH);
        assert!(wall() < START);
    }
}
