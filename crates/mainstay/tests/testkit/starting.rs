//! Starts and stops that are given up half way.

use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use mainstay::prelude::*;
use mainstay::testkit::TestNode;
use mainstay_runtime::Services;
use tokio::time::timeout;

/// At how many moments of a start it is given up.
const MOMENTS: usize = 60;

/// Polls a future so many times at most. Returns what it came to, if it did, and how often it was polled.
async fn polled<F: Future>(future: F, polls_max: usize) -> (Option<F::Output>, usize) {
    let (mut future, mut polls) = (Box::pin(future), 0);
    let outcome = poll_fn(|cx| match polls < polls_max {
        true => {
            polls += 1;
            future.as_mut().poll(cx).map(Some)
        }
        false => Poll::Ready(None),
    })
    .await;
    (outcome, polls)
}

#[tokio::test]
async fn a_start_that_is_given_up_at_any_moment_lets_go_of_its_folder() {
    // For its clock and its disk.
    let node = TestNode::start(|node| node).await.unwrap();
    let start = || Node::builder().isolated().disk(Arc::new(node.disk().clone())).data_dir("again").start();
    let (started, polls) = polled(start(), usize::MAX).await;
    started.unwrap().unwrap().stop().await;
    let mut given_up = 0;
    for moment in 0..=MOMENTS {
        let polls_max = polls * moment / MOMENTS;
        let (outcome, _) = polled(start(), polls_max).await;
        given_up += usize::from(outcome.is_none());
        drop(outcome);
        let next = start().await.unwrap_or_else(|error| panic!("after {polls_max} of {polls} polls: {error}"));
        next.stop().await;
    }
    assert!(given_up > MOMENTS / 2, "{given_up} of {MOMENTS} were given up, in {polls} polls");
}

#[tokio::test]
async fn what_is_to_be_done_before_a_stop_is_done_by_the_next_one_if_the_first_is_given_up() {
    let done = Arc::new(Mutex::new(Vec::new()));
    let hook = |name: &'static str, takes: Duration| {
        let done = done.clone();
        move |_: Services| async move {
            tokio::time::sleep(takes).await;
            done.lock().unwrap().push(name);
        }
    };
    let (first, second, third) = (
        hook("first", Duration::ZERO),
        hook("second", Duration::from_secs(2)),
        hook("third", Duration::from_millis(1500)),
    );
    // The last is done first. The closure is asked once, as nothing restarts here.
    let hooks = Mutex::new(Some((first, second, third)));
    let node = TestNode::start(move |node| match hooks.lock().unwrap().take() {
        Some((first, second, third)) => node.before_stop(first).before_stop(second).before_stop(third),
        None => node,
    })
    .await
    .unwrap();
    for expected in [vec![], vec!["third"], vec!["third"]] {
        assert!(timeout(Duration::from_secs(1), node.stop()).await.is_err());
        assert_eq!(*done.lock().unwrap(), expected);
    }
    node.stop().await;
    assert_eq!(*done.lock().unwrap(), ["third", "second", "first"]);
}
