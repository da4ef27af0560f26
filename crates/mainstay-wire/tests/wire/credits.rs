//! What is full is `Overloaded` at the sender.

use bytes::Bytes;
use mainstay_core::{ErrorKind, NodeId, task, time};
use mainstay_wire::sim::SimNetwork;
use mainstay_wire::{Class, Window};

use crate::support::*;

/// Two nodes, of which the second takes in 16 calls at a time.
async fn narrow(network: &SimNetwork) -> (Process, Process) {
    let one = node(network, 1);
    let mut options = node_options(network, 2);
    options.windows[3] = Window { messages: 16, ..Window::default_of(Class::Call) };
    let two = start_node(network, 2, options);
    introduce(&one, &two).await;
    (one, two)
}

#[tokio::test(start_paused = true)]
async fn a_receiver_that_is_full_is_overloaded_at_the_sender_in_that_class_alone() {
    let network = SimNetwork::new();
    let (one, two) = narrow(&network).await;
    for _ in 0..3 {
        let calls: Vec<_> = (0..16)
            .map(|_| {
                let endpoint = one.endpoint.clone();
                task::spawn(async move { endpoint.call(peer(2), Class::Call, HOLD, Bytes::new(), MINUTE).await })
            })
            .collect();
        until(|| two.desk.held.lock().len() == 16).await;
        let begun = time::now();
        let error = one.call(2, ECHO, "x").await.unwrap_err();
        assert_eq!((error.kind(), begun.elapsed().as_millis()), (ErrorKind::Overloaded, 0));
        assert!(error.to_string().contains("16 messages"), "{error}");
        assert_eq!(one.endpoint.call(peer(2), Class::Log, ECHO, "x".into(), SECOND).await.unwrap(), "x");
        for held in two.desk.held.lock().drain(..) {
            held.answer(Ok(Bytes::new()));
        }
        for call in calls {
            call.await.unwrap().unwrap();
        }
        for _ in 0..100 {
            assert_eq!(one.call(2, ECHO, "x").await.unwrap(), "x");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn messages_that_are_kept_hold_bytes_too() {
    let network = SimNetwork::new();
    let (one, two) = pair(&network).await;
    let body = Bytes::from(vec![1; 1 << 20]);
    let window = Window::default_of(Class::Event);
    let mut sent = 0;
    while one.endpoint.send(peer(2), Class::Event, HOLD, body.clone()).is_ok() {
        sent += 1;
    }
    assert_eq!(sent, window.bytes >> 20);
    until(|| two.desk.held.lock().len() as u64 == sent).await;
    let error = one.endpoint.send(peer(2), Class::Event, HOLD, body.clone()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Overloaded);
    two.desk.held.lock().clear();
    until(|| one.endpoint.send(peer(2), Class::Event, HOLD, body.clone()).is_ok()).await;
}

#[tokio::test(start_paused = true)]
async fn what_waits_for_a_dial_is_bounded_and_kept_to_what_the_receiver_takes_in() {
    let network = SimNetwork::new();
    let one = node(&network, 1);
    network.set_link("n1", "n2", mainstay_wire::sim::SimLink { delay: SECOND / 5, bytes_per_second: None });
    let mut options = node_options(&network, 2);
    options.windows[3] = Window { messages: 16, ..Window::default_of(Class::Call) };
    let two = start_node(&network, 2, options);
    one.endpoint.set_address(NodeId(2), address(2));
    let mut sent = 0;
    let refused = loop {
        match one.endpoint.send(peer(2), Class::Call, HOLD, Bytes::new()) {
            Ok(()) => sent += 1,
            Err(error) => break error,
        }
    };
    assert_eq!((sent, refused.kind()), (Window::default_of(Class::Call).messages, ErrorKind::Overloaded));
    let mut seen = 0;
    while seen < sent as usize {
        until(|| two.desk.held.lock().len() >= (sent as usize - seen).min(14)).await;
        let held = std::mem::take(&mut *two.desk.held.lock());
        assert!(held.len() <= 16, "{}", held.len());
        seen += held.len();
    }
    assert_eq!(network.connections("n1", "n2"), 2, "the receiver has found nothing wrong");
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_does_not_read_its_answers_costs_a_bounded_amount() {
    let network = SimNetwork::new();
    let (one, two) = pair(&network).await;
    // Nothing gets back from here on; requests still come in.
    network.cut_one_way("n2", "n1");
    let answer = Bytes::from(vec![1; 8 << 20]);
    let calls: Vec<_> = (0..40)
        .map(|_| {
            let endpoint = one.endpoint.clone();
            task::spawn(async move { endpoint.call(peer(2), Class::Call, HOLD, Bytes::new(), MINUTE).await })
        })
        .collect();
    until(|| two.desk.held.lock().len() == 40).await;
    for held in two.desk.held.lock().drain(..) {
        held.answer(Ok(answer.clone()));
    }
    let late = one.endpoint.clone();
    let late = task::spawn(async move { late.call(peer(2), Class::Call, NOTE, Bytes::new(), MINUTE).await });
    time::sleep(SECOND).await;
    network.heal("n1", "n2");
    let (mut whole, mut dropped) = (0, 0);
    for call in calls {
        match call.await.unwrap() {
            Ok(body) if body == answer => whole += 1,
            Err(error) if error.kind() == ErrorKind::OutcomeUnknown => dropped += 1,
            other => panic!("{other:?}"),
        }
    }
    // 128 MiB wait at most, beside what the connection has taken.
    assert!((15..=17).contains(&whole) && whole + dropped == 40, "{whole} {dropped}");
    assert_eq!(late.await.unwrap().unwrap_err().kind(), ErrorKind::Overloaded);
    assert!(two.desk.notes.lock().is_empty());
}
