//! Answers that are given after the turn.

use std::time::Duration;

use mainstay::actor::deferred;
use mainstay::prelude::*;
use mainstay::testkit::TestNode;

#[interface]
trait Batch {
    /// Is answered with the number of the batch, when that is written.
    async fn submit(&mut self, item: String) -> Result<Deferred<u64>>;
    async fn flush(&mut self) -> Result<usize>;
    async fn flush_and_fail(&mut self) -> Result<usize>;
    async fn forget(&mut self) -> Result<()>;
    async fn panic(&mut self) -> Result<()>;
}

#[derive(Actor)]
#[actor(implements(Batch))]
struct BatchActor {
    batches: State<u64>,
    waiting: Vec<Responder<u64>>,
}

impl Batch for BatchActor {
    async fn submit(&mut self, _item: String) -> Result<Deferred<u64>> {
        let (answer, responder) = deferred();
        self.waiting.push(responder);
        Ok(answer)
    }

    async fn flush(&mut self) -> Result<usize> {
        *self.batches += 1;
        let waiting = std::mem::take(&mut self.waiting);
        let count = waiting.len();
        waiting.into_iter().for_each(|responder| responder.respond(Ok(*self.batches)));
        Ok(count)
    }

    async fn flush_and_fail(&mut self) -> Result<usize> {
        self.flush().await?;
        Err(Error::invalid("no"))
    }

    async fn forget(&mut self) -> Result<()> {
        self.waiting.clear();
        Ok(())
    }

    async fn panic(&mut self) -> Result<()> {
        panic!("oh no")
    }
}

async fn start() -> (TestNode, BatchRef) {
    let node = TestNode::start(|node| node.actor::<BatchActor>()).await.unwrap();
    let batch = node.actor("a").unwrap();
    (node, batch)
}

async fn submit(batch: &BatchRef) -> tokio::task::JoinHandle<Result<u64>> {
    let batch = batch.clone();
    let call = tokio::spawn(async move { batch.submit("item".into()).await });
    // Long enough for the turn to be durable, so that only the answer is awaited.
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!call.is_finished());
    call
}

#[tokio::test]
async fn callers_wait_for_the_turn_that_answers_and_the_actor_is_free_meanwhile() {
    let (_node, batch) = start().await;
    let calls = [submit(&batch).await, submit(&batch).await, submit(&batch).await];
    assert_eq!(batch.flush().await.unwrap(), 3);
    for call in calls {
        assert_eq!(call.await.unwrap().unwrap(), 1);
    }
}

#[tokio::test]
async fn an_answer_leaves_with_the_turn_that_gives_it_or_not_at_all() {
    let (node, batch) = start().await;
    let call = submit(&batch).await;
    batch.flush_and_fail().await.unwrap_err();
    let error = call.await.unwrap().unwrap_err();
    assert!(error.to_string().contains("has failed"), "{error}");
    let call = submit(&batch).await;
    node.fail_next_commit();
    batch.flush().await.unwrap_err();
    assert_eq!(call.await.unwrap().unwrap_err().kind(), ErrorKind::StorageFull);
}

#[tokio::test]
async fn nobody_waits_for_an_answer_that_cannot_come() {
    let (node, batch) = start().await;
    let call = submit(&batch).await;
    batch.forget().await.unwrap();
    let error = call.await.unwrap().unwrap_err();
    assert!(error.to_string().contains("whose responder was dropped"), "{error}");
    let call = submit(&batch).await;
    batch.panic().await.unwrap_err();
    call.await.unwrap().unwrap_err();
    let call = submit(&batch).await;
    node.stop().await;
    call.await.unwrap().unwrap_err();
}

#[tokio::test]
async fn an_answer_has_a_time_limit() {
    let (_node, batch) = start().await;
    let error = batch.with_timeout(Duration::from_secs(5)).submit("late".into()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown);
    assert!(error.to_string().contains("a deferred reply that was not given within the time limit"), "{error}");
    assert_eq!(batch.flush().await.unwrap(), 1);
}

#[tokio::test]
async fn an_answer_that_comes_later_cannot_be_kept_for_a_key() {
    let (_node, batch) = start().await;
    let error = batch.idempotent("k").submit("x".into()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
}
