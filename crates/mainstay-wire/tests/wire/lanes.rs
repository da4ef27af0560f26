//! What is urgent does not wait for what is large.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use mainstay_core::{NodeId, task, time};
use mainstay_wire::sim::{SimLink, SimNetwork};
use mainstay_wire::{Class, Lane};
use parking_lot::Mutex;

use crate::support::*;

const LINK_RATE: u64 = 10_000_000;

fn slow(network: &SimNetwork) {
    network.set_link("n1", "n2", SimLink { delay: Duration::from_millis(1), bytes_per_second: Some(LINK_RATE) });
}

/// Sends so many bytes in the bulk class, as a snapshot is sent.
fn transfer(process: &Process, bytes: usize) -> task::JoinHandle<()> {
    let endpoint = process.endpoint.clone();
    let chunk = Bytes::from(vec![9; 1 << 20]);
    task::spawn(async move {
        for _ in 0..bytes >> 20 {
            endpoint.call(peer(2), Class::Bulk, NOTE, chunk.clone(), MINUTE).await.unwrap();
        }
    })
}

/// How long calls take while something goes on.
async fn longest(process: &Process, class: Class, during: task::JoinHandle<()>) -> (Duration, usize) {
    let (mut longest, mut count) = (Duration::ZERO, 0);
    while !during.is_finished() {
        let begun = time::now();
        process.endpoint.call(peer(2), class, ECHO, "x".into(), MINUTE).await.unwrap();
        longest = longest.max(begun.elapsed());
        count += 1;
        time::sleep(Duration::from_millis(10)).await;
    }
    during.await.unwrap();
    (longest, count)
}

#[tokio::test(start_paused = true)]
async fn a_bulk_transfer_does_not_delay_heartbeats() {
    let network = SimNetwork::new();
    slow(&network);
    let (one, two) = pair(&network).await;
    let (begun, bytes) = (time::now(), 64 << 20);
    let (heartbeat, count) = longest(&one, Class::Heartbeat, transfer(&one, bytes)).await;
    assert!(begun.elapsed() > 6 * SECOND && count > 100, "the link was busy all the time: {:?}", begun.elapsed());
    // What the bulk connection has in the buffers of the system is in front of it, and no more: 256 KiB are 26 ms.
    assert!(heartbeat < Duration::from_millis(40), "{heartbeat:?}");
    let (call, _) = longest(&one, Class::Call, transfer(&one, bytes)).await;
    assert!(call < Duration::from_millis(40), "{call:?}");
    assert!(two.desk.disconnected.lock().is_empty());
}

#[tokio::test(start_paused = true)]
async fn bulk_is_limited_to_its_rate_and_the_rate_can_be_changed() {
    let network = SimNetwork::new();
    let mut options = node_options(&network, 1);
    options.bulk_bytes_per_second = 1 << 20;
    let (one, two) = (start_node(&network, 1, options), node(&network, 2));
    introduce(&one, &two).await;
    let begun = time::now();
    transfer(&one, 8 << 20).await.unwrap();
    let took = begun.elapsed().as_millis();
    assert!((7500..8500).contains(&took), "{took}");
    one.endpoint.set_bulk_rate(4 << 20);
    let begun = time::now();
    transfer(&one, 8 << 20).await.unwrap();
    let took = begun.elapsed().as_millis();
    assert!((1800..2200).contains(&took), "{took}");
}

#[tokio::test(start_paused = true)]
async fn classes_share_a_busy_connection_by_their_weights() {
    let network = SimNetwork::new();
    slow(&network);
    let (one, two) = pair(&network).await;
    // More than the link carries, of all three, without a pause.
    for class in [Class::Event, Class::Call, Class::Log] {
        let endpoint = one.endpoint.clone();
        let body = Bytes::from(vec![class as u8; 64 << 10]);
        task::spawn(async move {
            loop {
                while endpoint.send(peer(2), class, NOTE, body.clone()).is_ok() {}
                time::sleep(Duration::from_millis(1)).await;
            }
        });
    }
    time::sleep(2 * SECOND).await;
    let count =
        |class: Class| two.desk.notes.lock().iter().filter(|(_, _, body)| body[0] == class as u8).count() as f64;
    let before = [Class::Log, Class::Call, Class::Event].map(count);
    time::sleep(20 * SECOND).await;
    let after = [Class::Log, Class::Call, Class::Event].map(count);
    let [log, call, event] = [0, 1, 2].map(|i| after[i] - before[i]);
    assert!((3.8..4.2).contains(&(log / call)) && (1.9..2.1).contains(&(call / event)), "{log} {call} {event}");
}

#[tokio::test(start_paused = true)]
async fn a_small_call_is_not_held_up_by_large_ones() {
    let network = SimNetwork::new();
    slow(&network);
    let (one, _two) = pair(&network).await;
    let large = {
        let endpoint = one.endpoint.clone();
        let body = Bytes::from(vec![1; 8 << 20]);
        task::spawn(async move { drop(endpoint.call(peer(2), Class::Call, NOTE, body, MINUTE).await.unwrap()) })
    };
    let (small, count) = longest(&one, Class::Call, large).await;
    assert!(small < Duration::from_millis(50) && count > 10, "{small:?} {count}");
}

#[tokio::test(start_paused = true)]
async fn messages_of_log_and_event_arrive_in_order() {
    let network = SimNetwork::new();
    slow(&network);
    let (one, two) = pair(&network).await;
    for class in [Class::Log, Class::Event] {
        for number in 0..100u32 {
            let size = if number % 3 == 0 { 60_000 } else { 4 };
            let mut body = number.to_le_bytes().to_vec();
            body.resize(size, 0);
            one.endpoint.send(peer(2), class, NOTE, body.into()).unwrap();
        }
        until(|| two.desk.notes.lock().len() == 100).await;
        let notes = std::mem::take(&mut *two.desk.notes.lock());
        let numbers: Vec<_> =
            notes.iter().map(|(_, _, body)| u32::from_le_bytes(body[..4].try_into().unwrap())).collect();
        assert!(numbers.iter().copied().eq(0..100), "{numbers:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_busy_connection_is_not_taken_for_a_dead_one() {
    let network = SimNetwork::new();
    network.set_link("n1", "n2", SimLink { delay: Duration::from_millis(1), bytes_per_second: Some(300_000) });
    let (one, two) = pair(&network).await;
    let seen = Arc::new(Mutex::new(0));
    for _ in 0..3 {
        let (endpoint, seen) = (one.endpoint.clone(), seen.clone());
        task::spawn(async move {
            endpoint.call(NodeId(2).into(), Class::Log, NOTE, vec![0; 3 << 20].into(), 5 * MINUTE).await.unwrap();
            *seen.lock() += 1;
        });
    }
    until(|| *seen.lock() == 3).await;
    let lost: Vec<_> = [&one, &two].iter().flat_map(|p| p.desk.disconnected.lock().clone()).collect();
    assert!(lost.iter().all(|(_, lane, _)| *lane == Lane::Bulk), "{lost:?}");
}
