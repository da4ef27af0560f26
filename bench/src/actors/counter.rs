use std::future::Future;
use std::path::Path;
use std::sync::Arc;

use mainstay_core::task;
use tokio::runtime::Runtime;

use crate::outcome::Outcome;
use crate::shuffled::Shuffled;
use crate::stopwatch::Stopwatch;

/// What a caller holds of an actor that counts: all contenders have the same actor.
pub(super) trait Counter: Clone + Send + Sync + 'static {
    /// Adds to the count and returns what it is then: the ask that is measured.
    fn add(&self, n: i64) -> impl Future<Output = Outcome<i64>> + Send;
}

/// A library whose actors run on whatever runtime they are started on.
pub(super) trait Library: Sized + Send + Sync + 'static {
    type Counter: Counter;

    /// What must be there before the first actor.
    fn open(folder: &Path) -> impl Future<Output = Outcome<Self>> + Send;

    /// Starts one actor, in the way that costs the least.
    fn start(&self, number: u64) -> impl Future<Output = Outcome<Self::Counter>> + Send;

    /// Stops what [`open`](Library::open) has started.
    fn close(self) -> impl Future<Output = ()> + Send;
}

/// Who asks whom, and how often.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asks {
    pub(super) callers: usize,
    pub(super) actors: usize,
    /// By all callers together, while it is timed.
    pub(super) count: u64,
}

/// One who asks again as soon as the last answer is there, whichever actor comes next.
pub(super) struct Caller<C> {
    counters: Arc<[C]>,
    order: Shuffled,
    count: u64,
    is_alone: bool,
}

impl<C: Counter> Caller<C> {
    pub(super) async fn run(mut self) -> Outcome<()> {
        for _ in 0..self.count {
            let answer = self.counters[self.order.next()].add(1).await?;
            if answer < 1 {
                return Err(format!("an actor that was told to add 1 has {answer}").into());
            }
            if !self.is_alone {
                // All callers are under way at once, as they would be if they had something else to do in between, also
                // where an answer is there without waiting.
                tokio::task::coop::consume_budget().await;
            }
        }
        Ok(())
    }
}

impl Asks {
    /// The share of the asks that go before those that are timed.
    const WARM_UP_SHARE: u64 = 50;

    /// How long asks are timed at most, as far as the warm-up can tell: of a slow library there are fewer.
    const TIMED_SECONDS_MAX: f64 = 4.0;

    /// Asks per second of a library. Every caller is a task of its own.
    pub(super) fn of<L: Library>(self, runtime: &Runtime, folder: &Path) -> Outcome<f64> {
        runtime.block_on(async {
            let library = L::open(folder).await?;
            let mut counters = Vec::with_capacity(self.actors);
            for number in 0..self.actors {
                counters.push(library.start(number as u64).await?);
            }
            let rate = self.rate(counters, |_, caller| {
                let task = task::spawn(caller.run());
                async move { task.await? }
            });
            let rate = rate.await?;
            library.close().await;
            Ok(rate)
        })
    }

    /// Asks per second, and a check that the actors have counted all of them. `spawn` starts a caller, of which it gets
    /// the number, and returns what waits for its end.
    pub(super) async fn rate<C, S, J>(self, counters: Vec<C>, spawn: S) -> Outcome<f64>
    where
        C: Counter,
        S: Fn(usize, Caller<C>) -> J,
        J: Future<Output = Outcome<()>>,
    {
        let counters: Arc<[C]> = counters.into();
        let wanted = self.each();
        let warm_up = (wanted / Self::WARM_UP_SHARE).max(1);
        let watch = Stopwatch::start();
        self.run(&counters, warm_up, &spawn).await?;
        let affordable = warm_up as f64 * Self::TIMED_SECONDS_MAX / watch.seconds().max(f64::MIN_POSITIVE);
        let timed = wanted.min(affordable as u64).max(1);
        let watch = Stopwatch::start();
        self.run(&counters, timed, &spawn).await?;
        let seconds = watch.seconds();
        self.check(&counters, warm_up + timed).await?;
        Ok((timed * self.callers as u64) as f64 / seconds)
    }

    /// How often each caller asks.
    fn each(self) -> u64 {
        (self.count / self.callers as u64).max(1)
    }

    async fn run<C, S, J>(self, counters: &Arc<[C]>, count: u64, spawn: &S) -> Outcome<()>
    where
        C: Counter,
        S: Fn(usize, Caller<C>) -> J,
        J: Future<Output = Outcome<()>>,
    {
        let start = |caller| {
            let order = Shuffled::of_all(caller, counters.len());
            spawn(caller, Caller { counters: counters.clone(), order, count, is_alone: self.callers == 1 })
        };
        let callers: Vec<J> = (0..self.callers).map(start).collect();
        for caller in callers {
            caller.await?;
        }
        Ok(())
    }

    async fn check<C: Counter>(self, counters: &[C], each: u64) -> Outcome<()> {
        let mut sum = 0;
        for counter in counters {
            sum += counter.add(0).await?;
        }
        let expected = each * self.callers as u64;
        if u64::try_from(sum) == Ok(expected) {
            Ok(())
        } else {
            Err(format!("the actors have counted {sum} of {expected} asks").into())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, Ordering};

    use super::*;
    use crate::load::runtime;

    /// Counts every ask `worth` times.
    #[derive(Clone)]
    struct Counting {
        count: Arc<AtomicI64>,
        worth: i64,
    }

    impl Counter for Counting {
        async fn add(&self, n: i64) -> Outcome<i64> {
            Ok(self.count.fetch_add(n * self.worth, Ordering::Relaxed) + n * self.worth)
        }
    }

    fn rate(worth: i64) -> Outcome<f64> {
        let asks = Asks { callers: 3, actors: 2, count: 300 };
        let counters: Vec<_> = (0..2).map(|_| Counting { count: Arc::default(), worth }).collect();
        runtime()?.block_on(asks.rate(counters, |_, caller| caller.run()))
    }

    #[test]
    fn asks_are_counted() {
        assert!(rate(1).unwrap() > 0.0);
    }

    #[test]
    fn an_actor_that_miscounts_is_found() {
        let error = rate(2).unwrap_err().to_string();
        assert_eq!(error, "the actors have counted 612 of 306 asks");
        assert!(rate(0).is_err());
    }
}
