//! Chains of calls: their limits, and those that would wait for themselves.

use std::time::Duration;

use mainstay::prelude::*;
use mainstay::testkit::TestNode;
use serde::{Deserialize, Serialize};

/// What to do, one step after another.
#[derive(Debug, Clone, Serialize, Deserialize)]
enum Step {
    Call(String),
    Peek(String),
    Sleep(u64),
    /// The rest in a task of its own, which is waited for.
    Spawn,
    /// Two ways at once, whatever becomes of the second.
    Both(Vec<Step>, Vec<Step>),
}

#[interface]
trait Walker {
    async fn walk(&mut self, steps: Vec<Step>) -> Result<u32>;
    async fn peek(&self, steps: Vec<Step>) -> Result<u32>;
}

#[derive(Actor)]
#[actor(implements(Walker), persistence = "none")]
struct WalkerActor {
    ctx: Context,
}

async fn go(ctx: &Context, mut steps: Vec<Step>) -> Result<u32> {
    if steps.is_empty() {
        return Ok(0);
    }
    match steps.remove(0) {
        Step::Call(id) => Ok(1 + ctx.actor::<WalkerRef>(id)?.walk(steps).await?),
        Step::Peek(id) => Ok(1 + ctx.actor::<WalkerRef>(id)?.peek(steps).await?),
        Step::Sleep(millis) => {
            tokio::time::sleep(Duration::from_millis(millis)).await;
            Box::pin(go(ctx, steps)).await
        }
        Step::Spawn => {
            let Some(Step::Call(id)) = steps.first().cloned() else { return Ok(0) };
            let walker: WalkerRef = ctx.actor(id)?;
            let task = tokio::spawn(async move { walker.walk(steps.split_off(1)).await });
            task.await.or_error(ErrorKind::Fatal, "the task has panicked")?
        }
        Step::Both(first, second) => tokio::join!(Box::pin(go(ctx, first)), Box::pin(go(ctx, second))).0,
    }
}

impl Walker for WalkerActor {
    async fn walk(&mut self, steps: Vec<Step>) -> Result<u32> {
        go(&self.ctx, steps).await
    }

    async fn peek(&self, steps: Vec<Step>) -> Result<u32> {
        go(&self.ctx, steps).await
    }
}

fn call(id: &str) -> Step {
    Step::Call(id.into())
}

async fn start() -> TestNode {
    TestNode::start(|node| node.actor::<WalkerActor>()).await.unwrap()
}

#[tokio::test]
async fn a_chain_that_would_wait_for_itself_is_refused_at_once_with_the_chain() {
    let node = start().await;
    let a: WalkerRef = node.actor("a").unwrap();
    let before = tokio::time::Instant::now();
    let error = a.walk(vec![call("b"), call("c"), call("a")]).await.unwrap_err();
    assert!(
        error.to_string().contains(
            "WalkerActor(\"a\").walk → WalkerActor(\"b\").walk → WalkerActor(\"c\").walk → WalkerActor(\"a\").walk"
        ),
        "{error}"
    );
    assert_eq!(before.elapsed(), Duration::ZERO);
    // Nobody is left behind.
    assert_eq!(a.walk(vec![call("b"), call("c")]).await.unwrap(), 2);
    let error = a.walk(vec![call("a")]).await.unwrap_err();
    assert!(error.to_string().contains("would wait for itself"), "{error}");
}

#[tokio::test]
async fn also_one_that_has_waited_for_something_else() {
    let node = start().await;
    let a: WalkerRef = node.actor("a").unwrap();
    let error = a.walk(vec![Step::Sleep(5), call("b"), Step::Sleep(5), call("a")]).await.unwrap_err();
    assert!(error.to_string().contains("would wait for itself"), "{error}");
}

#[tokio::test]
async fn of_two_chains_that_wait_for_each_other_one_is_refused() {
    let node = start().await;
    let (a, b): (WalkerRef, WalkerRef) = (node.actor("a").unwrap(), node.actor("b").unwrap());
    let before = tokio::time::Instant::now();
    let (first, second) =
        tokio::join!(a.walk(vec![Step::Sleep(10), call("b")]), b.walk(vec![Step::Sleep(10), call("a")]));
    assert!(before.elapsed() < Duration::from_secs(1));
    assert!(first.is_ok() != second.is_ok(), "{first:?} {second:?}");
    let error = first.and(second).unwrap_err();
    assert!(error.to_string().contains("would wait for itself, which waits for"), "{error}");
}

#[tokio::test]
async fn also_of_three_that_go_through_others() {
    let node = start().await;
    let [a, b, c]: [WalkerRef; 3] = ["a", "b", "c"].map(|id| node.actor(id).unwrap());
    let (first, second, third) = tokio::join!(
        a.walk(vec![Step::Sleep(10), call("x"), call("b")]),
        b.walk(vec![Step::Sleep(10), call("y"), call("c")]),
        c.walk(vec![Step::Sleep(10), call("z"), call("a")]),
    );
    let refused = [&first, &second, &third].iter().filter(|result| result.is_err()).count();
    assert_eq!(refused, 1, "{first:?} {second:?} {third:?}");
}

#[tokio::test]
async fn also_of_many_thousands_and_the_error_is_no_longer_for_that() {
    const ACTORS: u64 = 10_000;
    let node = start().await;
    let walks: Vec<_> = (0..ACTORS)
        .map(|number| {
            let walker: WalkerRef = node.actor(number.to_string()).unwrap();
            // One after another, so that the last one closes the ring.
            let steps = vec![Step::Sleep(1 + number), call(&((number + 1) % ACTORS).to_string())];
            tokio::spawn(async move { walker.walk(steps).await })
        })
        .collect();
    let mut refused = Vec::new();
    for walk in walks {
        refused.extend(walk.await.unwrap().err());
    }
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert_eq!(refused[0].kind(), ErrorKind::Conflict);
    let text = refused[0].to_string();
    assert!(text.contains("(\"0\").walk and 9997 more up to ") && text.len() < 500, "{text}");
}

#[tokio::test]
async fn a_refused_call_takes_nothing_from_another_wait_of_the_same_turn() {
    let node = start().await;
    let [a, b, c]: [WalkerRef; 3] = ["a", "b", "c"].map(|id| node.actor(id).unwrap());
    let before = tokio::time::Instant::now();
    let (first, second, third) = tokio::join!(
        // Shares `b`, and cannot have it alone while the second waits for `a`.
        a.walk(vec![Step::Sleep(20), Step::Both(vec![Step::Peek("b".into()), call("c")], vec![call("b")])]),
        b.peek(vec![Step::Sleep(10), call("a")]),
        // Closes a circle through `b`, for which `a` still waits.
        c.walk(vec![Step::Sleep(30), call("a")]),
    );
    assert!(before.elapsed() < Duration::from_secs(1), "{:?}", before.elapsed());
    let error = third.unwrap_err();
    assert!(error.to_string().contains("would wait for itself, which waits for"), "{error}");
    assert_eq!((first.unwrap(), second.unwrap()), (2, 1));
}

#[tokio::test]
async fn a_shared_turn_may_come_back_to_its_actor_even_if_others_wait() {
    let node = start().await;
    let a: WalkerRef = node.actor("a").unwrap();
    let looking = a.peek(vec![Step::Sleep(10), Step::Peek("b".into()), Step::Peek("a".into())]);
    let (looked, walked) = tokio::join!(looking, async {
        tokio::time::sleep(Duration::from_millis(1)).await;
        a.walk(Vec::new()).await
    });
    assert_eq!((looked.unwrap(), walked.unwrap()), (2, 0));
    // To have it alone while one has it shared is another matter.
    let error = a.peek(vec![Step::Peek("b".into()), call("a")]).await.unwrap_err();
    assert!(error.to_string().contains("would wait for itself"), "{error}");
}

#[tokio::test]
async fn a_deadline_is_carried_along() {
    let node = start().await;
    let a: WalkerRef = node.actor("a").unwrap();
    let before = tokio::time::Instant::now();
    let short = a.with_timeout(Duration::from_millis(20));
    let error = short.walk(vec![call("b"), call("c"), Step::Sleep(60_000)]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown);
    assert!(before.elapsed() < Duration::from_millis(30));
    // The turns of `a` and `b` have ended by the same limit, and wait for nobody any more.
    assert_eq!(a.walk(vec![call("b")]).await.unwrap(), 1);
    assert!(before.elapsed() < Duration::from_secs(1));
}

#[tokio::test]
async fn long_chains_need_no_stack_and_endless_ones_end() {
    let node = start().await;
    let first: WalkerRef = node.actor("0").unwrap();
    let chain = |length: usize| (1..=length).map(|number| call(&number.to_string())).collect::<Vec<_>>();
    assert_eq!(first.walk(chain(200)).await.unwrap(), 200);
    let error = first.walk(chain(300)).await.unwrap_err();
    assert!(error.to_string().contains("CHAIN_MAX"), "{error}");
}

#[tokio::test]
async fn a_call_to_itself_from_a_task_of_its_own_ends_at_the_time_limit() {
    let node = start().await;
    let a: WalkerRef = node.actor("a").unwrap();
    let begin = tokio::time::Instant::now();
    // The guide says so: a task is no part of the turn that starts it, and may outlive it, and so the circle is not seen.
    let error = a.with_timeout(Duration::from_secs(100)).walk(vec![Step::Spawn, call("a")]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error:?}");
    let took = begin.elapsed();
    assert!((Duration::from_secs(60)..Duration::from_secs(61)).contains(&took), "{took:?}: call_timeout");
    // Nothing is left behind, and another actor can be called like that.
    assert_eq!(a.walk(vec![Step::Spawn, call("b")]).await.unwrap(), 0);
}
