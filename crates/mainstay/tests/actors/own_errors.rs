//! Errors of an application's own that panic when they are made: that is for the task of the caller, and for nobody else.

use std::time::Duration;

use mainstay::actor::{Deferred, Responder, deferred};
use mainstay::prelude::*;
use mainstay::testkit::TestNode;
use serde::{Deserialize, Serialize};

/// An error that cannot be made of one of the runtime.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum Refusal {
    No,
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        panic!("no refusal is like this: {error}")
    }
}

#[interface]
trait Touchy {
    /// Never ends.
    async fn hang(&mut self) -> Result<(), Refusal>;
    async fn look(&self) -> Result<u64, Refusal>;
    async fn add(&mut self) -> Result<u64, Refusal>;
    /// Answers when the next one says so.
    async fn wait(&mut self) -> Result<Deferred<u64, Refusal>, Refusal>;
    /// Answers who waits, and fails or not.
    async fn answer(&mut self, is_refused: bool) -> Result<u64, Refusal>;
}

#[derive(Actor)]
#[actor(implements(Touchy), partitions = 1)]
struct TouchyActor {
    sum: State<u64>,
    waiting: Option<Responder<u64, Refusal>>,
}

impl Touchy for TouchyActor {
    async fn hang(&mut self) -> Result<(), Refusal> {
        std::future::pending().await
    }

    async fn look(&self) -> Result<u64, Refusal> {
        Ok(*self.sum)
    }

    async fn add(&mut self) -> Result<u64, Refusal> {
        *self.sum += 1;
        Ok(*self.sum)
    }

    async fn wait(&mut self) -> Result<Deferred<u64, Refusal>, Refusal> {
        let (later, responder) = deferred();
        self.waiting = Some(responder);
        Ok(later)
    }

    async fn answer(&mut self, is_refused: bool) -> Result<u64, Refusal> {
        *self.sum += 1;
        if let Some(waiting) = self.waiting.take() {
            waiting.respond(Ok(*self.sum));
        }
        if is_refused { Err(Refusal::No) } else { Ok(*self.sum) }
    }
}

#[derive(Worker)]
#[worker(implements(Touchy), max = 1)]
struct TouchyWorker;

impl Touchy for TouchyWorker {
    async fn hang(&mut self) -> Result<(), Refusal> {
        std::future::pending().await
    }

    async fn look(&self) -> Result<u64, Refusal> {
        panic!("on purpose")
    }

    async fn add(&mut self) -> Result<u64, Refusal> {
        Ok(1)
    }

    async fn wait(&mut self) -> Result<Deferred<u64, Refusal>, Refusal> {
        Err(Refusal::No)
    }

    async fn answer(&mut self, _: bool) -> Result<u64, Refusal> {
        Ok(1)
    }
}

async fn start() -> TestNode {
    TestNode::start(|node| node.actor::<TouchyActor>().worker::<TouchyWorker>()).await.unwrap()
}

/// Lets tasks come to where they wait.
async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

#[tokio::test]
async fn a_node_stops_although_the_errors_of_those_who_wait_panic() {
    let node = start().await;
    // Calls that find their partition open come in order.
    node.actor::<TouchyRef>("a").unwrap().add().await.unwrap();
    for touchy in [node.actor::<TouchyRef>("a").unwrap(), node.worker::<TouchyRef>().unwrap()] {
        let hanging = touchy.clone();
        let first = tokio::spawn(async move { hanging.hang().await });
        settle().await;
        let waiting: Vec<_> = (0..5)
            .map(|_| {
                let touchy = touchy.clone();
                tokio::spawn(async move { touchy.add().await })
            })
            .collect();
        settle().await;
        drop((first, waiting));
    }
    let touchy: TouchyRef = node.actor("a").unwrap();
    let behind: Vec<_> = (0..5)
        .map(|_| {
            let touchy = touchy.clone();
            tokio::spawn(async move { touchy.add().await })
        })
        .collect();
    settle().await;
    node.stop().await;
    for caller in behind {
        // In its own task it panics, and there alone.
        assert!(caller.await.unwrap_err().is_panic());
    }
}

#[tokio::test]
async fn a_node_is_dropped_although_the_errors_of_those_who_wait_panic() {
    let node = start().await;
    let touchy: TouchyRef = node.actor("a").unwrap();
    // Calls that find their partition open come in order.
    touchy.add().await.unwrap();
    let hanging = touchy.clone();
    drop(tokio::spawn(async move { hanging.hang().await }));
    settle().await;
    let behind: Vec<_> = (0..5)
        .map(|_| {
            let touchy = touchy.clone();
            tokio::spawn(async move { touchy.add().await })
        })
        .collect();
    settle().await;
    drop(node);
    for caller in behind {
        assert!(caller.await.unwrap_err().is_panic());
    }
}

#[tokio::test]
async fn an_answer_that_is_not_given_harms_nobody_but_who_waits_for_it() {
    let node = start().await;
    let touchy: TouchyRef = node.actor("a").unwrap();
    // A turn that fails, and one whose commit does.
    for is_refused in [true, false] {
        let waits = touchy.clone();
        let waiting = tokio::spawn(async move { waits.wait().await });
        settle().await;
        if !is_refused {
            node.fail_next_commit();
        }
        let answers = touchy.clone();
        let answered = tokio::spawn(async move { answers.answer(is_refused).await });
        match is_refused {
            true => assert_eq!(answered.await.unwrap(), Err(Refusal::No)),
            false => assert!(answered.await.unwrap_err().is_panic()),
        }
        assert!(waiting.await.unwrap_err().is_panic());
        // The actor goes on, with its commits.
        let before = touchy.look().await.unwrap();
        assert_eq!(touchy.add().await.unwrap(), before + 1);
    }
    node.stop().await;
}

#[tokio::test]
async fn a_worker_that_panics_behind_others_harms_nobody_but_its_caller() {
    let node = start().await;
    let touchy: TouchyRef = node.worker().unwrap();
    let (hanging, behind) = (touchy.clone(), touchy.clone());
    let hanging = tokio::spawn(async move { hanging.with_timeout(Duration::from_millis(50)).hang().await });
    settle().await;
    let panics = tokio::spawn(async move { behind.look().await });
    assert!(hanging.await.unwrap_err().is_panic());
    panics.abort();
    node.stop().await;
}
