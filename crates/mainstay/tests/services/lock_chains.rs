//! Calls that want what a call before them has locked and waits with: refused at once, with the chain.

use mainstay::partition::SimDisk;
use mainstay::prelude::*;
use mainstay_core::time::{self, Duration, sleep, timeout};

use crate::harness::on;

#[interface]
trait Stock {
    /// Locks a key, and has somebody change a key meanwhile.
    async fn hold(&self, key: u64, by: String, wanted: u64) -> Result<()>;
    /// The same, after a moment.
    async fn hold_for_a_while(&self, key: u64, by: String, wanted: u64) -> Result<()>;
    /// The same, and gives up waiting for that.
    async fn hold_in_haste(&self, key: u64, by: String, wanted: u64) -> Result<()>;
    /// Changes a key, ends that, and then has somebody change it too.
    async fn change_before(&self, key: u64, by: String) -> Result<()>;
    async fn change(&self, key: u64) -> Result<u64>;
}

#[interface]
trait Clerk {
    async fn change(&mut self, key: u64) -> Result<u64>;
    /// The same, when who asked for it has given up.
    async fn change_late(&mut self, key: u64) -> Result<u64>;
}

#[derive(Service)]
#[service(implements(Stock), partitions = "singleton", persistence = "none")]
struct StockService {
    numbers: Dictionary<u64, u64>,
    state: StateManager,
    ctx: ServiceContext,
}

impl StockService {
    async fn send(&self, by: &str, wanted: u64) -> Result<u64> {
        match by {
            "worker" => self.ctx.services().worker::<ClerkRef>()?.change(wanted).await,
            by => self.ctx.services().actor::<ClerkRef>(by)?.change(wanted).await,
        }
    }
}

impl Stock for StockService {
    async fn hold(&self, key: u64, by: String, wanted: u64) -> Result<()> {
        let mut tx = self.state.begin();
        self.numbers.set(&mut tx, key, 1).await?;
        self.send(&by, wanted).await?;
        tx.commit().await.map(drop)
    }

    async fn hold_for_a_while(&self, key: u64, by: String, wanted: u64) -> Result<()> {
        self.state
            .transact(async |mut tx| {
                self.numbers.set(&mut tx, key, 1).await?;
                sleep(Duration::from_millis(10)).await;
                self.send(&by, wanted).await
            })
            .await
            .map(drop)
    }

    async fn hold_in_haste(&self, key: u64, by: String, wanted: u64) -> Result<()> {
        let mut tx = self.state.begin();
        self.numbers.set(&mut tx, key, 1).await?;
        let late = self.ctx.services().actor::<ClerkRef>(by)?;
        assert!(timeout(Duration::from_millis(10), late.change_late(wanted)).await.is_err());
        sleep(Duration::from_millis(10)).await;
        tx.commit().await.map(drop)
    }

    async fn change_before(&self, key: u64, by: String) -> Result<()> {
        self.change(key).await?;
        self.send(&by, key).await.map(drop)
    }

    async fn change(&self, key: u64) -> Result<u64> {
        self.state
            .transact(async |mut tx| {
                let next = self.numbers.get_for_update(&mut tx, &key).await?.map_or(0, |number| *number) + 1;
                self.numbers.set(&mut tx, key, next).await?;
                Ok(next)
            })
            .await
    }
}

#[derive(Actor)]
#[actor(implements(Clerk), partitions = 1, persistence = "none")]
struct ClerkActor {
    ctx: Context,
}

impl Clerk for ClerkActor {
    async fn change(&mut self, key: u64) -> Result<u64> {
        self.ctx.service::<StockRef>(())?.change(key).await
    }

    async fn change_late(&mut self, key: u64) -> Result<u64> {
        sleep(Duration::from_millis(15)).await;
        self.change(key).await
    }
}

#[derive(Worker)]
#[worker(implements(Clerk), max = 1)]
struct ClerkWorker {
    ctx: WorkerContext,
}

impl Clerk for ClerkWorker {
    async fn change(&mut self, key: u64) -> Result<u64> {
        self.ctx.service::<StockRef>(())?.change(key).await
    }

    async fn change_late(&mut self, key: u64) -> Result<u64> {
        sleep(Duration::from_millis(15)).await;
        self.change(key).await
    }
}

async fn start() -> (Node, StockRef) {
    let node = on(&SimDisk::new(1)).service::<StockService>().actor::<ClerkActor>().worker::<ClerkWorker>();
    let node = node.start().await.unwrap();
    let stock = node.service(()).unwrap();
    (node, stock)
}

#[tokio::test(start_paused = true)]
async fn who_wants_what_its_own_chain_has_locked_is_refused_at_once() {
    let (_node, stock) = start().await;
    for (by, clerk) in [("a", "ClerkActor(\"a\")"), ("worker", "worker ClerkWorker")] {
        let begin = time::now();
        let error = stock.hold(1, by.into(), 1).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
        let chain = format!("service StockService.hold → {clerk}.change → service StockService.change → ");
        let text = error.to_string();
        assert!(text.contains(&chain) && text.contains("key 1 would wait for itself"), "{text}");
        assert_eq!(begin.elapsed(), Duration::ZERO, "it was refused, but not at once: {error}");
        // Nothing of it is left.
        assert_eq!(stock.change(1).await.unwrap(), if by == "a" { 1 } else { 2 });
    }
}

#[tokio::test(start_paused = true)]
async fn who_wants_something_else_or_comes_later_is_not() {
    let (_node, stock) = start().await;
    stock.hold(1, "a".into(), 2).await.unwrap();
    stock.change_before(1, "a".into()).await.unwrap();
    // Who has given up is not waited for by who it has called.
    stock.hold_in_haste(3, "a".into(), 3).await.unwrap();
    stock.change_before(3, "a".into()).await.unwrap();
    assert_eq!((stock.change(1).await.unwrap(), stock.change(2).await.unwrap()), (4, 2));
    assert_eq!(stock.change(3).await.unwrap(), 5);
}

#[tokio::test(start_paused = true)]
async fn of_two_chains_that_want_what_the_other_has_locked_one_is_refused() {
    let (_node, stock) = start().await;
    let begin = time::now();
    let (first, second) =
        tokio::join!(stock.hold_for_a_while(1, "a".into(), 2), stock.hold_for_a_while(2, "b".into(), 1));
    assert!(first.is_ok() != second.is_ok(), "{first:?} {second:?}");
    let error = first.err().or(second.err()).unwrap();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert!(begin.elapsed() < Duration::from_secs(1), "{:?} {error}", begin.elapsed());
}
