use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// The number of stripes that belong to one thread each.
const OWN_STRIPES: usize = 8;

/// The number of stripes that all further threads share.
const SHARED_STRIPES: usize = 8;

const STRIPES: usize = OWN_STRIPES + SHARED_STRIPES;

/// A bit for each owned stripe that is taken.
static TAKEN: AtomicU32 = AtomicU32::new(0);

thread_local! {
    static THREAD_STRIPE: ThreadStripe = ThreadStripe::choose();
    /// The number of [`THREAD_STRIPE`], without the check for initialization.
    static NUMBER: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// Striped counters: each thread adds to its own copy, so that threads do not contend for a cache line.
#[derive(Debug, Default)]
pub(crate) struct Stripes<S>([CachePadded<S>; STRIPES]);

/// Padding to 128 bytes, because processors prefetch cache lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct CachePadded<S>(S);

impl<S> Stripes<S> {
    /// The stripe of the current thread.
    #[inline]
    pub(crate) fn own(&self) -> &S {
        &self.0[number()].0
    }

    /// Increments a counter in the stripe of the current thread.
    #[inline]
    pub(crate) fn count(&self, of: impl FnOnce(&S) -> &AtomicU64) {
        let number = number();
        let count = of(&self.0[number].0);
        if number < OWN_STRIPES {
            // This thread is the only writer of the stripe, so no atomic read-modify-write is needed.
            count.store(count.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        } else {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// All stripes.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &S> {
        self.0.iter().map(|CachePadded(stripe)| stripe)
    }
}

#[inline]
fn number() -> usize {
    // The comparison lets the compiler drop the bounds check of the array.
    let number = NUMBER.get();
    if number < STRIPES { number } else { choose() }
}

#[cold]
fn choose() -> usize {
    // A thread that is ending has released its stripe, and uses a shared one.
    let number = THREAD_STRIPE.try_with(|stripe| stripe.number).unwrap_or(OWN_STRIPES);
    NUMBER.set(number);
    number
}

/// The ownership of a stripe by a thread, until the thread ends.
struct ThreadStripe {
    number: usize,
}

impl ThreadStripe {
    fn choose() -> Self {
        let mut taken = TAKEN.load(Ordering::Relaxed);
        loop {
            let number = taken.trailing_ones() as usize;
            if number >= OWN_STRIPES {
                static NEXT: AtomicUsize = AtomicUsize::new(0);
                let number = OWN_STRIPES + NEXT.fetch_add(1, Ordering::Relaxed) % SHARED_STRIPES;
                return Self { number };
            }
            // Acquire: this thread must see the counts of the previous owner.
            match TAKEN.compare_exchange_weak(taken, taken | 1 << number, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Self { number },
                Err(now) => taken = now,
            }
        }
    }
}

impl Drop for ThreadStripe {
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
    fn no_count_is_lost_while_threads_come_and_go() {
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
