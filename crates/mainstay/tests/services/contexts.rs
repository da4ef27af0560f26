//! Proxies to actors, services and workers, from everywhere: nodes, contexts, and what is kept of them.

use mainstay::prelude::*;
use mainstay::testkit::TestNode;

#[interface]
trait Counter {
    async fn add(&mut self, n: i64) -> Result<i64>;
    /// Adds to the counter of another actor, by way of everything there is.
    async fn pass_on(&mut self, to: u32) -> Result<i64>;
}

#[derive(Actor)]
#[actor(implements(Counter), persistence = "none")]
struct CounterActor {
    count: State<i64>,
    ctx: Context,
}

impl Counter for CounterActor {
    async fn add(&mut self, n: i64) -> Result<i64> {
        *self.count += n;
        Ok(*self.count)
    }

    async fn pass_on(&mut self, to: u32) -> Result<i64> {
        CounterRef::of(&self.ctx, to)?.add(1).await?;
        ClerkRef::of_service(&self.ctx, ())?.count(to).await
    }
}

#[interface]
trait Clerk {
    async fn count(&self, id: u32) -> Result<i64>;
}

#[derive(Service)]
#[service(implements(Clerk), partitions = singleton, persistence = "none")]
struct ClerkService {
    ctx: ServiceContext,
}

impl Clerk for ClerkService {
    async fn count(&self, id: u32) -> Result<i64> {
        self.ctx.actor::<CounterRef>(id)?.add(1).await?;
        self.ctx.actor_named::<CounterRef>("CounterActor", id)?.add(1).await?;
        CounterRef::of(&self.ctx, id)?.add(1).await?;
        HelperRef::of_worker(&self.ctx)?.help(id).await
    }
}

#[interface]
trait Helper {
    async fn help(&mut self, id: u32) -> Result<i64>;
}

#[derive(Worker)]
#[worker(implements(Helper))]
struct HelperWorker {
    ctx: WorkerContext,
}

impl Helper for HelperWorker {
    async fn help(&mut self, id: u32) -> Result<i64> {
        CounterRef::of(&self.ctx, id)?.add(1).await?;
        CounterRef::of(self.ctx.services(), id)?.add(1).await
    }
}

async fn start() -> TestNode {
    TestNode::start(|node| node.actor::<CounterActor>().service::<ClerkService>().worker::<HelperWorker>())
        .await
        .unwrap()
}

#[tokio::test]
async fn a_proxy_is_made_from_a_node_and_from_every_context() {
    let node = start().await;
    let first = CounterRef::of(&node, 1).unwrap();
    assert_eq!(first.pass_on(2).await.unwrap(), 6);
    assert_eq!(node.actor::<CounterRef>(2_i64).unwrap().add(0).await.unwrap(), 6);
    let plain: &Node = &node;
    assert_eq!(CounterRef::of(plain, ActorId::try_from(2_u64).unwrap()).unwrap().add(0).await.unwrap(), 6);
}

#[tokio::test]
async fn what_nothing_implements_is_told_with_its_kind() {
    let node = TestNode::start(|node| node.actor::<CounterActor>()).await.unwrap();
    assert_eq!(ClerkRef::of_service(&node, ()).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(HelperRef::of_worker(&node).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(ClerkRef::of(&node, 1).unwrap_err().kind(), ErrorKind::NotFound);
    let long = "x".repeat(mainstay::actor::ACTOR_ID_BYTES_MAX + 1);
    assert_eq!(CounterRef::of(&node, long).unwrap_err().kind(), ErrorKind::TooLarge);
}
