//! Who has the actor when.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use mainstay::prelude::*;
use mainstay::testkit::TestNode;

#[interface]
trait Desk {
    async fn log(&self) -> Result<Vec<String>>;
    async fn read_for(&self, millis: u64) -> Result<u32>;
    async fn work_for(&mut self, name: String, millis: u64) -> Result<u32>;
}

#[derive(Actor)]
#[actor(implements(Desk), persistence = "none")]
struct DeskActor {
    log: State<Vec<String>>,
    inside: Arc<AtomicU32>,
}

impl Desk for DeskActor {
    async fn log(&self) -> Result<Vec<String>> {
        Ok(self.log.clone())
    }

    async fn read_for(&self, millis: u64) -> Result<u32> {
        let inside = self.inside.fetch_add(1, Ordering::SeqCst) + 1;
        tokio::time::sleep(Duration::from_millis(millis)).await;
        self.inside.fetch_sub(1, Ordering::SeqCst);
        Ok(inside)
    }

    async fn work_for(&mut self, name: String, millis: u64) -> Result<u32> {
        let inside = self.inside.fetch_add(1, Ordering::SeqCst) + 1;
        tokio::time::sleep(Duration::from_millis(millis)).await;
        self.inside.fetch_sub(1, Ordering::SeqCst);
        self.log.push(name);
        Ok(inside)
    }
}

async fn desk() -> (TestNode, DeskRef) {
    let node = TestNode::start(|node| node.actor::<DeskActor>()).await.unwrap();
    let desk = node.actor("a").unwrap();
    (node, desk)
}

#[tokio::test]
async fn exclusive_turns_run_alone_and_in_the_order_of_their_calls() {
    let (_node, desk) = desk().await;
    let calls = (0..20).map(|number| {
        let desk = desk.clone();
        tokio::spawn(async move { desk.work_for(format!("{number}"), 20 - number).await })
    });
    for call in calls.collect::<Vec<_>>() {
        assert_eq!(call.await.unwrap().unwrap(), 1);
    }
    assert_eq!(desk.log().await.unwrap(), (0..20).map(|number| number.to_string()).collect::<Vec<_>>());
}

#[tokio::test]
async fn shared_turns_run_beside_each_other_and_never_beside_an_exclusive_one() {
    let (_node, desk) = desk().await;
    let readers: Vec<_> = (0..3)
        .map(|_| {
            tokio::spawn({
                let desk = desk.clone();
                async move { desk.read_for(10).await }
            })
        })
        .collect();
    tokio::task::yield_now().await;
    let writer = tokio::spawn({
        let desk = desk.clone();
        async move { desk.work_for("w".into(), 10).await }
    });
    tokio::task::yield_now().await;
    let late_reader = tokio::spawn({
        let desk = desk.clone();
        async move { desk.read_for(10).await }
    });
    let mut inside = Vec::new();
    for reader in readers {
        inside.push(reader.await.unwrap().unwrap());
    }
    assert_eq!(inside, [1, 2, 3]);
    assert_eq!(writer.await.unwrap().unwrap(), 1);
    // It came after the writer, and so did not join the readers before it.
    assert_eq!(late_reader.await.unwrap().unwrap(), 1);
}

#[tokio::test]
async fn a_full_mailbox_is_overloaded_and_nothing_happens() {
    let node = TestNode::start(|node| node.actor::<DeskActor>().actor_defaults(|settings| settings.mailbox = 2))
        .await
        .unwrap();
    let desk: DeskRef = node.actor("a").unwrap();
    let call = |name: &str| {
        tokio::spawn({
            let (desk, name) = (desk.clone(), name.to_owned());
            async move { desk.work_for(name, 10).await }
        })
    };
    let accepted = [call("running"), call("first"), call("second")];
    tokio::task::yield_now().await;
    let error = desk.work_for("third".into(), 10).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Overloaded);
    assert!(error.to_string().contains("`work_for` of DeskActor(\"a\")"), "{error}");
    for call in accepted {
        call.await.unwrap().unwrap();
    }
    assert_eq!(desk.log().await.unwrap(), ["running", "first", "second"]);
    desk.work_for("fourth".into(), 0).await.unwrap();
}

#[tokio::test]
async fn a_dropped_caller_does_not_cancel_its_turn() {
    let (_node, desk) = desk().await;
    let call = tokio::time::timeout(Duration::from_millis(1), desk.work_for("abandoned".into(), 50)).await;
    assert!(call.is_err());
    assert_eq!(desk.log().await.unwrap(), ["abandoned"]);
}

#[tokio::test]
async fn a_call_that_was_given_up_before_its_turn_leaves_nothing_behind() {
    let (_node, desk) = desk().await;
    let running = tokio::spawn({
        let desk = desk.clone();
        async move { desk.work_for("running".into(), 50).await }
    });
    tokio::task::yield_now().await;
    let waiting = tokio::time::timeout(Duration::from_millis(1), desk.work_for("abandoned".into(), 0)).await;
    assert!(waiting.is_err());
    running.await.unwrap().unwrap();
    assert_eq!(desk.log().await.unwrap(), ["running"]);
}

#[tokio::test]
async fn a_time_limit_says_whether_the_call_had_begun() {
    let (_node, desk) = desk().await;
    let short = desk.with_timeout(Duration::from_millis(10));
    let error = short.work_for("under way".into(), 50).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown);
    let error = short.work_for("waiting".into(), 0).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    assert_eq!(desk.log().await.unwrap(), ["under way"]);
}
