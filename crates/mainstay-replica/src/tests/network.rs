//! The in-process network does to messages what it is told, and nothing else.

use std::sync::Arc;

use bytes::Bytes;
use mainstay_core::task::Scope;
use mainstay_core::time::{self, Duration};
use mainstay_core::{ErrorKind, Level, NodeId, SetId, random};
use parking_lot::Mutex;

use crate::in_process::{InProcessNetwork, Troubles};
use crate::transport::Traffic;

const SET: SetId = SetId { level: Level::Persisted, number: 0 };
const ONE: NodeId = NodeId(1);
const TWO: NodeId = NodeId(2);

/// A network whose second node notes what it gets and echoes it.
fn network() -> (InProcessNetwork, Arc<Mutex<Vec<Bytes>>>) {
    random::seed_thread(7);
    let network = InProcessNetwork::new();
    let seen: Arc<Mutex<Vec<Bytes>>> = Arc::default();
    let notes = seen.clone();
    let echo = move |_: NodeId, _: SetId, request: Bytes| {
        notes.lock().push(request.clone());
        Box::pin(async move { request }) as std::pin::Pin<Box<dyn Future<Output = Bytes> + Send>>
    };
    network.attach(TWO, Scope::new(), Arc::new(echo));
    (network, seen)
}

async fn send(network: &InProcessNetwork, number: u8) -> Option<Bytes> {
    let call = network.endpoint(ONE).call(TWO, SET, Traffic::Log, Bytes::from(vec![number]));
    time::timeout(Duration::from_secs(1), call).await.ok().map(Result::unwrap)
}

#[tokio::test(start_paused = true)]
async fn without_trouble_every_message_arrives_once() {
    let (network, seen) = network();
    for number in 0..100 {
        assert_eq!(send(&network, number).await.unwrap(), vec![number]);
    }
    assert_eq!(seen.lock().len(), 100);
    let nowhere = network.endpoint(ONE).call(NodeId(9), SET, Traffic::Log, Bytes::new()).await.unwrap_err();
    assert_eq!(nowhere.kind(), ErrorKind::Retry);
}

#[tokio::test(start_paused = true)]
async fn requests_and_answers_get_lost_and_requests_are_doubled() {
    let (network, seen) = network();
    network.set_troubles(Troubles { loss: 0.3, ..Troubles::default() });
    let mut answered = 0;
    for number in 0..200 {
        answered += usize::from(send(&network, number).await.is_some());
    }
    let arrived = seen.lock().len();
    assert!(arrived < 200 && answered < arrived && answered > 0, "{answered} of {arrived}");

    seen.lock().clear();
    network.set_troubles(Troubles { duplication: 0.5, ..Troubles::default() });
    for number in 0..100 {
        assert!(send(&network, number).await.is_some());
    }
    assert!((101..200).contains(&seen.lock().len()));
}

#[tokio::test(start_paused = true)]
async fn messages_overtake_each_other() {
    let (network, seen) = network();
    let (delay_min, delay_max) = (Duration::from_millis(1), Duration::from_millis(50));
    network.set_troubles(Troubles { delay_min, delay_max, ..Troubles::default() });
    futures_util::future::join_all((0..50).map(|number| send(&network, number))).await;
    let seen = seen.lock();
    assert_eq!(seen.len(), 50);
    assert!(!seen.is_sorted(), "they came in the order in which they were sent");
}

#[tokio::test(start_paused = true)]
async fn a_way_that_is_cut_is_cut_in_one_direction_until_it_is_healed() {
    let (network, seen) = network();
    network.cut(ONE, TWO);
    assert_eq!(send(&network, 1).await, None);
    assert!(seen.lock().is_empty(), "the request did not arrive");
    network.heal();
    network.cut(TWO, ONE);
    assert_eq!(send(&network, 2).await, None);
    assert_eq!(seen.lock().len(), 1, "the request arrived, the answer did not");
    network.heal();
    assert!(send(&network, 3).await.is_some());
    network.detach(TWO);
    let gone = network.endpoint(ONE).call(TWO, SET, Traffic::Log, Bytes::new()).await.unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::Retry);
}

#[tokio::test(start_paused = true)]
async fn late_requests_arrive_after_their_sender_has_given_up_or_crashed() {
    let (network, seen) = network();
    network.set_troubles(Troubles { late: 1.0, late_max: Duration::from_secs(5), ..Troubles::default() });
    let sender = Scope::new();
    for number in 0..20 {
        let call = network.endpoint(ONE).call(TWO, SET, Traffic::Log, Bytes::from(vec![number]));
        sender.spawn(async move { time::timeout(Duration::from_millis(100), call).await.unwrap_err() });
    }
    time::sleep(Duration::from_millis(200)).await;
    let in_time = seen.lock().len();
    assert!(in_time < 5, "{in_time} of 20 came within a fifth of a second");
    sender.stop();
    time::sleep(Duration::from_secs(6)).await;
    let mut seen = seen.lock().clone();
    assert_eq!(seen.len(), 20);
    assert!(!seen.is_sorted());
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 20, "each came once");
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_keeps_nothing_of_the_node_that_gave_it() {
    random::seed_thread(7);
    let network = InProcessNetwork::new();
    let (data, node) = (Arc::new("what the node has open"), Scope::new());
    let (held, answered) = (Arc::downgrade(&data), Arc::new(Mutex::new(0)));
    let counted = answered.clone();
    let handler = move |_: NodeId, _: SetId, request: Bytes| {
        let (data, counted) = (data.clone(), counted.clone());
        Box::pin(async move {
            *counted.lock() += data.len().min(1);
            request
        }) as std::pin::Pin<Box<dyn Future<Output = Bytes> + Send>>
    };
    network.attach(TWO, node.clone(), Arc::new(handler));
    network.cut(TWO, ONE);
    network.set_troubles(Troubles { duplication: 1.0, ..Troubles::default() });
    let sender = Scope::new();
    for number in 0..10 {
        sender.spawn(network.endpoint(ONE).call(TWO, SET, Traffic::Log, Bytes::from(vec![number])));
    }
    time::timeout(Duration::from_secs(5), async {
        while *answered.lock() < 20 {
            time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await
    .expect("all requests and their doubles are answered");
    assert!(held.upgrade().is_some());
    network.detach(TWO);
    node.stop();
    node.ended().await;
    assert!(held.upgrade().is_none(), "those who wait for its answers keep what the node had open");
    sender.stop();
}
