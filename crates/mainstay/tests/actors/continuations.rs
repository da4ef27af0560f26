//! Continuations: an actor waits for something outside of its turns, and goes on with it in a new one.

use std::cell::Cell;

use mainstay::actor::{CONTINUATIONS_PER_ACTOR_MAX, deferred};
use mainstay::partition::{Driver, SimDisk, SyncDelay};
use mainstay::prelude::*;
use mainstay_core::time::{self, Duration};

use crate::harness::on;
use crate::log::Log;

thread_local! {
    static BEGUN: Cell<u32> = const { Cell::new(0) };
    static DROPPED: Cell<u32> = const { Cell::new(0) };
}

/// Counts what begins and what is dropped, ended or not.
struct Traced;

impl Traced {
    fn begin() -> Self {
        BEGUN.set(BEGUN.get() + 1);
        Self
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        DROPPED.set(DROPPED.get() + 1);
    }
}

async fn delivery(millis: u64) -> u32 {
    let _traced = Traced::begin();
    time::sleep(Duration::from_millis(millis)).await;
    42
}

#[interface]
trait Buyer {
    async fn order(&mut self, millis: u64) -> Result<()>;
    async fn order_and_fail(&mut self) -> Result<()>;
    /// Answers when what was ordered is there.
    async fn order_and_wait(&mut self, millis: u64) -> Result<Deferred<u32>>;
    async fn order_many(&mut self, number: usize) -> Result<()>;
    async fn odd(&mut self, kind: String) -> Result<()>;
    async fn received(&self) -> Result<u32>;
    async fn panic(&mut self) -> Result<()>;
    async fn work(&mut self, millis: u64) -> Result<()>;
}

#[derive(Actor)]
#[actor(implements(Buyer), partitions = 1)]
struct BuyerActor {
    ordered: State<u32>,
    received: State<u32>,
    waiting: Vec<Responder<u32>>,
    ctx: Context,
}

impl BuyerActor {
    async fn receive(&mut self, what: u32) -> Result<()> {
        *self.received += what;
        self.waiting.drain(..).for_each(|waiting| waiting.respond(Ok(what)));
        Ok(())
    }
}

impl Buyer for BuyerActor {
    async fn order(&mut self, millis: u64) -> Result<()> {
        *self.ordered += 1;
        self.ctx.then(delivery(millis), Self::receive)
    }

    async fn order_and_fail(&mut self) -> Result<()> {
        self.ctx.then(delivery(1), Self::receive)?;
        Err(Error::invalid("on second thoughts"))
    }

    async fn order_and_wait(&mut self, millis: u64) -> Result<Deferred<u32>> {
        self.ctx.then(delivery(millis), Self::receive)?;
        let (answer, responder) = deferred();
        self.waiting.push(responder);
        Ok(answer)
    }

    async fn order_many(&mut self, number: usize) -> Result<()> {
        (0..number).try_for_each(|_| self.ctx.then(delivery(1000), Self::receive))
    }

    async fn odd(&mut self, kind: String) -> Result<()> {
        match &*kind {
            "error" => self.ctx.then(delivery(1), async |actor: &mut Self, what| {
                *actor.received += what;
                Err(Error::invalid("this is not what was ordered"))
            }),
            "lost" => self.ctx.then(async { panic!("lost on the way") }, async |_: &mut Self, ()| Ok(())),
            "type" => self.ctx.then(delivery(1), async |_: &mut Stranger, _| Ok(())),
            _ => Err(Error::invalid(kind)),
        }
    }

    async fn received(&self) -> Result<u32> {
        Ok(*self.received)
    }

    async fn panic(&mut self) -> Result<()> {
        panic!("on purpose")
    }

    async fn work(&mut self, millis: u64) -> Result<()> {
        wait(millis).await;
        Ok(())
    }
}

#[derive(Actor)]
struct Stranger {}

async fn start(disk: &SimDisk) -> (Node, BuyerRef) {
    let node = on(disk).actor::<BuyerActor>().start().await.unwrap();
    let buyer: BuyerRef = node.actor(7).unwrap();
    buyer.received().await.unwrap();
    (node, buyer)
}

async fn wait(millis: u64) {
    time::sleep(Duration::from_millis(millis)).await;
}

#[tokio::test(start_paused = true)]
async fn the_actor_is_free_meanwhile_and_goes_on_with_what_came_in_a_saved_turn() {
    let disk = SimDisk::new(1);
    let (node, buyer) = start(&disk).await;
    buyer.order(1000).await.unwrap();
    buyer.order(2000).await.unwrap();
    wait(500).await;
    let before = time::now();
    assert_eq!(buyer.received().await.unwrap(), 0);
    assert_eq!(before.elapsed(), Duration::ZERO);
    wait(1000).await;
    assert_eq!(buyer.received().await.unwrap(), 42);
    wait(1000).await;
    assert_eq!(buyer.received().await.unwrap(), 84);
    drop(node);
    disk.crash();
    let (_node, buyer) = start(&disk).await;
    assert_eq!(buyer.received().await.unwrap(), 84);
}

#[tokio::test(start_paused = true)]
async fn a_caller_can_be_answered_when_it_came() {
    let disk = SimDisk::new(1);
    let (_node, buyer) = start(&disk).await;
    assert_eq!(buyer.order_and_wait(3000).await.unwrap(), 42);
    assert_eq!(buyer.received().await.unwrap(), 42);
}

#[tokio::test(start_paused = true)]
async fn it_begins_when_the_turn_is_durable() {
    let disk = SimDisk::new(1);
    let slow = SyncDelay { min: Duration::from_millis(80), max: Duration::from_millis(80) };
    let node = on(&disk)
        .host_options(move |options| options.log.driver = Driver::Task { sync_delay: slow })
        .actor::<BuyerActor>()
        .start()
        .await
        .unwrap();
    let buyer: BuyerRef = node.actor(7).unwrap();
    buyer.received().await.unwrap();
    let watching = async {
        wait(79).await;
        assert_eq!(BEGUN.get(), 0, "the turn has ended, and is not durable yet");
    };
    let (ordered, ()) = tokio::join!(buyer.order(10), watching);
    ordered.unwrap();
    wait(1).await;
    assert_eq!(BEGUN.get(), 1);
}

#[tokio::test(start_paused = true)]
async fn it_never_begins_if_the_turn_fails() {
    let disk = SimDisk::new(1);
    let (_node, buyer) = start(&disk).await;
    buyer.order_and_fail().await.unwrap_err();
    wait(1000).await;
    assert_eq!(BEGUN.get(), 0);
    assert_eq!(buyer.received().await.unwrap(), 0);
}

#[tokio::test(start_paused = true)]
async fn it_ends_with_the_activation() {
    let disk = SimDisk::new(1);
    let (node, buyer) = start(&disk).await;
    buyer.order(1000).await.unwrap();
    wait(1).await;
    assert_eq!((BEGUN.get(), DROPPED.get()), (1, 0));
    buyer.panic().await.unwrap_err();
    wait(1).await;
    assert_eq!((BEGUN.get(), DROPPED.get()), (1, 1));
    wait(5000).await;
    assert_eq!(buyer.received().await.unwrap(), 0);

    buyer.order(1000).await.unwrap();
    wait(1).await;
    node.stop().await;
    assert_eq!((BEGUN.get(), DROPPED.get()), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn there_may_be_so_many_at_a_time() {
    let disk = SimDisk::new(1);
    let (_node, buyer) = start(&disk).await;
    let error = buyer.order_many(CONTINUATIONS_PER_ACTOR_MAX + 1).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Overloaded);
    assert!(error.to_string().contains("CONTINUATIONS_PER_ACTOR_MAX"), "{error}");
    // Those of the turn that failed do not count any more, and neither do those that have ended.
    for round in 1..=2 {
        buyer.order_many(CONTINUATIONS_PER_ACTOR_MAX).await.unwrap();
        assert_eq!(buyer.order(1).await.unwrap_err().kind(), ErrorKind::Overloaded);
        wait(2000).await;
        assert_eq!(buyer.received().await.unwrap(), round * 42 * CONTINUATIONS_PER_ACTOR_MAX as u32);
    }
}

#[tokio::test(start_paused = true)]
async fn what_goes_wrong_is_logged_with_its_actor() {
    let log = Log::start();
    let disk = SimDisk::new(1);
    let (_node, buyer) = start(&disk).await;
    buyer.odd("error".into()).await.unwrap();
    buyer.odd("lost".into()).await.unwrap();
    wait(1000).await;
    assert_eq!(log.matching(&["WARN", "BuyerActor(7)", "this is not what was ordered"]), 1);
    assert_eq!(log.matching(&["ERROR", "BuyerActor(7)", "lost on the way"]), 1);
    assert_eq!(buyer.received().await.unwrap(), 0, "what a failed one has changed is dropped");
    let error = buyer.odd("type".into()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("BuyerActor(7)") && error.to_string().contains("Stranger"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn one_that_is_in_line_when_its_actor_is_deleted_has_not_failed() {
    let log = Log::start();
    let disk = SimDisk::new(1);
    let (_node, buyer) = start(&disk).await;
    buyer.order(1000).await.unwrap();
    let deleted = async {
        wait(10).await;
        buyer.delete_actor().await
    };
    let (worked, deleted) = tokio::join!(buyer.work(5000), deleted);
    worked.and(deleted).unwrap();
    wait(10_000).await;
    assert_eq!(buyer.received().await.unwrap(), 0);
    assert_eq!(log.matching(&["WARN", "continuation"]), 0);
}

#[tokio::test(start_paused = true)]
async fn one_that_is_in_line_when_its_actor_leaves_does_not_run_on_the_next() {
    let disk = SimDisk::new(1);
    let (node, buyer) = start(&disk).await;
    buyer.order(1000).await.unwrap();
    let left = async {
        wait(10).await;
        node.deactivate_actor::<BuyerActor>(7).await
    };
    let (worked, left) = tokio::join!(buyer.work(5000), left);
    worked.and(left).unwrap();
    wait(10_000).await;
    assert_eq!(buyer.received().await.unwrap(), 0);
}
