//! Warnings: they name the actor and the method, and do not come in floods.

use std::time::Duration;

use mainstay::prelude::*;
use mainstay::testkit::TestNode;
use tracing::Level;

use crate::capture::{Captured, Seen};

#[interface]
trait Idler {
    async fn idle(&mut self, millis: u64) -> Result<()>;
    async fn look(&self, millis: u64) -> Result<()>;
    async fn block(&mut self, millis: u64) -> Result<()>;
    async fn count(&mut self) -> Result<u32>;
}

#[derive(Actor)]
#[actor(implements(Idler), persistence = "volatile")]
struct IdlerActor {
    count: State<u32>,
    ctx: Context,
}

impl Lifecycle for IdlerActor {
    async fn activate(&mut self) -> Result<()> {
        if *self.ctx.id() == ActorId::from("broken") {
            return Err(Error::invalid("out of order"));
        }
        Ok(())
    }
}

impl Idler for IdlerActor {
    async fn idle(&mut self, millis: u64) -> Result<()> {
        tokio::time::sleep(Duration::from_millis(millis)).await;
        Ok(())
    }

    async fn look(&self, millis: u64) -> Result<()> {
        tokio::time::sleep(Duration::from_millis(millis)).await;
        Ok(())
    }

    async fn block(&mut self, millis: u64) -> Result<()> {
        std::thread::sleep(Duration::from_millis(millis));
        Ok(())
    }

    async fn count(&mut self) -> Result<u32> {
        *self.count += 1;
        Ok(*self.count)
    }
}

async fn start(slow_turn: Duration) -> TestNode {
    TestNode::start(move |node| {
        node.actor::<IdlerActor>().actor_defaults(move |settings| {
            settings.slow_turn = slow_turn;
            settings.mailbox = 2;
        })
    })
    .await
    .unwrap()
}

fn elapsed_ms(event: &Seen) -> u64 {
    event.field("elapsed_ms").parse().unwrap()
}

#[tokio::test]
async fn a_slow_turn_is_reported_while_it_runs_and_when_it_ends() {
    let (captured, _guard) = Captured::start(Level::INFO);
    let node = start(Duration::from_secs(1)).await;
    let actor: IdlerRef = node.actor("a").unwrap();
    actor.idle(900).await.unwrap();
    assert!(captured.saying("slow").is_empty());
    actor.idle(2500).await.unwrap();
    let said = captured.saying("slow");
    assert_eq!(said.len(), 2, "{said:?}");
    for event in &said {
        assert_eq!(event.level, Level::WARN);
        assert_eq!((event.field("actor"), event.field("method")), ("IdlerActor(\"a\")", "idle"));
    }
    assert!(said[0].message().contains("still runs"), "{said:?}");
    // The clock of the runtime counts in whole milliseconds.
    assert!(elapsed_ms(&said[0]).abs_diff(1000) <= 2 && elapsed_ms(&said[1]).abs_diff(2500) <= 2, "{said:?}");
}

#[tokio::test]
async fn a_turn_that_never_ends_is_reported_again_and_again_but_not_often() {
    let (captured, _guard) = Captured::start(Level::INFO);
    let node = start(Duration::from_secs(1)).await;
    let actor: IdlerRef = node.actor("stuck").unwrap();
    let stuck = tokio::spawn(async move { actor.with_timeout(Duration::from_secs(5)).look(u64::MAX >> 20).await });
    node.advance(Duration::from_secs(3600)).await;
    assert_eq!(stuck.await.unwrap().unwrap_err().kind(), ErrorKind::OutcomeUnknown);
    let said = captured.saying("still runs");
    assert!((60..=70).contains(&said.len()), "{}", said.len());
    assert!(said.iter().all(|event| event.field("method") == "look"));
    assert!(elapsed_ms(said.last().unwrap()) > 3_500_000);
}

#[tokio::test]
async fn a_turn_that_blocks_its_thread_is_reported_when_it_ends() {
    let (captured, _guard) = Captured::start(Level::INFO);
    let node = start(Duration::from_millis(50)).await;
    let actor: IdlerRef = node.actor("a").unwrap();
    actor.count().await.unwrap();
    actor.block(70).await.unwrap();
    let said = captured.saying("slow");
    assert_eq!(said.len(), 1, "{said:?}");
    assert_eq!((said[0].field("actor"), said[0].field("method")), ("IdlerActor(\"a\")", "block"));
    assert!(said[0].message().contains("blocked its thread"), "{said:?}");
}

#[tokio::test]
async fn a_flood_of_refused_calls_is_one_warning() {
    let (captured, _guard) = Captured::start(Level::INFO);
    let node = start(Duration::from_secs(60)).await;
    let actor: IdlerRef = node.actor("busy").unwrap();
    let busy: Vec<_> = (0..3)
        .map(|_| {
            let actor = actor.clone();
            tokio::spawn(async move { actor.idle(15_000).await })
        })
        .collect();
    tokio::task::yield_now().await;
    for _ in 0..500 {
        assert_eq!(actor.count().await.unwrap_err().kind(), ErrorKind::Overloaded);
    }
    let said = captured.saying("the mailbox is full");
    assert_eq!(said.len(), 1, "{said:?}");
    assert_eq!((said[0].field("actor"), said[0].field("method")), ("IdlerActor(\"busy\")", "count"));
    node.advance(Duration::from_secs(11)).await;
    assert_eq!(actor.count().await.unwrap_err().kind(), ErrorKind::Overloaded);
    let said = captured.saying("the mailbox is full");
    assert_eq!((said.len(), said[1].field("suppressed")), (2, "499"));
    for call in busy {
        call.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn failed_commits_and_activations_are_reported() {
    let (captured, _guard) = Captured::start(Level::INFO);
    let node = start(Duration::from_secs(1)).await;
    let actor: IdlerRef = node.actor("a").unwrap();
    actor.count().await.unwrap();
    node.fail_next_commit();
    actor.count().await.unwrap_err();
    let said = captured.saying("a commit has failed");
    assert_eq!((said.len(), said[0].field("actor")), (1, "IdlerActor(\"a\")"), "{said:?}");
    assert!(said[0].field("error").contains("made to fail by the test"), "{said:?}");
    let broken: IdlerRef = node.actor("broken").unwrap();
    broken.count().await.unwrap_err();
    let said = captured.saying("cannot be activated");
    assert_eq!((said.len(), said[0].field("actor")), (1, "IdlerActor(\"broken\")"), "{said:?}");
    assert!(said[0].field("error").contains("out of order"), "{said:?}");
}
