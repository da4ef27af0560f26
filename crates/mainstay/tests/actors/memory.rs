//! Limits on what is in memory: those that were used least recently leave first.

use std::time::Duration;

use mainstay::actor::deferred;
use mainstay::prelude::*;
use mainstay::testkit::TestNode;
use mainstay_core::{task, time};

#[interface]
trait Blob {
    async fn fill(&mut self, bytes: u32) -> Result<()>;
    async fn size(&self) -> Result<u64>;
    async fn work(&mut self, seconds: u64) -> Result<u64>;
    /// Answers later, with how often it has worked in this activation.
    async fn work_outside(&mut self, seconds: u64) -> Result<Deferred<u64>>;
}

#[derive(Actor)]
#[actor(implements(Blob), persistence = "none", partitions = 4)]
struct BlobActor {
    bytes: State<String>,
    works: u64,
    ctx: Context,
}

impl Blob for BlobActor {
    async fn fill(&mut self, bytes: u32) -> Result<()> {
        *self.bytes = "x".repeat(bytes as usize);
        Ok(())
    }

    async fn size(&self) -> Result<u64> {
        Ok(self.bytes.len() as u64)
    }

    async fn work(&mut self, seconds: u64) -> Result<u64> {
        self.works += 1;
        time::sleep(Duration::from_secs(seconds)).await;
        Ok(self.works)
    }

    async fn work_outside(&mut self, seconds: u64) -> Result<Deferred<u64>> {
        let (answer, responder) = deferred();
        self.ctx.then(time::sleep(Duration::from_secs(seconds)), async move |actor: &mut Self, ()| {
            actor.works += 1;
            responder.respond(Ok(actor.works));
            Ok(())
        })?;
        Ok(answer)
    }
}

async fn start(actors: Option<u64>, bytes: Option<u64>) -> TestNode {
    TestNode::start(move |node| {
        node.actor::<BlobActor>().actor_defaults(move |settings| {
            (settings.active_actors_max, settings.memory_max) = (actors, bytes);
        })
    })
    .await
    .unwrap()
}

fn blob(node: &TestNode, number: i64) -> BlobRef {
    node.actor(format!("blob {number}")).unwrap()
}

/// The numbers of those in memory, once those that had to leave have left.
async fn active(node: &TestNode) -> Vec<i64> {
    time::sleep(Duration::from_millis(1)).await;
    let all = node.actors::<BlobActor>().unwrap().all().collect().await.unwrap();
    let active = all.iter().filter(|blob| blob.is_active).filter_map(|blob| blob.id.as_text());
    let mut numbers: Vec<_> = active.filter_map(|id| id.strip_prefix("blob ")?.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}

#[tokio::test]
async fn beyond_the_limit_of_actors_the_least_recently_used_leave() {
    let node = start(Some(8), None).await;
    for number in 0..20 {
        blob(&node, number).fill(1).await.unwrap();
        // One that is used all the time, over all partitions.
        blob(&node, 0).size().await.unwrap();
        let active = active(&node).await;
        assert!(active.len() <= 8, "{active:?}");
    }
    assert_eq!(active(&node).await, [0, 13, 14, 15, 16, 17, 18, 19]);
    for number in 0..20 {
        assert_eq!(blob(&node, number).size().await.unwrap(), 1, "those that left are there when they are called");
    }
    assert_eq!(active(&node).await, [12, 13, 14, 15, 16, 17, 18, 19]);
}

#[tokio::test]
async fn somewhat_less_than_the_limit_is_kept_so_that_they_leave_by_the_bunch() {
    let node = start(Some(64), None).await;
    for number in 0..65 {
        blob(&node, number).fill(1).await.unwrap();
    }
    assert_eq!(active(&node).await, (5..65).collect::<Vec<_>>());
}

#[tokio::test]
async fn beyond_the_limit_of_memory_the_least_recently_used_leave() {
    let node = start(None, Some(256 << 10)).await;
    for number in 0..10 {
        blob(&node, number).fill(60_000).await.unwrap();
    }
    assert_eq!(active(&node).await, [6, 7, 8, 9], "four of them and what they take beside their state");
    // One that is loaded counts like one that was filled.
    blob(&node, 0).size().await.unwrap();
    assert_eq!(active(&node).await, [0, 7, 8, 9]);
    // So does one that grows, and one that shrinks makes room.
    blob(&node, 9).fill(10).await.unwrap();
    blob(&node, 1).size().await.unwrap();
    assert_eq!(active(&node).await, [0, 1, 7, 8, 9]);
    blob(&node, 9).fill(60_000).await.unwrap();
    assert_eq!(active(&node).await, [0, 1, 8, 9]);
}

#[tokio::test]
async fn one_that_is_busy_does_not_leave_and_others_are_not_kept_waiting() {
    let node = start(Some(1), None).await;
    for number in 0..4 {
        blob(&node, number).fill(1).await.unwrap();
    }
    let working: Vec<_> = (0..4)
        .map(|number| {
            let blob = blob(&node, number);
            task::spawn(async move { (blob.work(10).await, blob.work(0).await) })
        })
        .collect();
    time::sleep(Duration::from_secs(5)).await;
    assert_eq!(active(&node).await, [0, 1, 2, 3], "all are in a turn");
    let before = time::now();
    blob(&node, 9).size().await.unwrap();
    assert_eq!(before.elapsed(), Duration::ZERO);
    for work in working {
        let (first, _) = work.await.unwrap();
        assert_eq!(first.unwrap(), 1);
    }
    time::sleep(Duration::from_secs(1)).await;
    assert_eq!(active(&node).await.len(), 1, "and when they have ended they leave");
}

#[tokio::test]
async fn neither_does_one_that_owes_an_answer() {
    let node = start(Some(1), None).await;
    let owed: Vec<_> = (0..4)
        .map(|number| {
            let blob = blob(&node, number);
            task::spawn(async move { blob.work_outside(10).await })
        })
        .collect();
    time::sleep(Duration::from_secs(1)).await;
    for number in 10..20 {
        blob(&node, number).size().await.unwrap();
        time::sleep(Duration::from_millis(200)).await;
    }
    for answer in owed {
        assert_eq!(answer.await.unwrap().unwrap(), 1);
    }
    time::sleep(Duration::from_secs(1)).await;
    assert_eq!(active(&node).await.len(), 1, "and when they have answered they leave");
}
