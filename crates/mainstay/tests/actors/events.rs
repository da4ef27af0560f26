//! Events: from an actor to whoever listens.

mod listening;
mod moving;

use std::cell::Cell;
use std::time::Duration;

use futures_util::StreamExt;
use mainstay::actor::Events;
use mainstay::prelude::*;
use mainstay::testkit::TestNode;
use serde::{Deserialize, Serialize};

#[derive(Event, Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Said {
    pub(crate) value: u64,
}

#[derive(Event, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[event(name = "mood")]
pub(crate) enum Mood {
    Happy,
    Sad,
}

/// Another program's type for the same event.
#[derive(Event, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[event(name = "Said")]
struct Heard {
    value: u64,
}

/// One that cannot be read as such.
#[derive(Event, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[event(name = "Said")]
struct Misheard {
    value: String,
}

#[interface]
pub(crate) trait Speaker {
    /// What it has said last, stored.
    async fn last(&self) -> Result<u64>;
    /// Says a number and stores it.
    async fn say(&mut self, value: u64) -> Result<u64>;
    async fn say_many(&mut self, values: u64) -> Result<()>;
    async fn whisper(&self, value: u64) -> Result<()>;
    async fn feel(&mut self, is_happy: bool) -> Result<()>;
    async fn say_and_fail(&mut self, value: u64) -> Result<()>;
    async fn say_and_panic(&mut self, value: u64) -> Result<()>;
    async fn say_save_and_fail(&mut self, value: u64) -> Result<()>;
    /// Says how often it was called.
    async fn count(&mut self) -> Result<u64>;
    async fn hang(&mut self) -> Result<()>;
}

#[derive(Actor)]
#[actor(implements(Speaker), name = "speaker")]
pub(crate) struct SpeakerActor {
    last: State<u64>,
    ctx: Context,
}

#[derive(Actor)]
#[actor(implements(Speaker), name = "chatterbox", persistence = "none")]
struct ChatterboxActor {
    last: State<u64>,
    ctx: Context,
}

thread_local! {
    // Of this test alone, which runs on a thread of its own.
    static ACTIVATED: Cell<u64> = const { Cell::new(0) };
}

impl Lifecycle for ChatterboxActor {
    async fn activate(&mut self) -> Result<()> {
        ACTIVATED.set(ACTIVATED.get() + 1);
        Ok(())
    }
}

macro_rules! speaks {
    ($actor:ty) => {
        impl Speaker for $actor {
            async fn last(&self) -> Result<u64> {
                Ok(*self.last)
            }

            async fn say(&mut self, value: u64) -> Result<u64> {
                self.ctx.publish(Said { value })?;
                *self.last = value;
                Ok(value)
            }

            async fn say_many(&mut self, values: u64) -> Result<()> {
                (1..=values).try_for_each(|value| self.ctx.publish(Said { value }))
            }

            async fn whisper(&self, value: u64) -> Result<()> {
                self.ctx.publish(Said { value })?;
                tokio::task::yield_now().await;
                self.ctx.publish(Said { value })
            }

            async fn feel(&mut self, is_happy: bool) -> Result<()> {
                self.ctx.publish(if is_happy { Mood::Happy } else { Mood::Sad })
            }

            async fn say_and_fail(&mut self, value: u64) -> Result<()> {
                self.ctx.publish(Said { value })?;
                Err(Error::invalid("on purpose"))
            }

            async fn say_and_panic(&mut self, value: u64) -> Result<()> {
                self.ctx.publish(Said { value })?;
                panic!("on purpose");
            }

            async fn say_save_and_fail(&mut self, value: u64) -> Result<()> {
                self.ctx.publish(Said { value })?;
                self.save().await?;
                self.ctx.publish(Said { value: value + 1 })?;
                Err(Error::invalid("on purpose"))
            }

            async fn count(&mut self) -> Result<u64> {
                *self.last += 1;
                self.ctx.publish(Said { value: *self.last })?;
                Ok(*self.last)
            }

            async fn hang(&mut self) -> Result<()> {
                std::future::pending().await
            }
        }
    };
}

speaks!(SpeakerActor);
speaks!(ChatterboxActor);

#[interface]
trait Mute {
    async fn nothing(&self) -> Result<()>;
}

#[derive(Service)]
#[service(implements(Mute), partitions = singleton)]
struct MuteService {}

impl Mute for MuteService {
    async fn nothing(&self) -> Result<()> {
        Ok(())
    }
}

async fn start() -> TestNode {
    TestNode::start(|node| node.actor::<SpeakerActor>().actor::<ChatterboxActor>().service::<MuteService>())
        .await
        .unwrap()
}

/// A speaker of each level, and its node.
async fn speakers() -> (TestNode, [SpeakerRef; 2]) {
    let node = start().await;
    let speakers = ["speaker", "chatterbox"].map(|name| node.actor_named(name, "alice").unwrap());
    (node, speakers)
}

/// What is there, as (number, value, missed).
fn heard(events: &mut Events<Said>) -> Vec<(u64, u64, u64)> {
    std::iter::from_fn(|| events.try_next())
        .map(|received| received.unwrap())
        .map(|received| (received.sequence, received.event.value, received.missed))
        .collect()
}

#[tokio::test]
async fn events_come_in_the_order_of_turns_before_the_caller_has_its_answer() {
    let (_node, speakers) = speakers().await;
    for alice in speakers {
        let (mut one, mut two) = (alice.events::<Said>().unwrap(), alice.events::<Said>().unwrap());
        alice.say(5).await.unwrap();
        assert_eq!(heard(&mut one), [(1, 5, 0)]);
        alice.say_many(3).await.unwrap();
        alice.say(6).await.unwrap();
        assert_eq!(heard(&mut one), [(2, 1, 0), (3, 2, 0), (4, 3, 0), (5, 6, 0)]);
        let Received { event, missed, sequence } = two.next().await.unwrap();
        assert_eq!((event, missed, sequence), (Said { value: 5 }, 0, 1));
        assert_eq!(heard(&mut two).len(), 4);
    }
}

#[tokio::test]
async fn types_of_events_and_actors_are_apart() {
    let (node, [alice, _]) = speakers().await;
    let bob: SpeakerRef = node.actor_named("speaker", "bob").unwrap();
    let (mut said, mut moods) = (alice.events::<Said>().unwrap(), alice.events::<Mood>().unwrap());
    let mut said_by_bob = bob.events::<Said>().unwrap();
    alice.feel(true).await.unwrap();
    alice.say(1).await.unwrap();
    alice.feel(false).await.unwrap();
    bob.say(2).await.unwrap();
    assert_eq!(heard(&mut said), [(1, 1, 0)]);
    assert_eq!(heard(&mut said_by_bob), [(1, 2, 0)]);
    assert_eq!(moods.next().await.unwrap().event, Mood::Happy);
    let sad = moods.next().await.unwrap();
    assert_eq!((sad.event, sad.sequence), (Mood::Sad, 2));
    assert!(moods.try_next().is_none());
}

#[tokio::test]
async fn a_turn_that_fails_publishes_nothing_and_takes_no_number() {
    let (_node, speakers) = speakers().await;
    for alice in speakers {
        let mut said = alice.events::<Said>().unwrap();
        alice.say(1).await.unwrap();
        alice.say_and_fail(2).await.unwrap_err();
        alice.say_and_panic(3).await.unwrap_err();
        assert_eq!(heard(&mut said), [(1, 1, 0)]);
        // What was saved before has happened.
        alice.say_save_and_fail(4).await.unwrap_err();
        alice.say(6).await.unwrap();
        assert_eq!(heard(&mut said), [(2, 4, 0), (3, 6, 0)]);
    }
}

#[tokio::test]
async fn shared_turns_that_publish_beside_each_other_have_numbers_of_their_own() {
    let (_node, speakers) = speakers().await;
    for alice in speakers {
        let mut said = alice.events::<Said>().unwrap();
        let calls: Vec<_> = (0..20)
            .map(|value| {
                let alice = alice.clone();
                tokio::spawn(async move { alice.whisper(value).await })
            })
            .collect();
        for call in calls {
            call.await.unwrap().unwrap();
        }
        let heard = heard(&mut said);
        assert_eq!(heard.iter().map(|it| it.0).collect::<Vec<_>>(), (1..=40).collect::<Vec<_>>());
        assert!(heard.iter().all(|it| it.2 == 0));
        // Those of one turn stay together.
        assert!(heard.chunks(2).all(|turn| turn[0].1 == turn[1].1), "{heard:?}");
    }
}

#[tokio::test]
async fn nobody_hears_of_a_commit_that_failed() {
    let (node, speakers) = speakers().await;
    for alice in speakers {
        let mut said = alice.events::<Said>().unwrap();
        alice.say(1).await.unwrap();
        node.fail_next_commit();
        let (failed, behind) = tokio::join!(alice.say(2), alice.say(3));
        assert_eq!(failed.unwrap_err().kind(), ErrorKind::StorageFull);
        let third = behind.is_ok();
        alice.say(4).await.unwrap();
        let expected = if third { vec![(1, 1, 0), (2, 3, 0), (3, 4, 0)] } else { vec![(1, 1, 0), (2, 4, 0)] };
        assert_eq!(heard(&mut said), expected);
    }
}

#[tokio::test]
async fn nothing_is_heard_before_it_is_durable() {
    for round in 0..30_u64 {
        let mut node = start().await;
        let alice: SpeakerRef = node.actor_named("speaker", "alice").unwrap();
        let mut said = alice.events::<Said>().unwrap();
        for value in 1..=20_u64 {
            let alice = alice.clone();
            drop(tokio::spawn(async move { alice.say(value).await }));
            if (value * 7 + round) % 11 == 0 {
                node.fail_next_commit();
            }
            tokio::time::sleep(Duration::from_micros(round * 37 % 500)).await;
        }
        let heard = heard(&mut said);
        assert!(heard.iter().zip(1..).all(|(it, number)| it.0 == number && it.2 == 0), "{heard:?}");
        node.fail_next_commits(0);
        node.kill().await.unwrap();
        let alice: SpeakerRef = node.actor_named("speaker", "alice").unwrap();
        let stored = alice.last().await.unwrap();
        if let Some((sequence, value, _)) = heard.last() {
            assert!(*value <= stored, "round {round}: {value} was heard, and {stored} is stored");
            // The number is stored as well.
            let mut said = alice.events::<Said>().unwrap();
            alice.say(100).await.unwrap();
            let received = said.next().await.unwrap();
            assert_eq!((received.event.value, received.missed), (100, 0));
            assert!(received.sequence > *sequence);
        }
    }
}

#[tokio::test]
async fn to_subscribe_neither_activates_nor_waits() {
    let (_node, [alice, _]) = speakers().await;
    let calling = tokio::spawn({
        let alice = alice.clone();
        async move { alice.hang().await }
    });
    tokio::task::yield_now().await;
    drop(alice.events::<Said>().unwrap());
    calling.abort();

    let node = start().await;
    let bob: SpeakerRef = node.actor_named("chatterbox", "nobody").unwrap();
    let before = ACTIVATED.get();
    let mut said = bob.events::<Said>().unwrap();
    assert!(said.try_next().is_none());
    node.advance(Duration::from_secs(10)).await;
    assert_eq!(ACTIVATED.get(), before);
}

#[tokio::test]
async fn a_slow_subscriber_loses_the_oldest_and_is_told_how_many() {
    let node =
        TestNode::start(|node| node.actor::<SpeakerActor>().actor_defaults(|settings| settings.events_buffer = 4))
            .await
            .unwrap();
    let alice: SpeakerRef = node.actor("alice").unwrap();
    let mut said = alice.events::<Said>().unwrap();
    alice.say_many(2).await.unwrap();
    assert_eq!(heard(&mut said).len(), 2);
    alice.say_many(100).await.unwrap();
    assert_eq!(heard(&mut said), [(99, 97, 96), (100, 98, 0), (101, 99, 0), (102, 100, 0)]);
}

#[tokio::test]
async fn numbers_outlive_deactivation_and_restart() {
    let (mut node, [alice, _]) = speakers().await;
    let mut said = alice.events::<Said>().unwrap();
    alice.say(1).await.unwrap();
    // It is activated anew, and the subscription does not notice.
    alice.say_and_panic(2).await.unwrap_err();
    alice.say(3).await.unwrap();
    assert_eq!(heard(&mut said), [(1, 1, 0), (2, 3, 0)]);

    node.restart().await.unwrap();
    let alice: SpeakerRef = node.actor_named("speaker", "alice").unwrap();
    let mut said = alice.events::<Said>().unwrap();
    alice.say(4).await.unwrap();
    let received = said.next().await.unwrap();
    assert_eq!((received.sequence, received.event.value), (3, 4));
    // Nobody listened to those, and whoever comes then has not missed them.
    drop(said);
    alice.say_many(10).await.unwrap();
    let mut said = alice.events::<Said>().unwrap();
    alice.say(5).await.unwrap();
    assert_eq!(heard(&mut said), [(14, 5, 0)]);
}

#[tokio::test]
async fn when_the_node_stops_the_rest_can_be_taken_and_then_it_is_over() {
    let (node, [alice, _]) = speakers().await;
    let (mut said, mut waiting) = (alice.events::<Said>().unwrap(), alice.events::<Mood>().unwrap());
    alice.say(1).await.unwrap();
    let waiting = tokio::spawn(async move { waiting.next().await });
    tokio::task::yield_now().await;
    node.stop().await;
    let error = waiting.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Fatal, "{error}");
    assert!(error.to_string().contains("its node has stopped"), "{error}");
    assert_eq!(said.next().await.unwrap().event.value, 1);
    for _ in 0..2 {
        assert_eq!(said.next().await.unwrap_err().kind(), ErrorKind::Fatal);
    }
    assert!(StreamExt::next(&mut said).await.is_none(), "a stream ends");
    assert_eq!(alice.events::<Said>().unwrap_err().kind(), ErrorKind::Fatal);
}

#[tokio::test]
async fn a_stream_of_events_ends_with_the_error() {
    let (node, [alice, _]) = speakers().await;
    let said = alice.events::<Said>().unwrap();
    alice.say_many(2).await.unwrap();
    node.stop().await;
    let kinds: Vec<_> = said.map(|item| item.map(|it| it.event.value).map_err(|error| error.kind())).collect().await;
    assert_eq!(kinds, [Ok(1), Ok(2), Err(ErrorKind::Fatal)]);
}

#[tokio::test]
async fn the_name_stands_for_the_type() {
    let (_node, [alice, _]) = speakers().await;
    let (mut heard, mut misheard) = (alice.events::<Heard>().unwrap(), alice.events::<Misheard>().unwrap());
    alice.say(1).await.unwrap();
    assert_eq!(heard.next().await.unwrap().event, Heard { value: 1 });
    let error = misheard.next().await.unwrap_err();
    assert!(error.to_string().starts_with("Said of speaker(\"alice\") number 1 cannot be read as"), "{error}");
    assert_ne!(error.kind(), ErrorKind::Fatal);
}

#[tokio::test]
async fn what_cannot_be_is_refused_with_a_reason() {
    let node = start().await;
    let error = node.service::<MuteRef>(()).unwrap().events::<Said>().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("is not an actor"), "{error}");
}

/// How many calls each of the callers makes.
const CALLS: u64 = 500;
const CALLERS: u64 = 8;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn on_many_threads_events_leave_in_the_order_of_turns() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::builder()
        .data_dir(folder.path())
        .actor::<ChatterboxActor>()
        .actor_defaults(|settings| settings.events_buffer = (CALLS * CALLERS) as usize)
        .start()
        .await
        .unwrap();
    let alice: SpeakerRef = node.actor("alice").unwrap();
    let mut said = alice.events::<Said>().unwrap();
    let callers: Vec<_> = (0..CALLERS)
        .map(|_| {
            let alice = alice.clone();
            tokio::spawn(async move {
                for _ in 0..CALLS {
                    alice.count().await.unwrap();
                }
            })
        })
        .collect();
    for caller in callers {
        caller.await.unwrap();
    }
    let expected: Vec<_> = (1..=CALLS * CALLERS).map(|number| (number, number, 0)).collect();
    assert!(heard(&mut said) == expected, "out of order");
    node.stop().await;
}
