//! Calls whose requests and answers are lost, repeated and overtaken: they are carried out once.

use std::sync::atomic::{AtomicUsize, Ordering};

use mainstay::prelude::*;
use mainstay_core::time::{self, Duration};
use mainstay_runtime::ServiceType;

use crate::harness::{FIRST, Fault, TwoNodes};

#[interface]
trait Counter {
    async fn add(&mut self, n: u64) -> Result<u64>;
    async fn add_if_even(&mut self, n: u64) -> Result<u64>;
    async fn sum(&self) -> Result<u64>;
    async fn add_later(&mut self, n: u64) -> Result<Deferred<u64>>;
    async fn add_slowly(&mut self, n: u64) -> Result<u64>;
}

#[derive(Actor)]
#[actor(implements(Counter), partitions = 2)]
struct CounterActor {
    sum: State<u64>,
    ctx: Context,
}

/// How often a method of all actors of this test has run; each test runs in a process of its own.
static RUNS: AtomicUsize = AtomicUsize::new(0);

impl Counter for CounterActor {
    async fn add(&mut self, n: u64) -> Result<u64> {
        RUNS.fetch_add(1, Ordering::SeqCst);
        *self.sum += n;
        Ok(*self.sum)
    }

    async fn add_if_even(&mut self, n: u64) -> Result<u64> {
        RUNS.fetch_add(1, Ordering::SeqCst);
        if *self.sum % 2 == 1 {
            return Err(Error::new(ErrorKind::Conflict, "odd"));
        }
        *self.sum += n;
        Ok(*self.sum)
    }

    async fn sum(&self) -> Result<u64> {
        RUNS.fetch_add(1, Ordering::SeqCst);
        Ok(*self.sum)
    }

    async fn add_later(&mut self, n: u64) -> Result<Deferred<u64>> {
        let (deferred, responder) = mainstay::actor::deferred();
        *self.sum += n;
        let sum = *self.sum;
        self.ctx.then(tokio::time::sleep(Duration::from_millis(5)), async move |_: &mut Self, ()| {
            responder.respond(Ok(sum));
            Ok(())
        })?;
        Ok(deferred)
    }

    async fn add_slowly(&mut self, n: u64) -> Result<u64> {
        tokio::time::sleep(Duration::from_millis(300)).await;
        self.add(n).await
    }
}

async fn cluster() -> TwoNodes {
    TwoNodes::start(vec![(ServiceType::of_actor::<CounterActor>().unwrap(), FIRST)]).await
}

const HARMFUL: [Fault; 7] = [
    Fault::LoseRequest,
    Fault::LoseReply,
    Fault::LoseReplyAtOnce,
    Fault::Duplicate,
    Fault::NotSent,
    Fault::Full,
    Fault::Garbage,
];

#[tokio::test(start_paused = true)]
async fn calls_of_another_node_are_carried_out_once_whatever_is_lost() {
    let cluster = cluster().await;
    let counter: CounterRef = cluster.second().services.actor("alice").unwrap();
    let mut sum = 0;
    for fault in HARMFUL {
        cluster.net.plan([fault]);
        sum += 1;
        assert_eq!(counter.add(1).await.unwrap(), sum, "{fault:?}");
    }
    // Several in a row, and every pair of two.
    for (one, two) in HARMFUL.iter().flat_map(|one| HARMFUL.iter().map(move |two| (*one, *two))) {
        cluster.net.plan([one, two]);
        sum += 1;
        assert_eq!(counter.add(1).await.unwrap(), sum, "{one:?} and {two:?}");
        if cluster.net.left() > 0 {
            // The second is left for a call that takes one request.
            assert_eq!(counter.sum().await.unwrap(), sum);
        }
    }
    assert_eq!(counter.sum().await.unwrap(), sum);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_process_without_the_types_calls_and_is_answered_once() {
    let cluster = cluster().await;
    let client = cluster.client();
    let counter: CounterRef = client.actor_named("CounterActor", 7).unwrap();
    cluster.net.plan([Fault::LoseReply, Fault::LoseRequest, Fault::Full]);
    assert_eq!(counter.add(5).await.unwrap(), 5);
    assert_eq!((RUNS.load(Ordering::SeqCst), counter.sum().await.unwrap()), (1, 5));
    // A proxy that is made anew for each call leaves no more behind than one that is kept.
    for n in 1..=20 {
        let again: CounterRef = client.actor(7).unwrap();
        assert_eq!(again.add(1).await.unwrap(), 5 + n);
    }
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn many_calls_at_a_time_are_each_carried_out_once() {
    let cluster = cluster().await;
    let counter: CounterRef = cluster.second().services.actor("busy").unwrap();
    cluster.net.plan(HARMFUL.iter().copied().cycle().take(60));
    let calls: Vec<_> = (0..64)
        .map(|_| {
            let counter = counter.clone();
            tokio::spawn(async move { counter.add(1).await.unwrap() })
        })
        .collect();
    let mut seen = Vec::new();
    for call in calls {
        seen.push(call.await.unwrap());
    }
    seen.sort_unstable();
    assert_eq!(seen, (1..=64).collect::<Vec<_>>());
    assert_eq!((RUNS.load(Ordering::SeqCst), counter.sum().await.unwrap()), (64, 64));
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_repeated_call_is_recognized_by_the_next_primary() {
    let cluster = cluster().await;
    let client = cluster.client();
    let counter: CounterRef = client.actor("alice").unwrap();
    // Carried out by the first node; the answer is lost, and by the time of the next try the second is primary.
    cluster.net.plan([Fault::LoseReply]);
    let call = {
        let counter = counter.clone();
        tokio::spawn(async move { counter.add(3).await })
    };
    while RUNS.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    cluster.hand_over(FIRST, 0, 1).await;
    assert_eq!(call.await.unwrap().unwrap(), 3);
    assert_eq!((counter.sum().await.unwrap(), counter.add(1).await.unwrap()), (3, 4));
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn at_most_once_is_sent_once_and_says_what_is_not_known() {
    let cluster = cluster().await;
    let counter: CounterRef = cluster.second().services.actor("alice").unwrap();
    let once = counter.at_most_once();
    for fault in [Fault::LoseRequest, Fault::LoseReply, Fault::Garbage] {
        cluster.net.plan([fault]);
        assert_eq!(once.add(1).await.unwrap_err().kind(), ErrorKind::OutcomeUnknown, "{fault:?}");
        cluster.net.plan([fault]);
        assert_eq!(once.sum().await.unwrap_err().kind(), ErrorKind::OutcomeUnknown, "{fault:?}");
    }
    // What was not sent is sent again.
    cluster.net.plan([Fault::NotSent, Fault::Full]);
    assert_eq!(once.add(1).await.unwrap(), 3);
    // Nothing is kept for it, and so it is not recognized.
    cluster.net.plan([Fault::Duplicate]);
    once.add(1).await.unwrap();
    assert_eq!(counter.sum().await.unwrap(), 5);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_was_told_does_not_turn_into_a_success() {
    let cluster = cluster().await;
    let near: CounterRef = cluster.first().services.actor("alice").unwrap();
    let far: CounterRef = cluster.second().services.actor("alice").unwrap();
    assert_eq!(near.add(1).await.unwrap(), 1);
    // The first try arrives long after the second, whose failure the caller was told.
    cluster.net.plan([Fault::Late]);
    let error = far.add_if_even(10).await.unwrap_err();
    assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::Conflict, "odd"));
    assert_eq!(near.add(1).await.unwrap(), 2);
    let runs = RUNS.load(Ordering::SeqCst);
    assert_eq!(cluster.net.release().await.len(), 1);
    assert_eq!(RUNS.load(Ordering::SeqCst), runs);
    assert_eq!(near.sum().await.unwrap(), 2);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_first_try_that_is_overtaken_is_not_carried_out() {
    let cluster = cluster().await;
    let far: CounterRef = cluster.second().services.actor("alice").unwrap();
    cluster.net.plan([Fault::Late]);
    assert_eq!(far.add(1).await.unwrap(), 1);
    // The answer of the next call in the lane has taken the place of its own.
    assert_eq!(far.add(1).await.unwrap(), 2);
    let runs = RUNS.load(Ordering::SeqCst);
    cluster.net.release().await;
    assert_eq!(RUNS.load(Ordering::SeqCst), runs);
    assert_eq!(far.sum().await.unwrap(), 2);
    // One that comes after its answer has expired is too late by the clock.
    cluster.net.plan([Fault::Late]);
    assert_eq!(far.with_timeout(Duration::from_secs(5)).add(1).await.unwrap(), 3);
    tokio::time::sleep(Duration::from_secs(180)).await;
    let runs = RUNS.load(Ordering::SeqCst);
    cluster.net.release().await;
    assert_eq!(RUNS.load(Ordering::SeqCst), runs);
    assert_eq!(far.sum().await.unwrap(), 3);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn answers_that_come_later_cross_nodes_and_are_not_repeated() {
    let cluster = cluster().await;
    let counter: CounterRef = cluster.second().services.actor("alice").unwrap();
    assert_eq!(counter.add_later(4).await.unwrap(), 4);
    cluster.net.plan([Fault::LoseReply]);
    assert_eq!(counter.add_later(4).await.unwrap_err().kind(), ErrorKind::OutcomeUnknown);
    assert_eq!(counter.sum().await.unwrap(), 8);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn keys_of_the_application_cross_nodes() {
    let cluster = cluster().await;
    let far: CounterRef = cluster.second().services.actor("alice").unwrap();
    let near: CounterRef = cluster.first().services.actor("alice").unwrap();
    cluster.net.plan([Fault::LoseReply, Fault::Duplicate]);
    assert_eq!(far.idempotent("order 7").add(2).await.unwrap(), 2);
    assert_eq!(near.idempotent("order 7").add(2).await.unwrap(), 2);
    let other = far.idempotent("order 7").add(3).await.unwrap_err();
    assert_eq!(other.kind(), ErrorKind::Conflict, "{other}");
    assert_eq!(near.sum().await.unwrap(), 2);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_time_limit_holds_and_says_what_is_known() {
    let cluster = cluster().await;
    let counter: CounterRef = cluster.second().services.actor("alice").unwrap();
    let hasty = counter.with_timeout(Duration::from_millis(100));
    let begun = time::now();
    // Never sent: nothing has happened.
    cluster.net.plan([Fault::NotSent; 100]);
    assert_eq!(hasty.add(1).await.unwrap_err().kind(), ErrorKind::Timeout);
    assert_eq!(begun.elapsed(), Duration::from_millis(100));
    while cluster.net.left() > 0 {
        let _ = hasty.sum().await;
    }
    // Sent, and still running when the time is over.
    let begun = time::now();
    assert_eq!(hasty.add_slowly(1).await.unwrap_err().kind(), ErrorKind::OutcomeUnknown);
    assert!(begun.elapsed() <= Duration::from_millis(101), "{:?}", begun.elapsed());
    assert_eq!(counter.add(1).await.unwrap(), 2);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_local_call_sends_nothing() {
    let cluster = cluster().await;
    let counter: CounterRef = cluster.first().services.actor("alice").unwrap();
    for _ in 0..10 {
        counter.add(1).await.unwrap();
    }
    assert_eq!(cluster.net.requests(), 0);
    cluster.stop().await;
}
