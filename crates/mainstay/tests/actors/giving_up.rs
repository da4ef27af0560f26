//! A turn that gives up waiting is not waited for in turn: what it has called may call it.

use std::time::Duration;

use mainstay::prelude::*;
use mainstay::testkit::TestNode;
use tokio::time::{sleep, timeout};

const MOMENT: Duration = Duration::from_millis(10);

/// What is called in the middle.
#[derive(Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
enum By {
    Actor,
    Service,
    Worker,
}

#[interface]
trait Pair {
    /// Has another call this one back, and gives up waiting for it; waits for the next one if `calls_again`.
    async fn ask(&mut self, other: String, by: By, calls_again: bool) -> Result<Option<String>>;
    /// Calls somebody after a moment, and keeps what came of it.
    async fn call_back(&mut self, other: String) -> Result<()>;
    async fn touch(&mut self) -> Result<()>;
    /// What came of calling back.
    async fn outcome(&self) -> Result<Option<String>>;
}

#[interface]
trait Between {
    async fn pass_on(&self, from: String, to: String) -> Result<()>;
}

#[derive(Actor)]
#[actor(implements(Pair), partitions = 1, persistence = "none")]
struct PairActor {
    outcome: Option<String>,
    ctx: Context,
}

impl Pair for PairActor {
    async fn ask(&mut self, other: String, by: By, calls_again: bool) -> Result<Option<String>> {
        let (own, there) = (self.ctx.id().to_string(), self.ctx.actor::<PairRef>(other.clone())?);
        let own = own.trim_matches('"').to_owned();
        let services = self.ctx.services().clone();
        let asked = async {
            match by {
                By::Actor => there.call_back(own).await,
                By::Service => services.service::<BetweenRef>(())?.pass_on(own, other.clone()).await,
                By::Worker => services.worker::<BetweenRef>()?.pass_on(own, other.clone()).await,
            }
        };
        assert!(timeout(MOMENT, asked).await.is_err());
        sleep(3 * MOMENT).await;
        if !calls_again {
            return Ok(None);
        }
        Ok(there.touch().await.err().map(|error| error.to_string()))
    }

    async fn call_back(&mut self, other: String) -> Result<()> {
        sleep(2 * MOMENT).await;
        let called = self.ctx.actor::<PairRef>(other)?.touch().await;
        self.outcome = Some(called.map_or_else(|error| error.to_string(), |()| "done".to_owned()));
        Ok(())
    }

    async fn touch(&mut self) -> Result<()> {
        Ok(())
    }

    async fn outcome(&self) -> Result<Option<String>> {
        Ok(self.outcome.clone())
    }
}

#[derive(Service)]
#[service(implements(Between), partitions = "singleton", persistence = "none")]
struct BetweenService {
    ctx: ServiceContext,
}

impl Between for BetweenService {
    async fn pass_on(&self, from: String, to: String) -> Result<()> {
        self.ctx.services().actor::<PairRef>(to)?.call_back(from).await
    }
}

#[derive(Worker)]
#[worker(implements(Between), max = 1)]
struct BetweenWorker {
    ctx: WorkerContext,
}

impl Between for BetweenWorker {
    async fn pass_on(&self, from: String, to: String) -> Result<()> {
        self.ctx.actor::<PairRef>(to)?.call_back(from).await
    }
}

async fn start() -> TestNode {
    TestNode::start(|node| node.actor::<PairActor>().service::<BetweenService>().worker::<BetweenWorker>())
        .await
        .unwrap()
}

#[tokio::test]
async fn who_was_given_up_may_call_who_gave_up() {
    let node = start().await;
    for (number, by) in [By::Actor, By::Service, By::Worker].into_iter().enumerate() {
        let (a, b) = (format!("a{number}"), format!("b{number}"));
        let asking: PairRef = node.actor(a).unwrap();
        asking.ask(b.clone(), by, false).await.unwrap();
        let asked: PairRef = node.actor(b).unwrap();
        assert_eq!(asked.outcome().await.unwrap().as_deref(), Some("done"));
    }
}

#[tokio::test]
async fn who_calls_again_what_waits_for_it_is_refused() {
    let node = start().await;
    for (number, by) in [By::Actor, By::Service, By::Worker].into_iter().enumerate() {
        let (a, b) = (format!("a{number}"), format!("b{number}"));
        let asking: PairRef = node.actor(a).unwrap();
        let refused = asking.ask(b.clone(), by, true).await.unwrap().unwrap();
        assert!(refused.contains("would wait for itself"), "{refused}");
        let asked: PairRef = node.actor(b).unwrap();
        assert_eq!(asked.outcome().await.unwrap().as_deref(), Some("done"));
    }
}
