//! Fields that are opened by an expression of their author: of actors, services and workers.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use mainstay::node::NodeBuilder;
use mainstay::prelude::*;
use mainstay::testkit::TestNode;

/// What is outside: it can be down, and counts who has opened it.
#[derive(Clone, Default)]
struct Outside(Arc<Counts>);

#[derive(Default)]
struct Counts {
    failures: AtomicU32,
    openings: AtomicU32,
}

/// Something that has no default.
struct Connection {
    number: u32,
    to: String,
}

impl Connection {
    async fn open(outside: &Outside, to: impl Into<String>) -> Result<Self> {
        tokio::task::yield_now().await;
        let failed = outside.0.failures.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        if failed.is_ok() {
            return Err(Error::new(ErrorKind::Retry, "the line is busy"));
        }
        Ok(Self { number: outside.0.openings.fetch_add(1, Ordering::SeqCst), to: to.into() })
    }
}

#[interface]
trait Line {
    async fn number(&self) -> Result<(u32, String)>;
}

#[derive(Actor)]
#[actor(implements(Line))]
struct LineActor {
    calls: State<u64>,
    #[open(Connection::open(&*ctx.provided::<Outside>()?, ctx.id().as_text().unwrap_or_default()).await)]
    connection: Connection,
    // Known by its name from here on, and without waiting for anything.
    #[open(Ok(format!("to {}", connection.to)))]
    text: String,
    length: usize,
    ctx: Context,
}

impl Lifecycle for LineActor {
    async fn activate(&mut self) -> Result<()> {
        self.length = self.text.len();
        Ok(())
    }
}

impl Line for LineActor {
    async fn number(&self) -> Result<(u32, String)> {
        assert_eq!((*self.calls, self.length), (0, self.text.len()));
        let _ = &self.ctx;
        Ok((self.connection.number, self.text.clone()))
    }
}

async fn start(outside: &Outside, serve: fn(NodeBuilder) -> NodeBuilder) -> TestNode {
    let outside = outside.clone();
    TestNode::start(move |node| serve(node.provide(outside.clone()))).await.unwrap()
}

#[tokio::test]
async fn fields_of_an_actor_are_open_before_its_hook_and_stay_open() {
    let outside = Outside::default();
    let node = start(&outside, |node| node.actor::<LineActor>()).await;
    let line: LineRef = node.actor("a").unwrap();
    for _ in 0..3 {
        assert_eq!(line.number().await.unwrap(), (0, "to a".to_owned()));
    }
    node.deactivate_actor::<LineActor>("a").await.unwrap();
    assert_eq!(line.number().await.unwrap().0, 1, "opened again with the next activation");
}

#[tokio::test]
async fn a_field_that_cannot_be_opened_fails_the_activation_by_its_name_and_is_tried_again() {
    let outside = Outside::default();
    let node = start(&outside, |node| node.actor::<LineActor>()).await;
    outside.0.failures.store(1, Ordering::SeqCst);
    let line: LineRef = node.actor("a").unwrap();
    let error = line.number().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Retry);
    let text = "cannot be activated: field `connection` cannot be opened: the line is busy";
    assert!(error.to_string().ends_with(text), "{error}");
    assert_eq!(line.number().await.unwrap().0, 0);
}

#[interface]
trait Circle {
    async fn ask(&self) -> Result<u32>;
}

/// One that would have to be there to be made.
#[derive(Actor)]
#[actor(implements(Circle))]
struct CircleActor {
    #[open(ctx.actor::<CircleRef>(ctx.id().clone())?.ask().await)]
    number: u32,
}

impl Circle for CircleActor {
    async fn ask(&self) -> Result<u32> {
        Ok(self.number)
    }
}

#[tokio::test]
async fn an_actor_that_calls_itself_to_be_opened_is_refused_and_does_not_wait() {
    let node = start(&Outside::default(), |node| node.actor::<CircleActor>()).await;
    let circle: CircleRef = node.actor(1).unwrap();
    let error = circle.ask().await.unwrap_err();
    assert!(error.to_string().contains("field `number` cannot be opened"), "{error}");
    assert!(error.kind() != ErrorKind::Timeout, "{error}");
}

#[derive(Service)]
#[service(implements(Line), partitions = singleton)]
struct LineService {
    calls: Dictionary<u64, u64>,
    #[open(Connection::open(&*ctx.provided::<Outside>()?, "service").await)]
    connection: Connection,
}

impl Line for LineService {
    async fn number(&self) -> Result<(u32, String)> {
        let _ = &self.calls;
        Ok((self.connection.number, self.connection.to.clone()))
    }
}

#[tokio::test]
async fn fields_of_a_service_are_open_when_it_is_called() {
    let outside = Outside::default();
    outside.0.failures.store(1, Ordering::SeqCst);
    let node = start(&outside, |node| node.service::<LineService>()).await;
    let line: LineRef = node.service(()).unwrap();
    let error = line.number().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Retry);
    assert!(error.to_string().contains("field `connection` cannot be opened: the line is busy"), "{error}");
    let opened = loop {
        match line.number().await {
            Ok(number) => break number,
            Err(error) => assert_eq!(error.kind(), ErrorKind::Retry, "{error}"),
        }
        node.advance(std::time::Duration::from_millis(100)).await;
    };
    assert_eq!(opened.1, "service", "it is tried again");
}

#[derive(Worker)]
#[worker(implements(Line), min = 1, max = 1)]
struct LineWorker {
    #[open(Connection::open(&*ctx.provided::<Outside>()?, "worker").await)]
    connection: Connection,
}

impl Line for LineWorker {
    async fn number(&self) -> Result<(u32, String)> {
        Ok((self.connection.number, self.connection.to.clone()))
    }
}

#[tokio::test]
async fn fields_of_a_worker_are_opened_by_its_first_call_and_a_failure_is_that_calls_alone() {
    let outside = Outside::default();
    let node = start(&outside, |node| node.worker::<LineWorker>()).await;
    outside.0.failures.store(1, Ordering::SeqCst);
    let line: LineRef = node.worker().unwrap();
    let error = line.number().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Retry);
    let text =
        "an instance of worker LineWorker cannot be constructed: field `connection` cannot be opened: the line is busy";
    assert_eq!(error.to_string(), text);
    let first = line.number().await.unwrap();
    assert_eq!(first.1, "worker");
    assert_eq!(line.number().await.unwrap(), first, "one instance, opened once");
}
