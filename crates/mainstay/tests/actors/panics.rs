//! Code of the application that panics where no caller waits for it: when it is dropped, or cloned.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mainstay::prelude::*;
use mainstay::testkit::TestNode;
use serde::{Deserialize, Serialize};

/// Actors of each type in the test of idle ones.
const ACTORS: i64 = 30;

/// Panics once when it is cloned or dropped, if it is armed.
#[derive(Default)]
struct Trap(Arc<AtomicBool>);

impl Trap {
    fn spring(&self) {
        assert!(!self.0.swap(false, Ordering::SeqCst), "sprung");
    }
}

impl Clone for Trap {
    fn clone(&self) -> Self {
        self.spring();
        Self(self.0.clone())
    }
}

/// Panics when it is dropped.
#[derive(Default)]
struct Brittle;

impl Drop for Brittle {
    fn drop(&mut self) {
        // A node that is dropped by a failing test has enough to tell.
        if !std::thread::panicking() {
            panic!("broken");
        }
    }
}

#[interface]
trait Vase {
    async fn fill(&mut self) -> Result<u32>;
    /// Takes a while.
    async fn fill_slowly(&mut self) -> Result<u32>;
}

/// It has no hooks, and is dropped by whoever collects idle ones.
#[derive(Actor)]
#[actor(implements(Vase), partitions = 1)]
struct VaseActor {
    filled: State<u32>,
    _brittle: Brittle,
}

impl Vase for VaseActor {
    async fn fill(&mut self) -> Result<u32> {
        *self.filled += 1;
        Ok(*self.filled)
    }

    async fn fill_slowly(&mut self) -> Result<u32> {
        tokio::time::sleep(Duration::from_secs(1)).await;
        self.fill().await
    }
}

async fn active(node: &TestNode) -> usize {
    let mut vases = node.actors::<VaseActor>().unwrap().all();
    let mut active = 0;
    while let Some(vase) = vases.next().await.unwrap() {
        active += usize::from(vase.is_active);
    }
    active
}

#[tokio::test]
async fn idle_actors_that_panic_when_dropped_all_leave_at_once() {
    let node = TestNode::start(|node| node.actor::<VaseActor>()).await.unwrap();
    for id in 0..ACTORS {
        node.actor::<VaseRef>(id).unwrap().fill().await.unwrap();
    }
    assert_eq!(active(&node).await, ACTORS as usize);
    // The time after which they are idle, and one look.
    node.advance(Duration::from_secs(62 * 60)).await;
    assert_eq!(active(&node).await, 0);
}

#[tokio::test]
async fn an_actor_that_panics_when_dropped_is_deleted_and_deactivated_as_any_other() {
    let node = TestNode::start(|node| node.actor::<VaseActor>()).await.unwrap();
    let vase: VaseRef = node.actor("ming").unwrap();
    assert_eq!(vase.fill().await.unwrap(), 1);
    node.deactivate_actor::<VaseActor>("ming").await.unwrap();
    // It has the actor, the deletion waits behind it, and a call behind that.
    let (filled, deleted, late) = tokio::join!(vase.fill_slowly(), vase.delete_actor(), vase.fill());
    assert_eq!(filled.unwrap(), 2);
    deleted.unwrap();
    assert_eq!(late.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(vase.fill().await.unwrap(), 1, "a new one");
}

#[derive(Event, Serialize, Deserialize)]
struct Rang {
    #[serde(skip)]
    trap: Trap,
}

impl Clone for Rang {
    fn clone(&self) -> Self {
        Self { trap: self.trap.clone() }
    }
}

#[interface]
trait Bell {
    async fn ring(&mut self) -> Result<()>;
    /// Rings every second.
    async fn start(&mut self) -> Result<()>;
    async fn rings(&self) -> Result<u32>;
    async fn listen(&mut self) -> Result<()>;
}

#[derive(Actor)]
#[actor(implements(Bell), partitions = 1)]
struct BellActor {
    rings: u32,
    trap: Provided<Trap>,
    ctx: Context,
}

impl BellActor {
    async fn heard(&mut self, _: Received<Rang>) -> Result<()> {
        self.rings += 1;
        Ok(())
    }
}

impl Bell for BellActor {
    async fn ring(&mut self) -> Result<()> {
        self.ctx.publish(Rang { trap: Trap(self.trap.0.clone()) })
    }

    async fn start(&mut self) -> Result<()> {
        let (second, trap) = (Duration::from_secs(1), Trap(self.trap.0.clone()));
        let ring = async move |bell: &mut Self| {
            let _trap = &trap;
            bell.rings += 1;
            Ok(())
        };
        self.ctx.set_timer("ring", second, Some(second), ring).map(drop)
    }

    async fn rings(&self) -> Result<u32> {
        Ok(self.rings)
    }

    async fn listen(&mut self) -> Result<()> {
        self.ctx.subscribe(&self.ctx.actor::<BellRef>("tower")?, Self::heard)
    }
}

async fn bells() -> (TestNode, Arc<AtomicBool>) {
    let armed = Arc::new(AtomicBool::new(false));
    let shared = armed.clone();
    let node = TestNode::start(move |node| node.provide(Trap(shared.clone())).actor::<BellActor>()).await.unwrap();
    (node, armed)
}

#[tokio::test]
async fn a_timer_whose_closure_panics_when_cloned_goes_on() {
    let (node, armed) = bells().await;
    let bell: BellRef = node.actor("tower").unwrap();
    bell.start().await.unwrap();
    node.advance(Duration::from_millis(1500)).await;
    armed.store(true, Ordering::SeqCst);
    node.advance(Duration::from_secs(3)).await;
    assert!(!armed.load(Ordering::SeqCst), "it was cloned");
    assert_eq!(bell.rings().await.unwrap(), 3, "the second of four runs was lost");
}

#[tokio::test]
async fn a_listener_whose_event_panics_when_cloned_hears_the_next() {
    let (node, armed) = bells().await;
    let (tower, house): (BellRef, BellRef) = (node.actor("tower").unwrap(), node.actor("house").unwrap());
    house.listen().await.unwrap();
    armed.store(true, Ordering::SeqCst);
    for _ in 0..3 {
        tower.ring().await.unwrap();
    }
    node.advance(Duration::from_secs(1)).await;
    assert!(!armed.load(Ordering::SeqCst), "it was cloned");
    assert_eq!(house.rings().await.unwrap(), 2);
}
