//! How long the machine has slept.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Less than this is what reading two clocks one after the other can make of it.
const NOISE_MS: u64 = 50;

thread_local! {
    /// What the current thread's machine has slept beside what the system tells.
    static SIMULATED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// Lets the machine of the current thread sleep, as far as that thread can see: [`suspended`] grows by this, and
/// [`now`](super::now) stands still. For a simulation, which runs in one thread.
pub fn suspend_thread(duration: Duration) {
    SIMULATED.set(SIMULATED.get().saturating_add(duration));
}

/// How long the machine has been suspended since it was started, as far as its system tells: time that [`now`](super::now) does
/// not count, and that others have seen pass. It is to within some milliseconds, and never goes back.
///
/// Whoever holds something for a length of time, by the word of another machine, adds it to what has passed.
///
/// ```
/// let before = mainstay_core::time::suspended();
/// assert!(mainstay_core::time::suspended() >= before);
/// ```
pub fn suspended() -> Duration {
    static SEEN_MS: AtomicU64 = AtomicU64::new(0);
    let (measured, seen) = (measure_ms(), SEEN_MS.load(Ordering::Relaxed));
    let slept = match measured < seen.saturating_add(NOISE_MS) {
        true => seen,
        false => SEEN_MS.fetch_max(measured, Ordering::Relaxed).max(measured),
    };
    Duration::from_millis(slept).saturating_add(SIMULATED.get())
}

/// The difference of the clocks that do and do not count it. The first is read between two readings of the other, which are to
/// be close; a machine that is too busy for that is asked again later.
#[cfg(target_os = "linux")]
fn measure_ms() -> u64 {
    use rustix::time::{ClockId, clock_gettime};
    let read = |clock| {
        let now = clock_gettime(clock);
        now.tv_sec.cast_unsigned().wrapping_mul(1000).wrapping_add(now.tv_nsec.cast_unsigned() / 1_000_000)
    };
    let (before, boot, after) = (read(ClockId::Monotonic), read(ClockId::Boottime), read(ClockId::Monotonic));
    if after.wrapping_sub(before) < NOISE_MS / 2 { boot.saturating_sub(after) } else { 0 }
}

#[cfg(not(target_os = "linux"))]
fn measure_ms() -> u64 {
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_stands_still_while_the_machine_runs() {
        let first = suspended();
        assert!((0..10_000).all(|_| suspended() == first));
    }
}
