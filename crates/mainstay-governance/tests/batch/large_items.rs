//! Items of a durable queue that are about as large as a stored value may be.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mainstay::collections::VALUE_BYTES_MAX;
use mainstay::prelude::*;
use mainstay::testkit::TestNode;
use mainstay_governance::batch::durable::{DeadLetter, DurableBatch, DurableQueueRef, DurableSettings, DurableWriter};

use crate::ledger::Ledger;

async fn start(ledger: &Ledger) -> TestNode {
    let ledger = ledger.clone();
    TestNode::start(move |node| DurableBatch::serve(node, ledger.clone())).await.unwrap()
}

fn line(node: &TestNode) -> DurableQueueRef<Ledger> {
    node.actor("line").unwrap()
}

/// A text of as many bytes as can be stored: with its length before it.
fn largest(begin: &str) -> String {
    format!("{begin}{}", "x".repeat(VALUE_BYTES_MAX - 5 - begin.len()))
}

#[tokio::test]
async fn the_largest_item_is_set_aside_if_it_is_refused_and_the_others_are_written() {
    let ledger = Ledger::new(DurableSettings::default());
    let mut node = start(&ledger).await;
    assert_eq!(line(&node).append(largest("poison")).await.unwrap(), 0);
    assert_eq!(line(&node).append("row 1".into()).await.unwrap(), 1);
    node.advance(Duration::from_secs(60)).await;
    assert_eq!(ledger.rows().len(), 1);
    assert!(line(&node).written(0).await.unwrap_err().to_string().starts_with("item 0 was set aside"));
    for _ in 0..2 {
        let status = line(&node).status().await.unwrap();
        assert_eq!((status.waiting, status.waiting_bytes, status.dead_letters), (0, 0, 1));
        let letters = line(&node).dead_letters().await.unwrap();
        assert!(letters[0].number == 0 && letters[0].item == largest("poison"));
        assert!(letters[0].error.contains("there is poison in it"), "{}", letters[0].error);
        node.kill().await.unwrap();
    }
    let letter = line(&node).take_dead_letter(0).await.unwrap();
    assert!(letter.item == largest("poison"));
    assert_eq!(line(&node).take_dead_letter(0).await.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(line(&node).status().await.unwrap().dead_letters, 0);
}

#[tokio::test]
async fn an_item_that_is_too_large_disturbs_no_other_caller() {
    let ledger = Ledger::stalling(DurableSettings::default());
    let node = start(&ledger).await;
    let waiting = tokio::spawn({
        let line = line(&node);
        async move { line.append_and_wait("row 0".into()).await }
    });
    for _ in 0..10_000 {
        if ledger.is_stalled() {
            break;
        }
        node.advance(Duration::from_millis(1)).await;
    }
    for items in [vec![largest("row 1") + "x"], vec!["row 1".into(), "x".repeat(20 << 20)]] {
        let error = line(&node).append_all(items).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TooLarge);
        assert!(error.to_string().contains("VALUE_BYTES_MAX"), "{error}");
    }
    ledger.permits.add_permits(99);
    assert_eq!(waiting.await.unwrap().unwrap(), 0, "it is not told of what another caller has done");
    assert_eq!(line(&node).append_and_wait("row 1".into()).await.unwrap(), 1);
    assert_eq!((ledger.rows().len(), ledger.writes()), (2, vec![1, 1]));
}

#[interface]
trait Earlier {
    async fn set_aside(&mut self, number: u64) -> Result<()>;
}

/// What an earlier version has stored for the same queue.
#[derive(Actor)]
#[actor(implements(Earlier), name = Ledger::NAME)]
struct EarlierQueue {
    dead: State<Vec<u64>>,
    ctx: Context,
}

impl Earlier for EarlierQueue {
    async fn set_aside(&mut self, number: u64) -> Result<()> {
        let letter = DeadLetter { number, item: format!("poison {number}"), error: "there is poison in it".to_owned() };
        self.dead.push(number);
        self.ctx.state_mut().set(&format!("dead {number}"), letter)
    }
}

#[tokio::test]
async fn items_that_an_earlier_version_has_set_aside_are_listed_and_taken() {
    let is_earlier = Arc::new(AtomicBool::new(true));
    let ledger = Ledger::new(DurableSettings::default());
    let mut node = TestNode::start({
        let is_earlier = is_earlier.clone();
        move |node| match is_earlier.load(Ordering::Relaxed) {
            true => node.actor::<EarlierQueue>(),
            false => DurableBatch::serve(node, ledger.clone()),
        }
    })
    .await
    .unwrap();
    node.actor::<EarlierRef>("line").unwrap().set_aside(7).await.unwrap();
    is_earlier.store(false, Ordering::Relaxed);
    node.restart().await.unwrap();
    let letters = line(&node).dead_letters().await.unwrap();
    assert_eq!((letters[0].number, &*letters[0].item), (7, "poison 7"));
    assert_eq!(line(&node).take_dead_letter(7).await.unwrap(), letters[0]);
    assert_eq!(line(&node).take_dead_letter(7).await.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(line(&node).status().await.unwrap().dead_letters, 0);
}
