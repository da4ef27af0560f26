//! Who may connect, and who may send what.

use std::collections::BTreeSet;

use mainstay_core::time::wall;
use mainstay_core::{ClusterId, ErrorKind, NodeId};
use mainstay_wire::frame::{PROTOCOL_MAX, PROTOCOL_MIN};
use mainstay_wire::hello::{Hello, HelloAnswer, RefusalCode};
use mainstay_wire::sim::SimNetwork;
use mainstay_wire::{Class, EndpointOptions, Kind, Lane, Peer, RolePolicy, Sender, SessionId, Window};
use tokio::sync::watch;

use crate::hostile::{exchange, log_lines};
use crate::support::*;

#[tokio::test(start_paused = true)]
async fn a_client_may_call_and_nothing_else() {
    let network = SimNetwork::new();
    let (one, web) = (node(&network, 1), client(&network, "web"));
    assert_eq!(web.endpoint.connect(&address(1)).await.unwrap(), NodeId(1));
    assert_eq!(web.call(1, NOTE, "x").await.unwrap(), "");
    assert_eq!(one.desk.notes.lock()[0].0, Sender::client("web").unwrap());
    for (class, kind) in
        [(Class::Call, MEMBER), (Class::Log, NOTE), (Class::Call, Kind::administration(1)), (Class::Bulk, MEMBER)]
    {
        let error = web.endpoint.call(peer(1), class, kind, vec![0; 100_000].into(), SECOND).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains("client web may not send"), "{error}");
    }
    let error = web.endpoint.call(peer(1), Class::Heartbeat, NOTE, "x".into(), SECOND).await.unwrap_err();
    assert!(format!("{error:?}").contains("for nodes"), "{error:?}");
    // What is refused takes no place for ever.
    for _ in 0..10_000 {
        web.endpoint.call(peer(1), Class::Call, MEMBER, "x".into(), SECOND).await.unwrap_err();
    }
    assert_eq!(one.desk.notes.lock().len(), 1);
    // The node reaches it by its session, without an address.
    let session = Peer::Session(web.endpoint.session());
    assert_eq!(one.endpoint.call(session, Class::Call, ECHO, "x".into(), SECOND).await.unwrap(), "x");
    web.endpoint.stop(SECOND).await;
    until(|| one.endpoint.send(session, Class::Event, NOTE, "x".into()).is_err()).await;
    assert_eq!(one.endpoint.connections().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_removed_node_is_refused_by_name_and_its_connections_are_closed() {
    let network = SimNetwork::new();
    let removed = watch::Sender::new(BTreeSet::new());
    let mut options = node_options(&network, 1);
    options.removed = removed.subscribe();
    let (one, two) = (start_node(&network, 1, options), node(&network, 2));
    introduce(&one, &two).await;
    assert_eq!(two.call(1, MEMBER, "x").await.unwrap(), "");
    removed.send_modify(|nodes| {
        nodes.insert(NodeId(2));
    });
    until(|| !two.endpoint.is_connected(peer(1), Lane::Data) && !two.endpoint.is_connected(peer(1), Lane::Heartbeat))
        .await;
    let error = two.endpoint.connect(&address(1)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("node n2 was removed"), "{error}");
    // As soon as it has dialed again, calls are told too.
    while !format!("{:?}", two.call(1, MEMBER, "x").await.unwrap_err()).contains("node n2 was removed") {
        mainstay_core::time::sleep(SECOND / 100).await;
    }
    assert_eq!(one.desk.notes.lock().len(), 1);
    assert_eq!(one.call(2, ECHO, "x").await.unwrap_err().kind(), ErrorKind::Retry);
}

#[tokio::test(start_paused = true)]
async fn sessions_are_limited_and_cannot_be_taken_over() {
    let network = SimNetwork::new();
    let mut options = node_options(&network, 1);
    options.sessions_max = 2;
    let one = start_node(&network, 1, options);
    let (a, b, c) = (client(&network, "a"), client(&network, "b"), client(&network, "c"));
    for process in [&a, &b] {
        process.endpoint.connect(&address(1)).await.unwrap();
    }
    let error = c.endpoint.connect(&address(1)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Retry);
    assert!(error.to_string().contains("2 processes"), "{error}");
    let stolen = Hello { sender: Sender::client("c").unwrap(), session: a.endpoint.session(), ..hello() };
    let HelloAnswer::Refused(refusal) = exchange(&network, stolen).await.unwrap() else { panic!() };
    assert_eq!(refusal.code, RefusalCode::Identity);
    assert_eq!(a.call(1, ECHO, "x").await.unwrap(), "x");
    b.endpoint.stop(SECOND).await;
    until(|| one.desk.disconnected.lock().len() == 1).await;
    c.endpoint.connect(&address(1)).await.unwrap();
}

/// The hello of a node 9.
pub(crate) fn hello() -> Hello {
    Hello {
        protocol_min: PROTOCOL_MIN,
        protocol_max: PROTOCOL_MAX,
        lane: Lane::Data,
        sender: Sender::Node(NodeId(9)),
        cluster: Some(CLUSTER),
        session: SessionId(9),
        boot: 1,
        sequence: 1,
        features: 0,
        wall: wall(),
        windows: Class::ALL.map(Window::default_of),
    }
}

#[tokio::test(start_paused = true)]
async fn a_hello_is_refused_by_name() {
    let network = SimNetwork::new();
    let (_one, wall) = (node(&network, 1), wall());
    let ms = std::time::Duration::from_millis;
    let newer = Hello { protocol_min: PROTOCOL_MAX + 1, protocol_max: PROTOCOL_MAX + 5, ..hello() };
    for (hello, code, why) in [
        (newer, RefusalCode::Version, "upgrade"),
        (Hello { cluster: Some(ClusterId(0xbad)), ..hello() }, RefusalCode::Cluster, "is of cluster"),
        (Hello { cluster: None, ..hello() }, RefusalCode::Cluster, "does not say"),
        (Hello { sender: Sender::Node(NodeId(1)), ..hello() }, RefusalCode::Identity, "itself"),
        (Hello { wall: wall.saturating_add(ms(5_100)), ..hello() }, RefusalCode::Clock, "5100 ms ahead"),
        (Hello { wall: wall.saturating_sub(ms(5_100)), ..hello() }, RefusalCode::Clock, "-5100 ms ahead"),
        (Hello { sender: Sender::Joining, ..hello() }, RefusalCode::Policy, "without a certificate"),
        (
            Hello { sender: Sender::client("web").unwrap(), lane: Lane::Heartbeat, ..hello() },
            RefusalCode::Policy,
            "for nodes",
        ),
    ] {
        let HelloAnswer::Refused(refusal) = exchange(&network, hello).await.unwrap() else { panic!("{why}") };
        assert_eq!(refusal.code, code, "{why}");
        assert!(refusal.text.contains(why), "{}", refusal.text);
    }
    let range = Hello { protocol_max: u16::MAX, features: u64::MAX, ..hello() };
    let HelloAnswer::Welcome(welcome) = exchange(&network, range).await.unwrap() else { panic!() };
    assert_eq!((welcome.sender.clone(), welcome.cluster), (Sender::Node(NodeId(1)), Some(CLUSTER)));
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_off_is_reported_and_one_of_a_client_does_not_matter() {
    let (lines, _guard) = log_lines();
    let network = SimNetwork::new();
    let _one = node(&network, 1);
    let off = |ms| Hello { wall: wall().saturating_add(std::time::Duration::from_millis(ms)), ..hello() };
    assert!(matches!(exchange(&network, off(400)).await.unwrap(), HelloAnswer::Welcome(_)));
    assert!(!lines.lock().iter().any(|line| line.contains("wall clock")));
    let far = Hello { sequence: 2, ..off(700) };
    assert!(matches!(exchange(&network, far).await.unwrap(), HelloAnswer::Welcome(_)));
    until(|| lines.lock().iter().any(|line| line.contains("the wall clock of node n9 is 700 ms ahead"))).await;
    let client = Hello { sender: Sender::client("web").unwrap(), ..off(3_600_000) };
    assert!(matches!(exchange(&network, client).await.unwrap(), HelloAnswer::Welcome(_)));
}

#[tokio::test(start_paused = true)]
async fn who_joins_can_ask_to_join_where_that_is_allowed() {
    let network = SimNetwork::new();
    let mut options = node_options(&network, 1);
    options.policy = std::sync::Arc::new(RolePolicy::default().joining());
    let one = start_node(&network, 1, options);
    let mut options = EndpointOptions::new(Sender::Joining, None);
    options.dial = std::sync::Arc::new(network.dial_from("new"));
    let new = start(options);
    new.endpoint.connect(&address(1)).await.unwrap();
    new.call(1, JOIN, "please").await.unwrap();
    assert_eq!(one.desk.notes.lock()[0].0, Sender::Joining);
    assert!(new.call(1, NOTE, "x").await.unwrap_err().to_string().contains("may not send"));
}

#[test]
fn options_that_contradict_each_other_are_refused() {
    let desk = std::sync::Arc::new(Desk::default());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let _entered = runtime.enter();
    let refused = |change: fn(&mut EndpointOptions)| {
        let mut options = EndpointOptions::new(Sender::Node(NodeId(1)), Some(CLUSTER));
        change(&mut options);
        mainstay_wire::Endpoint::start(options, desk.clone()).unwrap_err().to_string()
    };
    assert!(refused(|options| options.cluster = None).contains("cluster"));
    assert!(refused(|options| options.windows[1].bytes = 1 << 20).contains("class log"));
    assert!(refused(|options| options.timing.data.ping_after = MINUTE).contains("ping_after"));
}
