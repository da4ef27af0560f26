//! Actors that listen to actors.

use std::time::Duration;

use mainstay::prelude::*;
use mainstay::testkit::TestNode;
use serde::{Deserialize, Serialize};

use super::{Said, SpeakerActor, SpeakerRef};

#[interface]
trait Listener {
    async fn heard(&self) -> Result<Vec<u64>>;
    async fn panic(&mut self) -> Result<()>;
    async fn subscribe_as_another(&self) -> Result<()>;
}

#[derive(Actor)]
#[actor(implements(Listener))]
struct ListenerActor {
    heard: State<Vec<u64>>,
    ctx: Context,
}

/// What a handler does not like.
const BAD: u64 = 13;

impl Lifecycle for ListenerActor {
    async fn activate(&mut self) -> Result<()> {
        let speaker: SpeakerRef = self.ctx.actor("alice")?;
        self.ctx.subscribe(&speaker, Self::hear)
    }
}

impl ListenerActor {
    async fn hear(&mut self, said: Received<Said>) -> Result<()> {
        self.heard.push(said.event.value);
        tokio::task::yield_now().await;
        match said.event.value {
            BAD => Err(Error::invalid("on purpose")),
            _ => Ok(()),
        }
    }
}

impl Listener for ListenerActor {
    async fn heard(&self) -> Result<Vec<u64>> {
        Ok(self.heard.clone())
    }

    async fn panic(&mut self) -> Result<()> {
        panic!("on purpose");
    }

    async fn subscribe_as_another(&self) -> Result<()> {
        let speaker: SpeakerRef = self.ctx.actor("alice")?;
        self.ctx.subscribe(&speaker, async |_: &mut SpeakerActor, _: Received<Said>| Ok(()))
    }
}

async fn start() -> (TestNode, SpeakerRef, ListenerRef) {
    let node = TestNode::start(|node| node.actor::<SpeakerActor>().actor::<ListenerActor>()).await.unwrap();
    let (speaker, listener) = (node.actor("alice").unwrap(), node.actor(1).unwrap());
    (node, speaker, listener)
}

/// Lets everybody do what there is to do.
async fn settle(node: &TestNode) {
    node.advance(Duration::from_secs(1)).await;
}

#[tokio::test]
async fn each_event_is_a_turn_in_order_and_what_it_changes_is_saved() {
    let (mut node, speaker, listener) = start().await;
    assert!(listener.heard().await.unwrap().is_empty());
    speaker.say_many(20).await.unwrap();
    speaker.say(30).await.unwrap();
    settle(&node).await;
    let all: Vec<u64> = (1..=20).filter(|value| *value != BAD).chain([30]).collect();
    assert_eq!(listener.heard().await.unwrap(), all, "what failed has not happened, and the rest went on");
    node.kill().await.unwrap();
    assert_eq!(node.actor::<ListenerRef>(1).unwrap().heard().await.unwrap(), all);
}

#[tokio::test]
async fn a_subscription_ends_with_the_activation() {
    let (node, speaker, listener) = start().await;
    listener.heard().await.unwrap();
    for _ in 0..3 {
        node.actors::<ListenerActor>().unwrap().deactivate(1).await.unwrap();
        speaker.say(1).await.unwrap();
        settle(&node).await;
        assert!(listener.heard().await.unwrap().is_empty(), "it was not active, and is not woken");
    }
    speaker.say(2).await.unwrap();
    settle(&node).await;
    assert_eq!(listener.heard().await.unwrap(), [2], "those of former activations are gone");
}

#[tokio::test]
async fn one_that_activate_makes_comes_back_by_itself_after_a_panic() {
    let (node, speaker, listener) = start().await;
    listener.heard().await.unwrap();
    for _ in 0..3 {
        listener.panic().await.unwrap_err();
        settle(&node).await;
    }
    speaker.say(1).await.unwrap();
    settle(&node).await;
    assert_eq!(listener.heard().await.unwrap(), [1], "once, and before anybody has called it");
}

#[tokio::test]
async fn a_handler_is_one_of_the_actor_itself() {
    let (_node, _, listener) = start().await;
    let error = listener.subscribe_as_another().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("give a handler that takes its own type"), "{error}");
}

#[derive(Event, Clone, Serialize, Deserialize)]
struct Ball {
    hits: u64,
}

#[interface]
trait Player {
    async fn serve(&mut self) -> Result<()>;
    async fn hits(&self) -> Result<u64>;
}

/// One of two who listen to each other, and answer each event by one.
#[derive(Actor)]
#[actor(implements(Player))]
struct PlayerActor {
    hits: State<u64>,
    ctx: Context,
}

const HITS: u64 = 100;

impl Lifecycle for PlayerActor {
    async fn activate(&mut self) -> Result<()> {
        let other = if *self.ctx.id() == ActorId::from("ping") { "pong" } else { "ping" };
        self.ctx.subscribe(&self.ctx.actor::<PlayerRef>(other)?, async |player: &mut Self, ball: Received<Ball>| {
            *player.hits += 1;
            if ball.event.hits < HITS {
                player.ctx.publish(Ball { hits: ball.event.hits + 1 })?;
            }
            Ok(())
        })
    }
}

impl Player for PlayerActor {
    async fn serve(&mut self) -> Result<()> {
        self.ctx.publish(Ball { hits: 1 })
    }

    async fn hits(&self) -> Result<u64> {
        Ok(*self.hits)
    }
}

#[tokio::test]
async fn actors_that_listen_to_each_other_do_not_wait_for_each_other() {
    let node = TestNode::start(|node| node.actor::<PlayerActor>()).await.unwrap();
    let (ping, pong): (PlayerRef, PlayerRef) = (node.actor("ping").unwrap(), node.actor("pong").unwrap());
    assert_eq!((ping.hits().await.unwrap(), pong.hits().await.unwrap()), (0, 0));
    let (one, two) = tokio::join!(ping.serve(), pong.serve());
    one.and(two).unwrap();
    node.advance(Duration::from_secs(60)).await;
    assert_eq!(ping.hits().await.unwrap() + pong.hits().await.unwrap(), 2 * HITS);
}
