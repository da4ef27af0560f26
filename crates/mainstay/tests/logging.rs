//! What a node says in the log while it starts and stops. Alone in its process, because all of it is heard.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "these are tests of applications, which use tokio as it is")]

use std::fmt;
use std::path::Path;
use std::sync::Mutex;

use mainstay::prelude::*;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt as _};

#[interface]
trait Counter {
    async fn add(&mut self, number: u64) -> Result<u64>;
}

#[derive(Actor)]
#[actor(implements(Counter))]
struct CounterActor {
    count: State<u64>,
}

impl Counter for CounterActor {
    async fn add(&mut self, number: u64) -> Result<u64> {
        *self.count += number;
        Ok(*self.count)
    }
}

async fn start(folder: &Path) -> Result<Node> {
    Node::builder().isolated().data_dir(folder).actor::<CounterActor>().start().await
}

async fn add(node: &Node) -> u64 {
    node.actor::<CounterRef>("one").unwrap().add(1).await.unwrap()
}

static SAID: Mutex<Vec<(Level, String)>> = Mutex::new(Vec::new());

struct Listener;

impl<S: Subscriber> Layer<S> for Listener {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        struct Text(String);
        impl Visit for Text {
            fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
                self.0 += &format!("{}={value:?} ", field.name());
            }
        }
        let mut text = Text(format!("{} ", event.metadata().target()));
        event.record(&mut text);
        SAID.lock().unwrap().push((*event.metadata().level(), text.0));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_starts_and_stops_say_little_and_nothing_of_errors() {
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(Listener)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    for expected in 1..=2 {
        let node = start(folder.path()).await.unwrap();
        assert_eq!(add(&node).await, expected);
        node.stop().await;
    }
    let said = std::mem::take(&mut *SAID.lock().unwrap());
    let told: Vec<_> = said.iter().filter(|(level, _)| *level <= Level::INFO).collect();
    assert!(told.iter().all(|(level, _)| *level == Level::INFO), "{told:#?}");
    assert!((4..=12).contains(&told.len()), "{told:#?}");
    for part in ["the node has started", "the node stops", "the node has stopped"] {
        assert_eq!(told.iter().filter(|(_, text)| text.contains(part)).count(), 2, "{part}: {told:#?}");
    }
    assert!(told.iter().all(|(_, text)| !text.starts_with("openraft")), "{told:#?}");
    // What openraft has to say is there for who wants it.
    let of_openraft = said.iter().filter(|(_, text)| text.starts_with("mainstay::openraft"));
    assert!(of_openraft.clone().any(|(level, _)| *level == Level::DEBUG), "{}", said.len());
    assert!(of_openraft.clone().all(|(level, _)| *level > Level::INFO));
}
