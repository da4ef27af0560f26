//! The machine's own clock, read for a few nanoseconds.

use std::time::Duration;

/// A moment of the machine's own clock, to within a few milliseconds.
///
/// Reading it costs a third of [`now`](super::now) or less. It is real time even where the other clocks are simulated, so it is for what is told to
/// people about the machine, such as that a thread was blocked, and never for a decision.
///
/// ```
/// let before = mainstay_core::time::coarse();
/// assert!(before.elapsed() < std::time::Duration::from_secs(60));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Coarse {
    nanos: u64,
}

/// The current moment on the machine's own clock.
#[inline]
pub fn coarse() -> Coarse {
    Coarse { nanos: read() }
}

impl Coarse {
    /// How long ago it is.
    #[inline]
    pub fn elapsed(self) -> Duration {
        Duration::from_nanos(read().saturating_sub(self.nanos))
    }
}

/// In nanoseconds: they last for centuries, because it starts with the machine or the process.
#[cfg(target_os = "linux")]
#[inline]
fn read() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::MonotonicCoarse);
    now.tv_sec.cast_unsigned().wrapping_mul(1_000_000_000).wrapping_add(now.tv_nsec.cast_unsigned())
}

#[cfg(not(target_os = "linux"))]
fn read() -> u64 {
    static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    START.get_or_init(std::time::Instant::now).elapsed().as_nanos() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_never_goes_back_and_goes_on() {
        let first = coarse();
        let mut last = first;
        while first.elapsed() == Duration::ZERO {
            let now = coarse();
            assert!(now >= last);
            last = now;
        }
        assert!(coarse() > first);
    }
}
