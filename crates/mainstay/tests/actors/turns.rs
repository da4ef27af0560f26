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

#[tokio::test]
async fn the_settings_say_how_long_a_call_may_take_unless_its_proxy_does() {
    let settings = |node: mainstay::node::NodeBuilder| {
        node.actor::<DeskActor>().actor_defaults(|settings| settings.call_timeout = Duration::from_millis(10))
    };
    let node = TestNode::start(settings).await.unwrap();
    let desk: DeskRef = node.actor("a").unwrap();
    let error = desk.work_for("too long".into(), 50).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
    let patient = desk.with_timeout(Duration::from_secs(1));
    patient.work_for("long".into(), 50).await.unwrap();
    assert_eq!(patient.log().await.unwrap(), ["too long", "long"]);
}

#[interface]
trait Brittle {
    async fn poke(&mut self) -> Result<u32>;
    async fn snap(&mut self) -> Result<u32>;
}

/// Panics when it is dropped after something has snapped.
#[derive(Actor)]
#[actor(implements(Brittle), persistence = "none")]
struct BrittleActor {
    pokes: State<u32>,
    is_snapped: bool,
}

impl Brittle for BrittleActor {
    async fn poke(&mut self) -> Result<u32> {
        *self.pokes += 1;
        Ok(*self.pokes)
    }

    async fn snap(&mut self) -> Result<u32> {
        self.is_snapped = true;
        panic!("snap");
    }
}

impl Drop for BrittleActor {
    fn drop(&mut self) {
        assert!(!self.is_snapped, "snapped");
    }
}

#[tokio::test]
async fn an_actor_that_panics_even_when_it_is_dropped_is_no_trouble_for_others() {
    let node = TestNode::start(|node| node.actor::<BrittleActor>()).await.unwrap();
    let brittle: BrittleRef = node.actor("a").unwrap();
    for pokes in 1..4 {
        assert_eq!(brittle.poke().await.unwrap(), pokes);
        let error = brittle.snap().await.unwrap_err();
        assert!(error.to_string().contains("panicked: snap"), "{error}");
    }
}

#[interface]
trait Relay {
    async fn hold(&mut self, millis: u64) -> Result<()>;
    async fn pass_on(&mut self, millis_before: u64) -> Result<()>;
    async fn waited_millis(&self) -> Result<u64>;
}

#[derive(Actor)]
#[actor(implements(Relay), persistence = "none")]
struct RelayActor {
    ctx: Context,
    waited: Duration,
}

impl Relay for RelayActor {
    async fn hold(&mut self, millis: u64) -> Result<()> {
        tokio::time::sleep(Duration::from_millis(millis)).await;
        Ok(())
    }

    async fn pass_on(&mut self, millis_before: u64) -> Result<()> {
        tokio::time::sleep(Duration::from_millis(millis_before)).await;
        let before = tokio::time::Instant::now();
        let held = self.ctx.actor::<RelayRef>("far")?.hold(600_000).await;
        self.waited = before.elapsed();
        held
    }

    async fn waited_millis(&self) -> Result<u64> {
        Ok(self.waited.as_millis() as u64)
    }
}

#[tokio::test]
async fn what_a_turn_calls_has_what_is_left_of_its_own_time_however_it_was_spent() {
    // 50 of the 60 seconds are spent in line, or within the turn.
    for (in_line, before) in [(50_000, 0), (0, 50_000), (20_000, 30_000)] {
        let node = TestNode::start(|node| node.actor::<RelayActor>()).await.unwrap();
        let relay: RelayRef = node.actor("near").unwrap();
        let spawn = |relay: &RelayRef, millis: u64| {
            let relay = relay.clone();
            tokio::spawn(async move { relay.hold(millis).await })
        };
        let holding = spawn(&relay, in_line);
        tokio::task::yield_now().await;
        let passing = relay.pass_on(before).await.unwrap_err();
        assert_eq!(passing.kind(), ErrorKind::OutcomeUnknown, "{passing}");
        holding.await.unwrap().unwrap();
        let waited = relay.waited_millis().await.unwrap();
        assert!((9_900..=10_100).contains(&waited), "{in_line} in line, {before} before: {waited}");
    }
}
