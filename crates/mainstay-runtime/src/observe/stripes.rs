use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// How many places belong to one thread alone.
const OWN_STRIPES: usize = 8;

/// How many places the threads beyond are spread over.
const SHARED_STRIPES: usize = 8;

const STRIPES: usize = OWN_STRIPES + SHARED_STRIPES;

/// Which of the places are taken, a bit for each.
static TAKEN: AtomicU32 = AtomicU32::new(0);

thread_local! {
    static PLACE: Place = Place::choose();
    /// The number of [`PLACE`], without a look at whether it is there.
    static NUMBER: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// Counts that threads add to at a place of their own, so that they do not wait for each other's caches.
#[derive(Debug, Default)]
pub(crate) struct Stripes<S>([Apart<S>; STRIPES]);

/// As far apart as processors fetch at a time.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Apart<S>(S);

impl<S> Stripes<S> {
    /// The place of this thread.
    #[inline]
    pub(crate) fn own(&self) -> &S {
        &self.0[number()].0
    }

    /// Adds one to a count at the place of this thread.
    #[inline]
    pub(crate) fn count(&self, of: impl FnOnce(&S) -> &AtomicU64) {
        let number = number();
        let count = of(&self.0[number].0);
        if number < OWN_STRIPES {
            // Nobody else adds to it, and so there is no need to keep others out.
            count.store(count.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        } else {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// All places.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &S> {
        self.0.iter().map(|Apart(stripe)| stripe)
    }
}

#[inline]
fn number() -> usize {
    // An array bound that the compiler knows.
    let number = NUMBER.get();
    if number < STRIPES { number } else { choose() }
}

#[cold]
fn choose() -> usize {
    // A thread that is ending has given its place back, and shares.
    let number = PLACE.try_with(|place| place.number).unwrap_or(OWN_STRIPES);
    NUMBER.set(number);
    number
}

/// The place of a thread, until the thread ends.
struct Place {
    number: usize,
}

impl Place {
    fn choose() -> Self {
        let mut taken = TAKEN.load(Ordering::Relaxed);
        loop {
            let number = taken.trailing_ones() as usize;
            if number >= OWN_STRIPES {
                static NEXT: AtomicUsize = AtomicUsize::new(0);
                let number = OWN_STRIPES + NEXT.fetch_add(1, Ordering::Relaxed) % SHARED_STRIPES;
                return Self { number };
            }
            // What the thread before has counted there is seen by this one.
            match TAKEN.compare_exchange_weak(taken, taken | 1 << number, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Self { number },
                Err(now) => taken = now,
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        NUMBER.set(OWN_STRIPES);
        if self.number < OWN_STRIPES {
            TAKEN.fetch_and(!(1 << self.number), Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_count_is_lost_however_many_threads_come_and_go() {
        const THREADS: usize = 2 * STRIPES;
        const ROUNDS: usize = 20;
        const COUNTS: u64 = 1000;
        let stripes: Stripes<AtomicU64> = Stripes::default();
        for _ in 0..ROUNDS {
            std::thread::scope(|scope| {
                for _ in 0..THREADS {
                    scope.spawn(|| (0..COUNTS).for_each(|_| stripes.count(|count| count)));
                }
            });
        }
        let counted: u64 = stripes.iter().map(|count| count.load(Ordering::Relaxed)).sum();
        assert_eq!(counted, (THREADS * ROUNDS) as u64 * COUNTS);
    }
}
