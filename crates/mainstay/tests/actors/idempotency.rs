//! Calls that happen once, however often they are made.

use std::cell::Cell;
use std::time::Duration;

use mainstay::actor::deferred;
use mainstay::prelude::*;
use mainstay::testkit::TestNode;

#[interface]
trait Till {
    async fn total(&self) -> Result<i64>;
    async fn pay(&mut self, amount: i64) -> Result<i64>;
    async fn refund(&mut self, amount: i64) -> Result<i64>;
    /// Ends the till, and says what was in it.
    async fn close(&mut self) -> Result<i64>;
    async fn close_later(&mut self) -> Result<Deferred<i64>>;
}

#[derive(Actor)]
#[actor(implements(Till))]
struct TillActor {
    total: State<i64>,
    ctx: Context,
}

impl Till for TillActor {
    async fn total(&self) -> Result<i64> {
        Ok(*self.total)
    }

    async fn pay(&mut self, amount: i64) -> Result<i64> {
        if amount < 0 {
            return Err(Error::invalid("pay something"));
        }
        *self.total += amount;
        Ok(*self.total)
    }

    async fn refund(&mut self, amount: i64) -> Result<i64> {
        *self.total -= amount;
        Ok(*self.total)
    }

    async fn close(&mut self) -> Result<i64> {
        CLOSED.set(CLOSED.get() + 1);
        self.ctx.delete()?;
        Ok(*self.total)
    }

    async fn close_later(&mut self) -> Result<Deferred<i64>> {
        CLOSED.set(CLOSED.get() + 1);
        self.ctx.delete()?;
        Ok(deferred().0)
    }
}

thread_local! {
    static CLOSED: Cell<u32> = const { Cell::new(0) };
}

async fn start() -> (TestNode, TillRef) {
    let node = TestNode::start(|node| node.actor::<TillActor>()).await.unwrap();
    let till = node.actor("a").unwrap();
    (node, till)
}

#[tokio::test]
async fn a_repeated_call_is_answered_the_same_and_does_nothing() {
    let (mut node, till) = start().await;
    let once = till.idempotent("order 1");
    assert_eq!(once.pay(5).await.unwrap(), 5);
    assert_eq!(till.pay(10).await.unwrap(), 15);
    assert_eq!(once.pay(5).await.unwrap(), 5);
    assert_eq!(till.idempotent("order 2").pay(5).await.unwrap(), 20);
    node.kill().await.unwrap();
    let till: TillRef = node.actor("a").unwrap();
    assert_eq!(till.idempotent("order 1").pay(5).await.unwrap(), 5);
    assert_eq!(till.total().await.unwrap(), 20);
}

#[tokio::test]
async fn also_while_the_first_is_being_committed() {
    let (_node, till) = start().await;
    let once = till.idempotent("order 1");
    let (first, second, third) = tokio::join!(once.pay(5), once.pay(5), once.pay(5));
    assert_eq!([first.unwrap(), second.unwrap(), third.unwrap()], [5, 5, 5]);
    assert_eq!(till.total().await.unwrap(), 5);
}

#[tokio::test]
async fn a_call_that_failed_is_tried_again() {
    let (node, till) = start().await;
    let once = till.idempotent("order 1");
    once.pay(-1).await.unwrap_err();
    assert_eq!(once.pay(5).await.unwrap(), 5);
    node.fail_next_commit();
    let other = till.idempotent("order 2");
    other.pay(5).await.unwrap_err();
    assert_eq!(other.pay(5).await.unwrap(), 10);
}

#[tokio::test]
async fn a_key_is_kept_for_as_long_as_is_set() {
    let node = TestNode::start(|node| {
        node.actor::<TillActor>().actor_defaults(|settings| settings.idempotency_retention = Duration::from_secs(60))
    })
    .await
    .unwrap();
    let once = node.actor::<TillRef>("a").unwrap().idempotent("order 1");
    assert_eq!(once.pay(5).await.unwrap(), 5);
    node.advance(Duration::from_secs(59)).await;
    assert_eq!(once.pay(5).await.unwrap(), 5);
    node.advance(Duration::from_secs(2)).await;
    assert_eq!(once.pay(5).await.unwrap(), 10);
}

#[tokio::test]
async fn a_key_that_cannot_be_is_refused() {
    let (_node, till) = start().await;
    till.idempotent("order 1").pay(5).await.unwrap();
    let error = till.idempotent("order 1").refund(5).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(error.to_string().contains("was used for `Till::pay` before, and now for `Till::refund`"), "{error}");
    assert_eq!(till.idempotent("").pay(1).await.unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(till.idempotent("x".repeat(2000)).pay(1).await.unwrap_err().kind(), ErrorKind::Invalid);
    // What changes nothing needs no record.
    assert_eq!(till.idempotent("order 1").total().await.unwrap(), 5);
}

#[tokio::test]
async fn a_call_that_deletes_its_actor_is_answered_the_same_and_makes_no_new_one() {
    let mut node = TestNode::start(|node| {
        node.actor::<TillActor>().actor_defaults(|settings| settings.idempotency_retention = Duration::from_secs(60))
    })
    .await
    .unwrap();
    let till: TillRef = node.actor("a").unwrap();
    till.idempotent("order 1").pay(5).await.unwrap();
    let once = till.idempotent("end");
    assert_eq!((once.close().await.unwrap(), once.close().await.unwrap()), (5, 5));
    node.kill().await.unwrap();
    let once = node.actor::<TillRef>("a").unwrap().idempotent("end");
    assert_eq!((once.close().await.unwrap(), CLOSED.get()), (5, 1));
    let all = || async { node.actors::<TillActor>().unwrap().all().collect().await.unwrap() };
    assert_eq!(all().await, []);

    // A new one has nothing of the first, and the answer stays what it was.
    let till: TillRef = node.actor("a").unwrap();
    assert_eq!(till.idempotent("order 1").pay(7).await.unwrap(), 7);
    assert_eq!((once.close().await.unwrap(), CLOSED.get()), (5, 1));
    assert_eq!((till.total().await.unwrap(), all().await.len()), (7, 1));
    node.advance(Duration::from_secs(61)).await;
    assert_eq!((once.close().await.unwrap(), CLOSED.get()), (7, 2), "for as long as is set");
    assert_eq!(all().await, []);
}

#[tokio::test]
async fn a_call_whose_answer_cannot_be_kept_is_refused_before_it_runs() {
    let (_node, till) = start().await;
    till.pay(5).await.unwrap();
    let error = till.idempotent("end").close_later().await.unwrap_err();
    assert!(error.to_string().contains("cannot be kept with the turn"), "{error}");
    assert_eq!((till.total().await.unwrap(), CLOSED.get()), (5, 0));
}
