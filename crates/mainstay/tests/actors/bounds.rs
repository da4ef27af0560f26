//! How many calls of one actor may be under way.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use mainstay::actor::{Deferred, Responder, deferred};
use mainstay::prelude::*;
use mainstay::testkit::TestNode;
use tokio::sync::Semaphore;

/// The setting `calls_max`.
const CALLS_MAX: usize = 20;

/// How many `look` calls have begun.
#[derive(Default)]
struct Begun(AtomicUsize);

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
        self.ctx.provided::<Begun>()?.0.fetch_add(1, Ordering::SeqCst);
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
        let node = node.provide(Semaphore::new(0)).provide(Begun::default()).actor::<DeskActor>();
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
    // There is room again, also for those who have waited in line behind one that had the actor to itself. They begin as others
    // end.
    let before = node.services().provided::<Begun>().unwrap().0.load(Ordering::SeqCst);
    let looking = join_all((0..2 * CALLS_MAX).map(|_| desk.look()));
    let (worked, looked, ()) = tokio::join!(desk.work(), looking, async {
        node.advance(Duration::from_millis(50)).await;
        let permits = node.services().provided::<Semaphore>().unwrap();
        permits.add_permits(1);
        node.advance(Duration::from_millis(50)).await;
        let begun = node.services().provided::<Begun>().unwrap().0.load(Ordering::SeqCst);
        assert_eq!(begun - before, CALLS_MAX + 1);
        permits.add_permits(2 * CALLS_MAX);
    });
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

/// The setting `mailbox`.
const MAILBOX: usize = 20;

#[tokio::test]
async fn calls_that_were_given_up_leave_room_in_the_mailbox() {
    let node = TestNode::start(|node| {
        let node = node.provide(Semaphore::new(0)).provide(Begun::default()).actor::<DeskActor>();
        node.actor_defaults(|settings| settings.mailbox = MAILBOX)
    });
    let node = node.await.unwrap();
    let desk: DeskRef = node.actor("d").unwrap();
    desk.work().await.unwrap();
    let mut looking = Box::pin(desk.look());
    assert!(futures_util::poll!(looking.as_mut()).is_pending(), "it has the actor beside others, and nobody alone");
    let brief = desk.with_timeout(Duration::from_millis(1));
    for _ in 0..4 * MAILBOX {
        assert_eq!(brief.work().await.unwrap_err().kind(), ErrorKind::Timeout);
    }
    for _ in 0..4 * MAILBOX {
        assert!(futures_util::poll!(Box::pin(desk.work())).is_pending(), "it waits, and is dropped");
    }
    for _ in 0..4 * MAILBOX {
        let deletion = brief.delete_actor().await;
        assert_eq!(deletion.unwrap_err().kind(), ErrorKind::Timeout);
    }
    // Those who do wait are as many as may, and keep their order.
    let waiting = (0..2 * MAILBOX).map(|_| desk.work());
    let release = async { node.services().provided::<Semaphore>().unwrap().add_permits(1) };
    let (outcomes, ()) = tokio::join!(join_all(waiting), release);
    let refused = outcomes.iter().filter_map(|outcome| outcome.as_ref().err());
    assert_eq!(refused.filter(|error| error.kind() == ErrorKind::Overloaded).count(), MAILBOX);
    looking.await.unwrap();
}
