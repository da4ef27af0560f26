//! The one source of randomness.
//!
//! Each thread has its own generator, seeded from the operating system. A simulation runs on one thread and calls
//! [`seed_thread`] first, so that the same seed draws the same numbers.

use std::cell::RefCell;

use rand::rngs::{StdRng, SysRng};
use rand::{Rng, SeedableRng, TryRng};

use crate::task;

thread_local! {
    static GENERATOR: RefCell<Option<StdRng>> = const { RefCell::new(None) };
}

/// The random generator of the current thread.
#[derive(Debug, Clone, Copy, Default)]
pub struct ThreadRandom(());

/// The random generator of the current thread.
///
/// ```
/// use rand::RngExt as _;
///
/// mainstay_core::random::seed_thread(7);
/// let first: u64 = mainstay_core::random::rng().random();
/// mainstay_core::random::seed_thread(7);
/// assert_eq!(first, mainstay_core::random::rng().random::<u64>());
/// ```
pub fn rng() -> ThreadRandom {
    ThreadRandom(())
}

/// Starts the current thread's generator over from a seed: what it draws from now on, and when its tasks yield, depends on
/// nothing else.
pub fn seed_thread(seed: u64) {
    task::reset_budget();
    GENERATOR.with_borrow_mut(|generator| *generator = Some(StdRng::seed_from_u64(seed)));
}

fn with_generator<T>(draw: impl FnOnce(&mut StdRng) -> T) -> T {
    GENERATOR.with_borrow_mut(|generator| draw(generator.get_or_insert_with(from_system)))
}

fn from_system() -> StdRng {
    let mut seed = <StdRng as SeedableRng>::Seed::default();
    // Randomness here spreads load and elections; it keeps no secret. If the system has none to give, the address
    // of a thread-local still differs between threads and processes.
    if SysRng.try_fill_bytes(&mut seed).is_err() {
        let address = GENERATOR.with(|generator| std::ptr::from_ref(generator) as u64);
        return StdRng::seed_from_u64(address);
    }
    StdRng::from_seed(seed)
}

impl TryRng for ThreadRandom {
    type Error = std::convert::Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Self::Error> {
        Ok(with_generator(Rng::next_u32))
    }

    fn try_next_u64(&mut self) -> Result<u64, Self::Error> {
        Ok(with_generator(Rng::next_u64))
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Self::Error> {
        with_generator(|generator| generator.fill_bytes(bytes));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use rand::RngExt as _;

    use super::*;

    fn draw() -> (u32, u64, [u8; 9]) {
        let mut bytes = [0; 9];
        rng().fill_bytes(&mut bytes);
        (rng().next_u32(), rng().random(), bytes)
    }

    #[test]
    fn a_seed_decides_what_is_drawn() {
        seed_thread(1);
        let first = (draw(), draw());
        seed_thread(1);
        assert_eq!(first, (draw(), draw()));
        assert_ne!(first.0, first.1);
        seed_thread(2);
        assert_ne!(first.0, draw());
    }

    #[test]
    fn handles_of_one_thread_share_its_generator() {
        seed_thread(3);
        let (mut one, mut two) = (rng(), rng());
        let apart = [one.next_u64(), two.next_u64(), one.next_u64()];
        seed_thread(3);
        assert_eq!(apart, [rng().next_u64(), rng().next_u64(), rng().next_u64()]);
    }

    #[test]
    fn a_seed_is_that_of_its_thread_alone() {
        seed_thread(4);
        let expected = draw();
        seed_thread(4);
        let elsewhere = std::thread::scope(|scope| scope.spawn(draw).join().unwrap());
        assert_ne!(elsewhere, expected, "threads without a seed draw from the system's randomness");
        assert_eq!(draw(), expected);
    }
}
