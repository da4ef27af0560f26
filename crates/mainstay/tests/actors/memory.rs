//! Limits on what is in memory: those that were used least recently leave first.

use std::cell::Cell;
use std::time::Duration;

use mainstay::actor::deferred;
use mainstay::prelude::*;
use mainstay::testkit::TestNode;
use mainstay_core::{task, time};
use serde::{Deserialize, Deserializer, Serialize};

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
    active_of::<BlobActor>(node).await
}

async fn active_of<T: Actor>(node: &TestNode) -> Vec<i64> {
    time::sleep(Duration::from_millis(1)).await;
    let all = node.actors::<T>().unwrap().all().collect().await.unwrap();
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

#[interface]
trait Drawer {
    async fn put(&mut self, name: String, bytes: u32) -> Result<()>;
    async fn remove(&mut self, name: String) -> Result<()>;
    async fn size(&self, name: String) -> Result<u64>;
    async fn fail(&mut self, name: String) -> Result<()>;
    async fn forget(&mut self) -> Result<()>;
}

/// Keeps what it is given in a field that is loaded when it is asked for.
#[derive(Actor)]
#[actor(implements(Drawer), persistence = "none", partitions = 1)]
struct PagedDrawer {
    content: Paged<String>,
}

thread_local! {
    /// How often a sheet was decoded in this test.
    static DECODED: Cell<u32> = const { Cell::new(0) };
}

/// What is kept under a name.
#[derive(Serialize)]
struct Sheet(String);

impl<'de> Deserialize<'de> for Sheet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        DECODED.set(DECODED.get() + 1);
        String::deserialize(deserializer).map(Self)
    }
}

/// Keeps what it is given under names.
#[derive(Actor)]
#[actor(implements(Drawer), persistence = "none", partitions = 1)]
struct NamedDrawer {
    ctx: Context,
}

impl Drawer for PagedDrawer {
    async fn put(&mut self, _: String, bytes: u32) -> Result<()> {
        *self.content.get_mut()? = "x".repeat(bytes as usize);
        Ok(())
    }

    async fn remove(&mut self, _: String) -> Result<()> {
        self.content.get_mut()?.clear();
        Ok(())
    }

    async fn size(&self, _: String) -> Result<u64> {
        Ok(self.content.get()?.len() as u64)
    }

    async fn fail(&mut self, _: String) -> Result<()> {
        self.content.get_mut()?.push('x');
        Err(Error::invalid("on purpose"))
    }

    async fn forget(&mut self) -> Result<()> {
        self.content.unload();
        Ok(())
    }
}

impl Drawer for NamedDrawer {
    async fn put(&mut self, name: String, bytes: u32) -> Result<()> {
        self.ctx.state_mut().set(&name, Sheet("x".repeat(bytes as usize)))
    }

    async fn remove(&mut self, name: String) -> Result<()> {
        self.ctx.state_mut().remove(&name)
    }

    async fn size(&self, name: String) -> Result<u64> {
        Ok(self.ctx.state().get::<Sheet>(&name)?.0.len() as u64)
    }

    async fn fail(&mut self, name: String) -> Result<()> {
        self.ctx.state_mut().set(&name, Sheet(String::new()))?;
        Err(Error::invalid("on purpose"))
    }

    async fn forget(&mut self) -> Result<()> {
        self.ctx.state_mut().clear_cache();
        Ok(())
    }
}

async fn drawers<T: Actor>(bytes: u64) -> TestNode {
    TestNode::start(move |node| node.actor::<T>().actor_defaults(move |settings| settings.memory_max = Some(bytes)))
        .await
        .unwrap()
}

/// What is no plain field counts like one that is: when it is saved and loaded, and no more when it is gone.
async fn what_is_loaded_counts<T: Actor>() {
    let node = drawers::<T>(256 << 10).await;
    let drawer = |number: i64| node.actor::<DrawerRef>(format!("blob {number}")).unwrap();
    let name = || String::from("a");
    for number in 0..10 {
        drawer(number).put(name(), 60_000).await.unwrap();
    }
    assert_eq!(active_of::<T>(&node).await, [6, 7, 8, 9], "four of them and what they take beside their state");
    assert_eq!(drawer(0).size(name()).await.unwrap(), 60_000);
    assert_eq!(active_of::<T>(&node).await, [0, 7, 8, 9], "one that is loaded");
    drawer(9).remove(name()).await.unwrap();
    drawer(1).size(name()).await.unwrap();
    assert_eq!(active_of::<T>(&node).await, [0, 1, 7, 8, 9], "one that shrinks makes room");
    drawer(9).put(name(), 60_000).await.unwrap();
    assert_eq!(active_of::<T>(&node).await, [0, 1, 8, 9], "and takes it again");
    drawer(9).forget().await.unwrap();
    drawer(2).size(name()).await.unwrap();
    assert_eq!(active_of::<T>(&node).await, [0, 1, 2, 8, 9], "what is not in memory makes room as well");
    drawer(9).size(name()).await.unwrap();
    assert_eq!(active_of::<T>(&node).await, [0, 1, 2, 9]);
    drawer(9).fail(name()).await.unwrap_err();
    drawer(3).size(name()).await.unwrap();
    assert_eq!(active_of::<T>(&node).await, [0, 1, 2, 3, 9], "and so does what a failed turn has dropped");
}

#[tokio::test]
async fn a_field_that_is_loaded_when_it_is_asked_for_counts_once_it_is() {
    what_is_loaded_counts::<PagedDrawer>().await;
}

#[tokio::test]
async fn dynamic_state_counts_once_it_is_loaded() {
    what_is_loaded_counts::<NamedDrawer>().await;
}

#[tokio::test]
async fn of_much_dynamic_state_an_actor_keeps_what_it_used_last() {
    let node = drawers::<NamedDrawer>(24 << 20).await;
    let drawer: DrawerRef = node.actor("blob 0").unwrap();
    for name in 0..40 {
        drawer.put(name.to_string(), 1 << 20).await.unwrap();
    }
    assert_eq!(active_of::<NamedDrawer>(&node).await, [0], "what it has written");
    for name in 0..40 {
        assert_eq!(drawer.size(name.to_string()).await.unwrap(), 1 << 20);
    }
    assert_eq!(active_of::<NamedDrawer>(&node).await, [0], "and what it has read");
    let before = DECODED.get();
    drawer.size("39".to_owned()).await.unwrap();
    assert_eq!(DECODED.get(), before, "what it read last is still there");
    drawer.size("0".to_owned()).await.unwrap();
    assert_eq!(DECODED.get(), before + 1, "and what it read first is not");
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
