//! Workers: as many instances as there is work for, each with one call at a time.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use mainstay::partition::SimDisk;
use mainstay::prelude::*;
use mainstay::worker::PoolOptions;
use mainstay_core::task;
use mainstay_core::time::{self, Duration};
use tokio::task::yield_now;

use crate::harness::on;

const SECOND: Duration = Duration::from_secs(1);

/// Work that takes a while.
#[interface]
pub(crate) trait Work {
    /// Takes a second, and says how many calls this instance has had.
    async fn slow(&mut self) -> Result<u64>;

    /// The same by `&self`.
    async fn look(&self) -> Result<u64>;

    /// Ready at once.
    async fn quick(&mut self) -> Result<u64>;

    /// Says no.
    async fn fail(&mut self) -> Result<u64>;

    /// Panics after a while.
    async fn panic(&mut self) -> Result<u64>;
}

/// A worker with counters of its own, which tests do not share.
macro_rules! worker {
    ($name:ident, $($settings:tt)*) => {
        #[derive(Worker)]
        #[worker(implements(Work), $($settings)*)]
        struct $name {
            calls: u64,
            is_busy: AtomicBool,
        }

        static AT_WORK: AtomicUsize = AtomicUsize::new(0);
        static MOST: AtomicUsize = AtomicUsize::new(0);
        static DONE: AtomicUsize = AtomicUsize::new(0);

        impl $name {
            async fn take_a_second(&self) {
                assert!(!self.is_busy.swap(true, Ordering::SeqCst), "two calls in one instance");
                MOST.fetch_max(AT_WORK.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                time::sleep(SECOND).await;
                AT_WORK.fetch_sub(1, Ordering::SeqCst);
                DONE.fetch_add(1, Ordering::SeqCst);
                self.is_busy.store(false, Ordering::SeqCst);
            }
        }

        impl Work for $name {
            async fn slow(&mut self) -> Result<u64> {
                self.calls += 1;
                self.take_a_second().await;
                Ok(self.calls)
            }

            async fn look(&self) -> Result<u64> {
                self.take_a_second().await;
                Ok(self.calls)
            }

            async fn quick(&mut self) -> Result<u64> {
                self.calls += 1;
                Ok(self.calls)
            }

            async fn fail(&mut self) -> Result<u64> {
                self.calls += 1;
                Err(Error::invalid("no"))
            }

            async fn panic(&mut self) -> Result<u64> {
                self.calls += 1;
                time::sleep(SECOND).await;
                panic!("at work")
            }
        }
    };
}

#[tokio::test(start_paused = true)]
async fn calls_run_beside_each_other_up_to_the_maximum_and_the_rest_waits() {
    worker!(Mover, min = 1, max = 4);
    let node = on(&SimDisk::new(1)).worker::<Mover>().start().await.unwrap();
    let work: WorkRef = node.worker().unwrap();
    let start = time::now();
    let calls = (0..12).map(|n| {
        let work = work.clone();
        task::spawn(async move { if n % 2 == 0 { work.slow().await } else { work.look().await } })
    });
    for call in calls.collect::<Vec<_>>() {
        call.await.unwrap().unwrap();
    }
    assert_eq!(MOST.load(Ordering::SeqCst), 4);
    assert_eq!(start.elapsed(), SECOND * 3);
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_error_keeps_the_instance_and_a_panic_fails_its_call_and_loses_it() {
    worker!(Clerk, min = 0, max = 1);
    let node = on(&SimDisk::new(1)).worker::<Clerk>().start().await.unwrap();
    let work: WorkRef = node.worker().unwrap();
    assert_eq!(work.quick().await.unwrap(), 1);
    assert_eq!(work.fail().await.unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(work.quick().await.unwrap(), 3);
    // One that runs at once, and one that waits for it, and one that waits for that.
    let (first, second, third) = tokio::join!(work.panic(), work.panic(), work.quick());
    for panicked in [first, second] {
        let error = panicked.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutcomeUnknown);
        assert!(error.to_string().contains("`panic` of worker Clerk panicked: at work"), "{error}");
    }
    assert_eq!(third.unwrap(), 1, "a new instance");
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_goes_away_does_not_end_a_call_that_has_begun_and_one_that_waits_is_not_begun() {
    worker!(Porter, min = 0, max = 1);
    let node = on(&SimDisk::new(1)).worker::<Porter>().start().await.unwrap();
    let work: WorkRef = node.worker().unwrap();
    let mut calls: Vec<_> = (0..2)
        .map(|_| {
            let work = work.clone();
            task::spawn(async move { work.slow().await })
        })
        .collect();
    yield_now().await;
    assert_eq!(AT_WORK.load(Ordering::SeqCst), 1);
    for call in calls.drain(..) {
        call.abort();
    }
    assert_eq!(work.slow().await.unwrap(), 2, "the call before it was carried out, and only that");
    assert_eq!(DONE.load(Ordering::SeqCst), 2);
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_time_limit_tells_a_call_that_was_not_begun_from_one_that_was() {
    worker!(Guard, min = 0, max = 1);
    let node = on(&SimDisk::new(1)).worker::<Guard>().start().await.unwrap();
    let work: WorkRef = node.worker().unwrap();
    let hasty = work.with_timeout(SECOND / 2);
    let (begun, waiting) = tokio::join!(hasty.slow(), hasty.slow());
    assert_eq!(begun.unwrap_err().kind(), ErrorKind::OutcomeUnknown);
    assert_eq!(waiting.unwrap_err().kind(), ErrorKind::Timeout);
    assert_eq!(work.quick().await.unwrap(), 2, "one was carried out");
    assert!(work.idempotent("key").quick().await.unwrap_err().to_string().contains("worker Guard is not an actor"));
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn beyond_what_may_wait_calls_are_refused() {
    worker!(Teller, max = 1, waiting_max = 2);
    let options = PoolOptions { max: 2, ..<Teller as Worker>::options() };
    let node = on(&SimDisk::new(1)).worker_with::<Teller>(options).start().await.unwrap();
    let work: WorkRef = node.worker().unwrap();
    let calls: Vec<_> = (0..5)
        .map(|_| {
            let work = work.clone();
            task::spawn(async move { work.slow().await })
        })
        .collect();
    let mut refused = 0;
    for call in calls {
        if let Err(error) = call.await.unwrap() {
            assert_eq!(error.kind(), ErrorKind::Overloaded);
            refused += 1;
        }
    }
    assert_eq!(refused, 1);
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_worker_is_found_by_its_interface_or_its_name_until_the_node_stops() {
    worker!(One, name = "one");
    #[derive(Worker)]
    struct Unused;
    #[interface]
    trait Nobody {
        async fn nothing(&self) -> Result<()>;
    }
    let node = on(&SimDisk::new(1)).worker::<One>().worker::<Unused>().start().await.unwrap();
    let work: WorkRef = node.worker().unwrap();
    let named: WorkRef = node.worker_named("one").unwrap();
    assert_eq!((work.quick().await.unwrap(), named.quick().await.unwrap()), (1, 2));
    assert_eq!(node.worker_named::<WorkRef>("two").unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(node.worker_named::<WorkRef>("Unused").unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(node.worker::<NobodyRef>().unwrap_err().kind(), ErrorKind::NotFound);
    let slow = task::spawn({
        let work = work.clone();
        async move { work.slow().await }
    });
    yield_now().await;
    node.stop().await;
    assert_eq!(slow.await.unwrap().unwrap(), 3, "what is under way comes to its end");
    assert_eq!(work.quick().await.unwrap_err().kind(), ErrorKind::Fatal);
    assert_eq!(node.worker::<WorkRef>().unwrap_err().kind(), ErrorKind::Fatal);
}

#[tokio::test(start_paused = true)]
async fn two_workers_of_one_interface_are_told_apart_by_name_and_two_of_one_name_are_refused() {
    #[interface]
    trait Greeting {
        async fn greet(&self) -> Result<String>;
    }
    #[derive(Worker)]
    #[worker(implements(Greeting))]
    struct Formal {
        ctx: WorkerContext,
    }
    impl Greeting for Formal {
        async fn greet(&self) -> Result<String> {
            Ok(format!("good day from {}", self.ctx.worker_name()))
        }
    }
    #[derive(Worker)]
    #[worker(implements(Greeting))]
    struct Copying {
        ctx: WorkerContext,
    }
    impl Greeting for Copying {
        async fn greet(&self) -> Result<String> {
            self.ctx.worker_named::<GreetingRef>("Formal")?.greet().await
        }
    }
    let node = on(&SimDisk::new(1)).worker::<Formal>().worker::<Copying>().start().await.unwrap();
    let error = node.worker::<GreetingRef>().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("worker_named"), "{error}");
    let copying: GreetingRef = node.worker_named("Copying").unwrap();
    assert_eq!(copying.greet().await.unwrap(), "good day from Formal");
    node.stop().await;
    let twice = on(&SimDisk::new(1)).worker::<Formal>().worker::<Formal>().start().await;
    assert_eq!(twice.unwrap_err().kind(), ErrorKind::Invalid);
}
