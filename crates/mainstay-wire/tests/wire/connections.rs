//! Which connections there are: dials, ties, losses, restarts, and orderly ends.

use std::time::Duration;

use bytes::Bytes;
use mainstay_core::{ErrorKind, NodeId, random, task, time};
use mainstay_wire::sim::{SimLink, SimNetwork};
use mainstay_wire::{Class, Lane};

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn simultaneous_dials_resolve_to_one_connection_per_lane() {
    for seed in 0..50 {
        random::seed_thread(seed);
        let network = SimNetwork::new();
        let delay = Duration::from_millis(seed % 7);
        network.set_link("n1", "n2", SimLink { delay, bytes_per_second: None });
        let (one, two) = (node(&network, 1), node(&network, 2));
        two.endpoint.set_address(NodeId(1), address(1));
        time::sleep(Duration::from_millis(seed / 7)).await;
        one.endpoint.set_address(NodeId(2), address(2));
        // Both have something to say at once, on all three lanes.
        let mut calls = Vec::new();
        for (from, to) in [(&one, 2), (&two, 1)] {
            for class in [Class::Heartbeat, Class::Call, Class::Bulk] {
                if to == 1 || class != Class::Bulk {
                    let endpoint = from.endpoint.clone();
                    calls.push(task::spawn(
                        async move { endpoint.call(peer(to), class, ECHO, "x".into(), MINUTE).await },
                    ));
                }
            }
        }
        for call in calls {
            assert_eq!(call.await.unwrap().unwrap(), "x", "seed {seed}");
        }
        time::sleep(10 * SECOND).await;
        assert_eq!(network.connections("n1", "n2"), 3, "seed {seed}");
        for (process, to) in [(&one, 2), (&two, 1)] {
            assert!(Lane::ALL.into_iter().all(|lane| process.endpoint.is_connected(peer(to), lane)), "seed {seed}");
            assert_eq!(
                process.desk.disconnected.lock().len(),
                0,
                "seed {seed}: {:?}",
                process.desk.disconnected.lock()
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_is_lost_is_made_again_without_being_asked() {
    let network = SimNetwork::new();
    let (one, two) = pair(&network).await;
    for _ in 0..3 {
        network.reset("n1", "n2");
        until(|| !one.endpoint.is_connected(peer(2), Lane::Data)).await;
        let begun = time::now();
        for lane in [Lane::Heartbeat, Lane::Data] {
            until(|| one.endpoint.is_connected(peer(2), lane) && two.endpoint.is_connected(peer(1), lane)).await;
        }
        assert!(begun.elapsed() < SECOND, "{:?}", begun.elapsed());
        assert_eq!(one.call(2, ECHO, "x").await.unwrap(), "x");
    }
    assert!(one.desk.disconnected.lock().iter().any(|(from, lane, _)| (*from, *lane) == (peer(2), Lane::Heartbeat)));
}

#[tokio::test(start_paused = true)]
async fn dials_pause_between_50_milliseconds_and_2_seconds() {
    random::seed_thread(5);
    let network = SimNetwork::new();
    let one = node(&network, 1);
    one.endpoint.set_address(NodeId(2), address(2));
    time::sleep(MINUTE).await;
    // Two lanes: at two seconds each it would be 60, and they begin with less.
    let dials = network.dials();
    assert!((60..200).contains(&dials), "{dials}");
    let error = one.call(2, ECHO, "x").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Retry);
    assert!(format!("{error:?}").contains("n2:7400"), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn a_half_open_connection_is_given_up_and_replaced() {
    let network = SimNetwork::new();
    let (one, two) = pair(&network).await;
    for cut_both in [true, false] {
        let waiting = task::spawn({
            let endpoint = one.endpoint.clone();
            async move { endpoint.call(peer(2), Class::Call, HOLD, Bytes::new(), MINUTE).await }
        });
        until(|| !two.desk.held.lock().is_empty()).await;
        let begun = time::now();
        match cut_both {
            true => network.cut("n1", "n2"),
            false => network.cut_one_way("n2", "n1"),
        }
        assert_eq!(waiting.await.unwrap().unwrap_err().kind(), ErrorKind::OutcomeUnknown);
        assert!(begun.elapsed() <= 6 * SECOND, "{:?}", begun.elapsed());
        until(|| !one.endpoint.is_connected(peer(2), Lane::Heartbeat)).await;
        network.heal("n1", "n2");
        two.desk.held.lock().clear();
        until(|| one.endpoint.is_connected(peer(2), Lane::Data) && two.endpoint.is_connected(peer(1), Lane::Data))
            .await;
        until(|| one.endpoint.is_connected(peer(2), Lane::Heartbeat)).await;
        time::sleep(30 * SECOND).await;
        assert_eq!(one.call(2, ECHO, "x").await.unwrap(), "x");
        assert_eq!(network.connections("n1", "n2"), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_stays_and_a_bulk_one_goes() {
    let network = SimNetwork::new();
    let (one, _two) = pair(&network).await;
    one.endpoint.call(peer(2), Class::Bulk, ECHO, "x".into(), MINUTE).await.unwrap();
    assert_eq!(network.connections("n1", "n2"), 3);
    time::sleep(10 * MINUTE).await;
    assert_eq!(network.connections("n1", "n2"), 2);
    assert!(one.desk.disconnected.lock().iter().all(|(_, lane, _)| *lane == Lane::Bulk));
    one.endpoint.call(peer(2), Class::Bulk, ECHO, "x".into(), MINUTE).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_node_that_was_started_again_is_recognised_at_once() {
    let network = SimNetwork::new();
    let (one, two) = pair(&network).await;
    let waiting = task::spawn({
        let endpoint = one.endpoint.clone();
        async move { endpoint.call(peer(2), Class::Call, HOLD, Bytes::new(), MINUTE).await }
    });
    until(|| !two.desk.held.lock().is_empty()).await;
    // The machine is gone without a word; another one has its name.
    network.cut("n1", "n2");
    let mut options = node_options(&network, 2);
    options.boot = 2;
    options.dial = std::sync::Arc::new(network.dial_from("other"));
    let again = start(options);
    again.endpoint.listen(network.listen(&"other:7400".parse().unwrap()).unwrap()).unwrap();
    network.resolve("n2", "other");
    let begun = time::now();
    again.endpoint.set_address(NodeId(1), address(1));
    assert_eq!(waiting.await.unwrap().unwrap_err().kind(), ErrorKind::OutcomeUnknown);
    assert!(begun.elapsed() < SECOND, "{:?}", begun.elapsed());
    assert_eq!(one.call(2, ECHO, "x").await.unwrap(), "x");
    // The old one lives on, and is not taken for the new one.
    network.heal("n1", "n2");
    time::sleep(MINUTE).await;
    assert_eq!(network.connections("n1", "other"), 2);
    assert_eq!(network.connections("n1", "n2"), 0);
    assert_eq!(one.call(2, NOTE, "x").await.unwrap(), "");
    assert_eq!(again.desk.notes.lock().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_orderly_stop_lets_what_is_under_way_end() {
    let network = SimNetwork::new();
    let (one, two) = pair(&network).await;
    let waiting = task::spawn({
        let endpoint = one.endpoint.clone();
        async move { endpoint.call(peer(2), Class::Call, HOLD, Bytes::new(), MINUTE).await }
    });
    until(|| !two.desk.held.lock().is_empty()).await;
    let stopping = task::spawn({
        let endpoint = two.endpoint.clone();
        async move { endpoint.stop(MINUTE).await }
    });
    time::sleep(10 * SECOND).await;
    let error = one.call(2, ECHO, "late").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Retry, "{error}");
    assert!(!waiting.is_finished() && !stopping.is_finished());
    two.desk.held.lock().pop().unwrap().answer(Ok("done".into()));
    assert_eq!(waiting.await.unwrap().unwrap(), "done");
    stopping.await.unwrap();
    assert_eq!(two.call(1, ECHO, "x").await.unwrap_err().kind(), ErrorKind::Retry);
}

#[tokio::test(start_paused = true)]
async fn connections_are_renewed_under_load_without_a_failed_call() {
    let network = SimNetwork::new();
    network.set_link("n1", "n2", SimLink { delay: Duration::from_millis(3), bytes_per_second: None });
    let (one, two) = pair(&network).await;
    let web = client(&network, "web");
    web.endpoint.connect(&address(1)).await.unwrap();
    let load = |endpoint: &mainstay_wire::Endpoint, to: u64| {
        let endpoint = endpoint.clone();
        task::spawn(async move {
            for _ in 0..1000 {
                endpoint.call(peer(to), Class::Call, ECHO, "x".into(), MINUTE).await.unwrap();
                time::sleep(Duration::from_millis(1)).await;
            }
        })
    };
    let mut loads: Vec<_> = (0..8).flat_map(|_| [load(&one.endpoint, 2), load(&two.endpoint, 1)]).collect();
    loads.push(load(&web.endpoint, 1));
    let mut renewals = 0;
    while loads.iter().any(|load| !load.is_finished()) {
        time::sleep(Duration::from_millis(100)).await;
        [&one, &two, &web][renewals % 3].endpoint.renew_connections();
        renewals += 1;
    }
    for load in loads {
        load.await.unwrap();
    }
    assert!(renewals > 20, "{renewals}");
    time::sleep(MINUTE).await;
    assert_eq!((network.connections("n1", "n2"), network.connections("web", "n1")), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_name_that_moves_is_followed() {
    let network = SimNetwork::new();
    let one = node(&network, 1);
    network.resolve("two", "n2");
    one.endpoint.set_address(NodeId(2), "two:7400".parse().unwrap());
    let two = node(&network, 2);
    until(|| one.endpoint.is_connected(peer(2), Lane::Data)).await;
    two.endpoint.stop(SECOND).await;
    let mut options = node_options(&network, 2);
    options.boot = 2;
    let moved = start(options);
    moved.endpoint.listen(network.listen(&"elsewhere:7400".parse().unwrap()).unwrap()).unwrap();
    network.resolve("two", "elsewhere");
    until(|| moved.endpoint.is_connected(peer(1), Lane::Data)).await;
    assert_eq!(one.call(2, ECHO, "x").await.unwrap(), "x");
}

#[tokio::test(start_paused = true)]
async fn an_address_of_someone_else_is_noticed() {
    let network = SimNetwork::new();
    let (one, _two) = (node(&network, 1), node(&network, 2));
    one.endpoint.set_address(NodeId(3), address(2));
    let error = one.call(3, ECHO, "x").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Retry);
    assert!(format!("{error:?}").contains("n2:7400 is node n2"), "{error:?}");
    assert_eq!(one.endpoint.connect(&address(2)).await.unwrap(), NodeId(2));
    assert_eq!(one.call(2, ECHO, "x").await.unwrap(), "x");
    let error = one.endpoint.connect(&address(1)).await.unwrap_err();
    assert!(error.to_string().contains("itself"), "{error}");
}
