//! Calls: answers, deadlines, cancellation, and what is said of the outcome.

use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use mainstay_core::{Error, ErrorKind, NodeId, task, time};
use mainstay_wire::sim::{SimLink, SimNetwork};
use mainstay_wire::{Class, Kind, Sender};

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn calls_are_answered_both_ways_in_every_class_and_size() {
    let network = SimNetwork::new();
    let (one, two) = pair(&network).await;
    for class in [Class::Heartbeat, Class::Log, Class::Call, Class::Event, Class::Bulk] {
        let largest = class.message_bytes_max();
        let fragment = class.lane().fragment_bytes_max();
        for bytes in
            [0, 1, fragment - 1, fragment, fragment + 1, 3 * fragment, largest].into_iter().filter(|b| *b <= largest)
        {
            let body: Bytes = (0..bytes).map(|i| (i % 251) as u8).collect::<Vec<_>>().into();
            // An answer on the data connection is at most as large as one of a call.
            let kind = if bytes > Class::Reply.message_bytes_max() { NOTE } else { ECHO };
            let answer = one.endpoint.call(peer(2), class, kind, body.clone(), MINUTE).await.unwrap();
            assert!(answer == if kind == ECHO { body } else { Bytes::new() }, "{class} {bytes}");
        }
        let too_large = Bytes::from(vec![0; largest + 1]);
        let error = one.endpoint.call(peer(2), class, ECHO, too_large, MINUTE).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TooLarge);
    }
    assert_eq!(two.call(1, ECHO, "back").await.unwrap(), "back");
}

#[tokio::test(start_paused = true)]
async fn the_handler_knows_the_sender_the_kind_and_the_time_that_is_left() {
    let network = SimNetwork::new();
    network.set_link("n1", "n2", SimLink { delay: Duration::from_millis(100), bytes_per_second: None });
    let (one, two) = pair(&network).await;
    one.endpoint.send(peer(2), Class::Event, NOTE, "hi".into()).unwrap();
    until(|| !two.desk.notes.lock().is_empty()).await;
    assert_eq!(two.desk.notes.lock()[0], (Sender::Node(NodeId(1)), NOTE, "hi".into()));
    let waiting = task::spawn({
        let endpoint = one.endpoint.clone();
        async move { endpoint.call(peer(2), Class::Call, HOLD, Bytes::new(), Duration::from_secs(3)).await }
    });
    until(|| !two.desk.held.lock().is_empty()).await;
    let held = two.desk.held.lock().pop().unwrap();
    let remaining = held.remaining().unwrap();
    // What is left was told when it was sent; its way here is not known to either end.
    assert!(remaining <= Duration::from_secs(3) && remaining > Duration::from_millis(2900), "{remaining:?}");
    assert!(held.wants_answer() && !held.is_cancelled());
    held.answer(Err(Error::new(ErrorKind::Conflict, "taken").with_source("by another")));
    let error = waiting.await.unwrap().unwrap_err();
    assert_eq!(format!("{error:?}"), "Conflict: taken: by another");
}

#[tokio::test(start_paused = true)]
async fn an_unknown_kind_is_an_error_and_the_connection_goes_on() {
    let network = SimNetwork::new();
    let (one, _two) = pair(&network).await;
    let error = one.call(2, Kind::call(999), "?").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("nothing was done"), "{error}");
    assert_eq!(one.call(2, ECHO, "on").await.unwrap(), "on");
    assert_eq!(network.connections("n1", "n2"), 2);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_passes_says_whether_the_request_was_sent() {
    let network = SimNetwork::new();
    let (one, two) = pair(&network).await;
    let begun = time::now();
    let error = one.endpoint.call(peer(2), Class::Call, HOLD, Bytes::new(), SECOND).await.unwrap_err();
    assert_eq!((error.kind(), begun.elapsed()), (ErrorKind::OutcomeUnknown, SECOND));
    until(|| two.desk.held.lock()[0].is_cancelled()).await;

    // A third node is dialed, and nothing answers.
    network.cut("n1", "n3");
    one.endpoint.set_address(NodeId(3), address(3));
    let error = one.endpoint.call(peer(3), Class::Bulk, ECHO, Bytes::new(), SECOND).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_lost_connection_says_whether_the_request_was_sent() {
    let network = SimNetwork::new();
    let (one, two) = pair(&network).await;
    let sent = task::spawn({
        let endpoint = one.endpoint.clone();
        async move { endpoint.call(peer(2), Class::Call, HOLD, Bytes::new(), MINUTE).await }
    });
    until(|| !two.desk.held.lock().is_empty()).await;
    network.cut("n1", "n2");
    network.reset("n1", "n2");
    assert_eq!(sent.await.unwrap().unwrap_err().kind(), ErrorKind::OutcomeUnknown);
    until(|| two.desk.held.lock()[0].is_cancelled()).await;
    // The node is dialed and not reached: a message waits for the dial, and is told that it was not sent.
    let error = one.call(2, ECHO, "x").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Retry, "{error}");
    assert!(two.desk.notes.lock().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_half_sent_request_was_not_carried_out() {
    let network = SimNetwork::new();
    network.set_link("n1", "n2", SimLink { delay: Duration::ZERO, bytes_per_second: Some(1 << 20) });
    let (one, two) = pair(&network).await;
    let large = task::spawn({
        let endpoint = one.endpoint.clone();
        async move { endpoint.call(peer(2), Class::Call, NOTE, vec![7; 8 << 20].into(), MINUTE).await }
    });
    time::sleep(2 * SECOND).await;
    network.reset("n1", "n2");
    let error = large.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Retry, "{error:?}");
    assert!(two.desk.notes.lock().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_goes_away_frees_its_place_on_both_sides() {
    let network = SimNetwork::new();
    let (one, two) = pair(&network).await;
    let running = two.desk.running.clone();
    for _ in 0..3 {
        let calls: Vec<_> = (0..100)
            .map(|_| {
                let endpoint = one.endpoint.clone();
                task::spawn(async move { endpoint.call(peer(2), Class::Call, NEVER, Bytes::new(), MINUTE).await })
            })
            .collect();
        until(|| running.load(Ordering::SeqCst) == 100).await;
        calls.iter().for_each(|call| call.abort());
        until(|| running.load(Ordering::SeqCst) == 0).await;
        until(|| {
            one.endpoint.connections().iter().chain(&two.endpoint.connections()).all(|c| c.calls + c.requests == 0)
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_message_stops_in_the_middle() {
    let network = SimNetwork::new();
    let rate = 1 << 20;
    network.set_link("n1", "n2", SimLink { delay: Duration::ZERO, bytes_per_second: Some(rate) });
    let (one, two) = pair(&network).await;
    let begun = time::now();
    for _ in 0..4 {
        // Sixteen seconds' worth; the caller waits for one.
        let error = one.endpoint.call(peer(2), Class::Call, NOTE, vec![7; 16 << 20].into(), SECOND).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    }
    assert_eq!(one.call(2, ECHO, "soon").await.unwrap(), "soon");
    assert!(begun.elapsed() < 6 * SECOND, "{:?}", begun.elapsed());
    assert!(two.desk.notes.lock().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_dropped_is_answered() {
    let network = SimNetwork::new();
    let (one, two) = pair(&network).await;
    let call = one.call(2, HOLD, "x");
    let drop_it = async {
        until(|| !two.desk.held.lock().is_empty()).await;
        two.desk.held.lock().clear();
    };
    let (outcome, ()) = tokio::join!(call, drop_it);
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::OutcomeUnknown);
}
