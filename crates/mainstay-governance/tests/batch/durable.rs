//! Items that are acknowledged when they are stored. Defects of the buffered writer of the original (reference 3.5) have
//! their tests here.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mainstay::prelude::*;
use mainstay::testkit::TestNode;
use mainstay_governance::batch::RetryPolicy;
use mainstay_governance::batch::durable::{DurableBatch, DurableQueueRef, DurableSettings, DurableWriter, Numbered};
use mainstay_governance::owner::Opening;

use crate::ledger::Ledger;

const LINGER: Duration = Duration::from_secs(5);

fn lingering() -> DurableSettings {
    DurableSettings { linger: LINGER, items_max: 10, ..DurableSettings::default() }
}

async fn start(ledger: &Ledger) -> TestNode {
    let ledger = ledger.clone();
    TestNode::start(move |node| DurableBatch::serve(node, ledger.clone())).await.unwrap()
}

type Line = DurableQueueRef<Ledger>;

fn line(node: &TestNode) -> Line {
    node.actor("line").unwrap()
}

fn texts(numbers: std::ops::Range<u64>) -> Vec<String> {
    numbers.map(|number| format!("row {number}")).collect()
}

async fn append(node: &TestNode, numbers: std::ops::Range<u64>) {
    let line = line(node);
    for number in numbers {
        assert_eq!(line.append(format!("row {number}")).await.unwrap(), number);
    }
}

/// Waits for something, while time passes.
async fn until(node: &TestNode, what: impl Fn() -> bool) {
    for _ in 0..100_000 {
        if what() {
            return;
        }
        node.advance(Duration::from_millis(1)).await;
    }
    panic!("it has not happened");
}

#[tokio::test]
async fn items_are_written_by_count_by_time_and_by_bytes() {
    let ledger = Ledger::new(DurableSettings { bytes_max: 100, ..lingering() });
    let node = start(&ledger).await;
    append(&node, 0..10).await;
    until(&node, || ledger.rows().len() == 10).await;
    append(&node, 10..13).await;
    node.advance(LINGER / 2).await;
    assert_eq!(ledger.rows().len(), 10, "they wait for others");
    node.advance(LINGER).await;
    assert_eq!(ledger.rows(), texts(0..13));
    assert_eq!(ledger.writes(), [10, 3]);
    for size in [60, 60, 200] {
        line(&node).append("x".repeat(size)).await.unwrap();
    }
    node.advance(Duration::from_millis(10)).await;
    assert_eq!(ledger.writes(), [10, 3, 1, 1, 1], "no batch is larger, but for an item that is");
}

#[tokio::test]
async fn without_a_linger_what_gathers_during_a_write_is_the_next_batch() {
    let ledger = Ledger::stalling(DurableSettings::default());
    let node = start(&ledger).await;
    append(&node, 0..1).await;
    until(&node, || ledger.is_stalled()).await;
    append(&node, 1..8).await;
    assert_eq!(ledger.writes(), [1]);
    ledger.permits.add_permits(9);
    line(&node).written(7).await.unwrap();
    assert_eq!((ledger.writes(), ledger.rows()), (vec![1, 7], texts(0..8)));
}

#[tokio::test]
async fn callers_can_wait_until_an_item_is_written_or_all_are() {
    let ledger = Ledger::new(lingering());
    let node = start(&ledger).await;
    let line = line(&node);
    line.flush().await.unwrap();
    let started = tokio::time::Instant::now();
    assert_eq!(line.append_and_wait("row 0".into()).await.unwrap(), 0);
    assert!(started.elapsed() >= LINGER);
    line.written(0).await.unwrap();
    assert_eq!(line.append_all(texts(1..4)).await.unwrap(), 1);
    line.flush().await.unwrap();
    assert_eq!(ledger.rows(), texts(0..4));
    assert!(started.elapsed() < LINGER * 2, "a flush does not wait for more");
    assert_eq!(line.written(4).await.unwrap_err().kind(), ErrorKind::NotFound);
    let status = line.status().await.unwrap();
    assert_eq!((status.waiting, status.waiting_bytes, status.next, status.batches), (0, 0, 4, 2));
}

/// Reference 3.5: the original erases its buffer at every activation, and relies on a timer that does not survive it.
#[tokio::test]
async fn defect_3_5_what_was_acknowledged_is_written_after_a_kill_without_any_call() {
    let ledger = Ledger::new(lingering());
    let mut node = start(&ledger).await;
    append(&node, 0..5).await;
    node.kill().await.unwrap();
    assert_eq!(ledger.rows().len(), 0);
    node.advance(2 * LINGER).await;
    assert_eq!(ledger.rows(), texts(0..5));
    append(&node, 5..6).await;
    node.restart().await.unwrap();
    node.advance(2 * LINGER).await;
    assert_eq!(ledger.rows(), texts(0..6));
}

/// Sets the wall clock alone.
fn set_back(node: &TestNode) {
    node.set_wall(mainstay::actor::wall().saturating_sub(Duration::from_secs(60 * 60)));
}

#[tokio::test]
async fn a_wall_clock_that_is_set_back_keeps_nothing_waiting_neither_now_nor_after_a_kill() {
    let ledger = Ledger::new(lingering());
    let mut node = start(&ledger).await;
    append(&node, 0..5).await;
    set_back(&node);
    node.advance(LINGER + Duration::from_secs(1)).await;
    assert_eq!(ledger.rows(), texts(0..5));
    append(&node, 5..7).await;
    set_back(&node);
    node.kill().await.unwrap();
    node.advance(2 * LINGER).await;
    assert_eq!(ledger.rows(), texts(0..7));
    // Set back while nobody was there.
    append(&node, 7..9).await;
    node.kill_for(Duration::ZERO).await.unwrap();
    set_back(&node);
    node.advance(3 * LINGER).await;
    assert_eq!(ledger.rows(), texts(0..9));
}

/// Reference 3.5: the original takes an event out before it is written.
#[tokio::test]
async fn defect_3_5_an_item_stays_until_it_is_written_however_long_that_takes() {
    let retry = RetryPolicy { backoff_max: Duration::from_secs(60), ..RetryPolicy::default() };
    let ledger = Ledger::new(DurableSettings { retry, ..lingering() });
    let node = start(&ledger).await;
    for kind in [ErrorKind::Retry, ErrorKind::StorageFull, ErrorKind::OutcomeUnknown, ErrorKind::Fatal] {
        ledger.fail(Some(kind));
        let first = ledger.rows().len() as u64;
        append(&node, first..first + 3).await;
        node.advance(Duration::from_secs(60 * 60)).await;
        let status = line(&node).status().await.unwrap();
        assert_eq!((status.waiting, status.dead_letters), (3, 0));
        assert!(status.failures > 5 && status.last_error.unwrap().contains("away"));
        ledger.fail(None);
        node.advance(Duration::from_secs(60)).await;
        assert_eq!(ledger.rows(), texts(0..first + 3));
    }
    assert!(ledger.writes().len() < 1000, "the waits grow: {}", ledger.writes().len());
}

/// Reference 3.5: the original drops its timer and writes nothing when it leaves memory.
#[tokio::test]
async fn defect_3_5_a_line_that_leaves_memory_writes_what_it_has_and_nothing_twice() {
    let ledger = Ledger::new(lingering());
    let node = start(&ledger).await;
    append(&node, 0..10).await;
    until(&node, || ledger.rows().len() == 10).await;
    append(&node, 10..13).await;
    node.deactivate_actor::<DurableBatch<Ledger>>("line").await.unwrap();
    assert_eq!(ledger.rows(), texts(0..13));
    append(&node, 13..14).await;
    node.advance(2 * LINGER).await;
    assert_eq!(ledger.rows(), texts(0..14), "the table knows the numbers");
}

/// Reference 3.5: the buffer of the original has no bound although "when full" is promised.
#[tokio::test]
async fn defect_3_5_a_line_that_is_full_refuses_and_takes_all_or_nothing() {
    let ledger = Ledger::stalling(DurableSettings { waiting_items_max: 5, ..lingering() });
    let node = start(&ledger).await;
    let line = line(&node);
    append(&node, 0..3).await;
    let error = line.append_all(texts(3..6)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Overloaded);
    assert!(error.to_string().starts_with("ledger(\"line\") has 3 items"), "{error}");
    line.append_all(texts(3..5)).await.unwrap();
    assert_eq!(line.append("row 5".into()).await.unwrap_err().kind(), ErrorKind::Overloaded);
    ledger.permits.add_permits(99);
    line.flush().await.unwrap();
    append(&node, 5..6).await;
    line.flush().await.unwrap();
    assert_eq!(ledger.rows(), texts(0..6));
}

#[tokio::test]
async fn room_is_counted_in_bytes_too() {
    let ledger = Ledger::new(DurableSettings { waiting_bytes_max: 100, ..lingering() });
    let node = start(&ledger).await;
    line(&node).append("x".repeat(90)).await.unwrap();
    assert_eq!(line(&node).append("x".repeat(11)).await.unwrap_err().kind(), ErrorKind::Overloaded);
    line(&node).flush().await.unwrap();
    line(&node).append("x".repeat(11)).await.unwrap();
}

/// As a later version of a writer may do with the items of an earlier one.
#[tokio::test]
async fn items_that_count_for_less_than_when_they_came_leave_nothing_behind() {
    let ledger = Ledger::new(lingering());
    ledger.overhead_bytes.store(1000, Ordering::Relaxed);
    let node = start(&ledger).await;
    line(&node).append("x".repeat(10)).await.unwrap();
    assert_eq!(line(&node).status().await.unwrap().waiting_bytes, 1010);
    ledger.overhead_bytes.store(0, Ordering::Relaxed);
    line(&node).flush().await.unwrap();
    assert_eq!(line(&node).status().await.unwrap().waiting_bytes, 0);
}

#[tokio::test]
async fn more_items_at_once_than_may_ever_wait_are_too_large_and_not_for_later() {
    let ledger = Ledger::new(DurableSettings { waiting_items_max: 5, ..lingering() });
    let node = start(&ledger).await;
    let error = line(&node).append_all(texts(0..6)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    assert!(error.to_string().contains("waiting_items_max, which is 5"), "{error}");
    line(&node).append_all(texts(0..5)).await.unwrap();
}

#[tokio::test]
async fn a_batch_that_was_written_when_the_node_was_killed_is_recognized() {
    let ledger = Ledger::stalling(DurableSettings::default());
    let mut node = start(&ledger).await;
    append(&node, 0..4).await;
    for _ in 0..3 {
        // In the table, and not removed from the line.
        until(&node, || ledger.is_stalled()).await;
        node.kill().await.unwrap();
    }
    ledger.permits.add_permits(99);
    append(&node, 4..6).await;
    line(&node).flush().await.unwrap();
    assert_eq!(ledger.rows(), texts(0..6));
}

#[tokio::test]
async fn a_removal_that_is_not_committed_is_done_again() {
    let ledger = Ledger::stalling(DurableSettings::default());
    let node = start(&ledger).await;
    append(&node, 0..4).await;
    until(&node, || ledger.is_stalled()).await;
    node.fail_next_commit();
    ledger.permits.add_permits(99);
    node.advance(Duration::from_secs(60)).await;
    append(&node, 4..5).await;
    line(&node).flush().await.unwrap();
    assert_eq!(ledger.rows(), texts(0..5));
    assert_eq!(line(&node).status().await.unwrap().waiting, 0);
}

#[tokio::test]
async fn a_key_makes_an_item_one_whatever_becomes_of_the_answers() {
    let ledger = Ledger::new(DurableSettings::default());
    let mut node = start(&ledger).await;
    for _ in 0..3 {
        for number in 0..5 {
            let line = line(&node).idempotent(format!("key {number}"));
            assert_eq!(line.append(format!("row {number}")).await.unwrap(), number);
        }
        node.kill().await.unwrap();
    }
    line(&node).flush().await.unwrap();
    assert_eq!(ledger.rows(), texts(0..5));
}

#[tokio::test]
async fn an_item_that_cannot_be_written_is_set_aside_and_the_others_are_written() {
    let ledger = Ledger::new(DurableSettings { items_max: 100, ..lingering() });
    let mut node = start(&ledger).await;
    let line = self::line(&node);
    let mut items = texts(0..50);
    items[17] = "poison 17".into();
    items[40] = "poison 40".into();
    line.append_all(items).await.unwrap();
    let waiting = tokio::spawn({
        let line = line.clone();
        async move { (line.written(17).await, line.written(18).await) }
    });
    line.flush().await.unwrap();
    let (poisoned, good) = waiting.await.unwrap();
    assert!(poisoned.unwrap_err().to_string().starts_with("item 17 was set aside"));
    good.unwrap();
    assert_eq!(ledger.rows().len(), 48);
    assert!(ledger.writes().len() < 40, "{:?}", ledger.writes());
    node.kill().await.unwrap();
    let line = self::line(&node);
    let letters = line.dead_letters().await.unwrap();
    assert_eq!(letters.iter().map(|letter| letter.number).collect::<Vec<_>>(), [17, 40]);
    assert!(letters[0].error.contains("there is poison in it") && letters[0].item == "poison 17");
    assert!(line.written(40).await.unwrap_err().to_string().starts_with("item 40 was set aside"));
    assert_eq!(line.take_dead_letter(17).await.unwrap(), letters[0]);
    assert_eq!(line.take_dead_letter(17).await.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(line.status().await.unwrap().dead_letters, 1);
}

#[tokio::test]
async fn a_full_list_of_dead_letters_stops_the_line_and_loses_nothing() {
    let ledger = Ledger::new(DurableSettings { dead_letters_max: 1, ..DurableSettings::default() });
    let node = start(&ledger).await;
    let line = line(&node);
    line.append_all(vec!["poison 0".into(), "poison 1".into(), "row 2".into()]).await.unwrap();
    node.advance(Duration::from_secs(60)).await;
    let status = line.status().await.unwrap();
    assert_eq!((status.waiting, status.dead_letters), (2, 1));
    line.take_dead_letter(0).await.unwrap();
    node.advance(Duration::from_secs(60)).await;
    assert_eq!(ledger.rows(), ["row 2"]);
}

#[tokio::test]
async fn whatever_fails_every_item_is_written_once() {
    let ledger = Ledger::new(DurableSettings { items_max: 7, ..DurableSettings::default() });
    let mut node = start(&ledger).await;
    for round in 0..8_u64 {
        let calls: Vec<_> = (0..40)
            .map(|number| {
                let line = line(&node).idempotent(format!("key {number}"));
                tokio::spawn(async move { line.append(format!("row {number}")).await })
            })
            .collect();
        if round % 2 == 0 {
            node.fail_next_commit();
        }
        ledger.fail((round % 3 == 1).then_some(ErrorKind::Retry));
        // Some have been answered, some have been written, some have not begun.
        for call in calls.into_iter().take(5 * (round as usize + 1)) {
            drop(call.await);
        }
        node.kill().await.unwrap();
    }
    ledger.fail(None);
    for number in 0..40 {
        let line = line(&node).idempotent(format!("key {number}"));
        // A commit that was made to fail may not have come yet.
        while line.append(format!("row {number}")).await.is_err() {}
    }
    while line(&node).flush().await.is_err() {}
    let (mut rows, mut wanted) = (ledger.rows(), texts(0..40));
    rows.sort();
    wanted.sort();
    assert_eq!(rows, wanted);
}

#[tokio::test]
async fn settings_that_cannot_be_are_named_by_the_first_call() {
    let ledger = Ledger::new(DurableSettings { items_max: 0, ..DurableSettings::default() });
    let node = start(&ledger).await;
    let error = line(&node).append("x".into()).await.unwrap_err();
    assert!(format!("{error:?}").contains("items_max is 0"), "{error:?}");
}

/// An item that counts how often it is encoded.
#[derive(Clone, serde::Deserialize)]
struct Counted(u64);

static ENCODED: AtomicU64 = AtomicU64::new(0);

impl serde::Serialize for Counted {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        ENCODED.fetch_add(1, Ordering::Relaxed);
        self.0.serialize(serializer)
    }
}

/// Takes nothing for a long time.
struct Away;

impl DurableWriter for Away {
    const NAME: &'static str = "away";
    type Item = Counted;
    type Handle = ();
    type Mark = ();

    async fn open(&self, _: &Opening) -> Result<()> {
        Err(Error::new(ErrorKind::Retry, "nobody is there"))
    }

    async fn begin(&self, (): &mut ()) -> Result<()> {
        Ok(())
    }

    async fn write(&self, (): &mut (), (): &(), _: &[Numbered<Counted>]) -> Result<()> {
        Ok(())
    }

    fn size(&self, _: &Counted) -> usize {
        8
    }
}

/// Reference 3.5: the original encodes its whole buffer for every event.
#[tokio::test]
async fn defect_3_5_an_item_is_encoded_once_however_full_the_line_is() {
    const ITEMS: u64 = 300;
    let node = TestNode::start(|node| DurableBatch::serve(node, Away)).await.unwrap();
    let line: DurableQueueRef<Away> = node.actor("line").unwrap();
    for number in 0..ITEMS {
        line.append(Counted(number)).await.unwrap();
    }
    assert_eq!(line.status().await.unwrap().waiting, ITEMS);
    assert_eq!(ENCODED.load(Ordering::Relaxed), ITEMS);
}

#[tokio::test]
async fn a_writer_that_hangs_is_given_up_and_its_items_are_written_again_once_each() {
    let write_time_max = Duration::from_secs(30);
    let ledger = Ledger::stalling(DurableSettings { write_time_max, ..DurableSettings::default() });
    let node = start(&ledger).await;
    append(&node, 0..1).await;
    until(&node, || ledger.is_stalled()).await;
    append(&node, 1..3).await;
    node.advance(write_time_max).await;
    until(&node, || ledger.writes().len() == 2).await;
    let status = line(&node).status().await.unwrap();
    assert_eq!((status.failures, status.waiting, status.dead_letters), (1, 3, 0));
    assert!(status.last_error.unwrap().contains("took longer than write_time_max of 30s"));
    ledger.permits.add_permits(2);
    until(&node, || !ledger.is_stalled()).await;
    line(&node).flush().await.unwrap();
    assert_eq!(ledger.rows(), texts(0..3));
    assert_eq!(line(&node).status().await.unwrap().failures, 0);
}

/// The numbers begin anew with an actor that was deleted, and the table has rows by the same numbers.
#[tokio::test]
async fn items_of_a_line_that_was_deleted_and_is_back_are_no_duplicates() {
    let ledger = Ledger::new(DurableSettings::default());
    let node = start(&ledger).await;
    append(&node, 0..3).await;
    line(&node).flush().await.unwrap();
    line(&node).delete_actor().await.unwrap();
    line(&node).append_all(texts(3..6)).await.unwrap();
    line(&node).flush().await.unwrap();
    let mut rows = ledger.rows();
    rows.sort();
    assert_eq!(rows, texts(0..6));
}

#[tokio::test]
async fn a_queue_that_is_not_served_says_how_to_serve_it() {
    let node = TestNode::start(|node| node).await.unwrap();
    let error = node.actor::<Line>("line").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    let text =
        "nothing on this node implements DurableQueue; build the node with `DurableBatch::serve(builder, writer)`";
    assert_eq!(error.to_string(), text);
}
