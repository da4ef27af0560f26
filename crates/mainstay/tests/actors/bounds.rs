//! How many calls of one actor may be under way.

use std::time::Duration;

use futures_util::future::join_all;
use mainstay::actor::{Deferred, Responder, deferred};
use mainstay::prelude::*;
use mainstay::testkit::TestNode;
use tokio::sync::Semaphore;

/// The setting `calls_max`.
const CALLS_MAX: usize = 20;

#[interface]
trait Desk {
    /// Takes until it is let go on.
    async fn look(&self) -> Result<()>;
    /// Answers later.
    async fn ask(&mut self) -> Result<Deferred<u64>>;
    /// The same beside others.
    async fn ask_beside(&self) -> Result<Deferred<u64>>;
    /// Takes a while.
    async fn work(&mut self) -> Result<()>;
    /// Answers all who wait.
    async fn answer(&mut self) -> Result<usize>;
}

#[derive(Actor)]
#[actor(implements(Desk), partitions = 1, persistence = "none")]
struct DeskActor {
    waiting: std::sync::Mutex<Vec<Responder<u64>>>,
    ctx: Context,
}

impl Desk for DeskActor {
    async fn look(&self) -> Result<()> {
        self.ctx.provided::<Semaphore>()?.acquire().await.unwrap().forget();
        Ok(())
    }

    async fn ask(&mut self) -> Result<Deferred<u64>> {
        self.ask_beside().await
    }

    async fn ask_beside(&self) -> Result<Deferred<u64>> {
        let (later, responder) = deferred();
        self.waiting.lock().unwrap().push(responder);
        Ok(later)
    }

    async fn work(&mut self) -> Result<()> {
        tokio::time::sleep(Duration::from_millis(10)).await;
        Ok(())
    }

    async fn answer(&mut self) -> Result<usize> {
        let waiting = std::mem::take(&mut *self.waiting.lock().unwrap());
        let count = waiting.len();
        waiting.into_iter().for_each(|waiting| waiting.respond(Ok(7)));
        Ok(count)
    }
}

async fn start() -> (TestNode, DeskRef) {
    let node = TestNode::start(|node| {
        let node = node.provide(Semaphore::new(0)).actor::<DeskActor>();
        node.actor_defaults(|settings| settings.calls_max = CALLS_MAX)
    });
    let node = node.await.unwrap();
    let desk = node.actor("d").unwrap();
    (node, desk)
}

fn overloaded<T: std::fmt::Debug>(outcomes: &[Result<T>]) -> usize {
    let errors = outcomes.iter().filter_map(|outcome| outcome.as_ref().err());
    errors
        .inspect(|error| {
            assert!(error.kind() == ErrorKind::Overloaded && error.to_string().contains("calls_max"), "{error}");
        })
        .count()
}

#[tokio::test]
async fn beyond_the_limit_shared_calls_are_overloaded() {
    let (node, desk) = start().await;
    desk.work().await.unwrap();
    let looking = join_all((0..CALLS_MAX + 7).map(|_| desk.look()));
    let (looked, ()) = tokio::join!(looking, async {
        node.advance(Duration::from_millis(1)).await;
        node.services().provided::<Semaphore>().unwrap().add_permits(CALLS_MAX);
    });
    assert_eq!(overloaded(&looked), 7);
    // There is room again, also for those who have waited in line behind one that had the actor to itself.
    node.services().provided::<Semaphore>().unwrap().add_permits(2 * CALLS_MAX);
    let (worked, looked) = tokio::join!(desk.work(), join_all((0..2 * CALLS_MAX).map(|_| desk.look())));
    worked.unwrap();
    assert_eq!(overloaded(&looked), 0);
}

#[tokio::test]
async fn beyond_the_limit_answers_are_not_owed() {
    let (node, desk) = start().await;
    for is_behind in [false, true] {
        let asking = async {
            let asks = (0..CALLS_MAX + 7).map(|number| {
                let desk = desk.clone();
                async move { if number % 2 == 0 { desk.ask().await } else { desk.ask_beside().await } }
            });
            join_all(asks).await
        };
        let working = async {
            if is_behind {
                // They come while somebody has the actor to itself, and so wait in line.
                desk.work().await.unwrap();
            }
        };
        let ((), asked, answered) = tokio::join!(working, asking, async {
            node.advance(Duration::from_millis(50)).await;
            desk.answer().await.unwrap()
        });
        assert_eq!((overloaded(&asked), answered), (7, CALLS_MAX));
    }
    // Who gives up waiting is not waited for.
    for _ in 0..3 * CALLS_MAX {
        assert!(tokio::time::timeout(Duration::from_millis(1), desk.ask()).await.is_err());
    }
}
