//! Chains of calls as spans.

use std::time::Duration;

use mainstay::prelude::*;
use mainstay::testkit::TestNode;
use tracing::{Instrument as _, Level};

use crate::capture::Captured;

#[interface]
trait Hop {
    /// Goes on to the next of the ids, after a pause if `pause` says so.
    async fn go(&mut self, ids: Vec<String>, pause: bool) -> Result<u32>;
    async fn ask(&mut self, pause: bool) -> Result<u32>;
    async fn tick(&mut self) -> Result<()>;
}

#[derive(Actor)]
#[actor(implements(Hop), persistence = "none")]
struct HopActor {
    ctx: Context,
}

impl HopActor {
    async fn ticked(&mut self) -> Result<()> {
        tracing::info!("tick");
        self.ctx.actor::<HopRef>("other")?.ask(false).await.map(drop)
    }
}

impl Hop for HopActor {
    async fn go(&mut self, mut ids: Vec<String>, pause: bool) -> Result<u32> {
        if pause {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        tracing::info!("hop");
        if ids.is_empty() {
            return Ok(0);
        }
        let next = ids.remove(0);
        Ok(1 + self.ctx.actor::<HopRef>(next)?.go(ids, pause).await?)
    }

    async fn ask(&mut self, pause: bool) -> Result<u32> {
        self.ctx.service::<RelayRef>(())?.relay(pause).await
    }

    async fn tick(&mut self) -> Result<()> {
        self.ctx.set_timer("t", Duration::from_secs(1), None, HopActor::ticked).map(drop)
    }
}

#[interface]
trait Relay {
    async fn relay(&self, pause: bool) -> Result<u32>;
}

#[derive(Service)]
#[service(implements(Relay), partitions = singleton)]
struct RelayService {
    seen: Dictionary<u32, u32>,
    state: StateManager,
}

impl Relay for RelayService {
    async fn relay(&self, pause: bool) -> Result<u32> {
        if pause {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        tracing::info!("hop");
        let mut tx = self.state.begin();
        self.seen.set(&mut tx, 1, 1).await?;
        tx.commit().await.map(|_| 1)
    }
}

async fn start() -> TestNode {
    TestNode::start(|node| node.actor::<HopActor>().service::<RelayService>()).await.unwrap()
}

fn turn(id: &str, method: &str) -> String {
    format!("HopActor({id:?}).{method}")
}

#[tokio::test]
async fn a_chain_of_calls_is_nested_spans_whoever_carries_it_out() {
    let (captured, _guard) = Captured::start(Level::DEBUG);
    let node = start().await;
    let (a, ids) = (node.actor::<HopRef>("a").unwrap(), vec!["b".to_owned(), "c".to_owned()]);
    let nested = [turn("a", "go"), turn("b", "go"), turn("c", "go")].join(" > ");
    for (at, pause) in [false, true].into_iter().enumerate() {
        a.go(ids.clone(), pause).await.unwrap();
        let hops = captured.saying("hop");
        assert_eq!(hops.len(), 3 * (at + 1));
        assert_eq!(hops.last().unwrap().path, nested, "pause: {pause}");
        assert_eq!(captured.paths().iter().filter(|path| **path == nested).count(), at + 1);
    }
    // Who waits in line is carried out by who is before; its span is its caller's all the same.
    let call = |name: &'static str| {
        let span = tracing::info_span!("caller");
        let (a, ids) = (a.clone(), vec![name.to_owned()]);
        tokio::spawn(async move { a.go(ids, true).await }.instrument(span))
    };
    for call in [call("x"), call("y"), call("z")] {
        call.await.unwrap().unwrap();
    }
    for name in ["x", "y", "z"] {
        let path = format!("caller > {} > {}", turn("a", "go"), turn(name, "go"));
        assert!(captured.saying("hop").iter().any(|hop| hop.path == path), "{path} is not in {:#?}", captured.paths());
    }
}

#[tokio::test]
async fn a_service_in_between_is_a_part_of_the_chain() {
    let (captured, _guard) = Captured::start(Level::DEBUG);
    let node = start().await;
    let a: HopRef = node.actor("a").unwrap();
    for pause in [false, true] {
        a.ask(pause).await.unwrap();
        let hop = captured.saying("hop").pop().unwrap();
        assert!(hop.path.starts_with(&format!("{} > service RelayService", turn("a", "ask"))), "{}", hop.path);
        assert!(hop.path.ends_with(".relay"), "{}", hop.path);
    }
}

#[tokio::test]
async fn a_timer_has_a_span_and_so_has_what_it_calls() {
    let (captured, _guard) = Captured::start(Level::DEBUG);
    let node = start().await;
    node.actor::<HopRef>("a").unwrap().tick().await.unwrap();
    node.advance(Duration::from_secs(2)).await;
    assert_eq!(captured.saying("tick")[0].path, turn("a", "timer"));
    let hop = captured.saying("hop").pop().unwrap();
    assert!(hop.path.starts_with(&format!("{} > {} > ", turn("a", "timer"), turn("other", "ask"))), "{}", hop.path);
}

#[tokio::test]
async fn without_spans_of_turns_a_method_is_in_the_span_of_its_caller() {
    let (captured, _guard) = Captured::start(Level::INFO);
    let node = start().await;
    let a: HopRef = node.actor("a").unwrap();
    let call = |name: &'static str| {
        let a = a.clone();
        let span = if name == "x" { tracing::info_span!("first") } else { tracing::info_span!("second") };
        tokio::spawn(async move { a.go(vec![name.to_owned()], true).await }.instrument(span))
    };
    for call in [call("x"), call("y")] {
        call.await.unwrap().unwrap();
    }
    let paths: Vec<_> = captured.saying("hop").into_iter().map(|hop| hop.path).collect();
    assert_eq!(paths, ["first", "first", "second", "second"]);
    assert_eq!(captured.paths(), ["first", "second"]);
}
