//! Actors of a library whose users bring the types, and things of the process that objects are given.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fmt::Display;

use mainstay::prelude::*;
use mainstay::testkit::TestNode;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// What a user of the library says of a kind of thing.
trait Kind: Send + Sync + 'static {
    const NAME: &'static str;
    type Item: Serialize + DeserializeOwned + Default + Clone + Display + Send + Sync + 'static;
}

#[interface]
trait Shelf<K: Kind, const LIMIT: usize>
where
    K::Item: PartialEq,
{
    async fn put(&mut self, item: K::Item) -> Result<usize>;
    async fn has(&self, item: K::Item) -> Result<bool>;
    async fn label(&self) -> Result<String>;
}

#[derive(Actor)]
#[actor(implements(Shelf<K, 2>), name = K::NAME)]
struct ShelfActor<K: Kind>
where
    K::Item: PartialEq,
{
    items: State<Vec<K::Item>>,
    activations: State<u32>,
    labels: Provided<Labels>,
    ctx: Context,
}

struct Labels(BTreeMap<&'static str, &'static str>);

impl<K: Kind> Lifecycle for ShelfActor<K>
where
    K::Item: PartialEq,
{
    async fn activate(&mut self) -> Result<()> {
        *self.activations += 1;
        Ok(())
    }
}

impl<K: Kind> Shelf<K, 2> for ShelfActor<K>
where
    K::Item: PartialEq,
{
    async fn put(&mut self, item: K::Item) -> Result<usize> {
        if self.items.len() == 2 {
            return Err(Error::new(ErrorKind::Overloaded, format!("{item} does not fit")));
        }
        self.items.push(item);
        Ok(self.items.len())
    }

    async fn has(&self, item: K::Item) -> Result<bool> {
        Ok(self.items.contains(&item))
    }

    async fn label(&self) -> Result<String> {
        let label = self.labels.0.get(K::NAME).copied().unwrap_or("none");
        Ok(format!("{label} {} {}", self.ctx.service_name(), *self.activations))
    }
}

struct Books;

impl Kind for Books {
    const NAME: &'static str = "books";
    type Item = String;
}

struct Jars;

impl Kind for Jars {
    const NAME: &'static str = "jars";
    type Item = u32;
}

fn labels() -> Labels {
    Labels(BTreeMap::from([("books", "read me"), ("jars", "eat me")]))
}

#[tokio::test]
async fn a_generic_actor_is_an_actor_for_each_type() {
    let mut node =
        TestNode::start(|node| node.provide(labels()).actor::<ShelfActor<Books>>().actor::<ShelfActor<Jars>>())
            .await
            .unwrap();
    let books: ShelfRef<Books, 2> = node.actor("hall").unwrap();
    let jars: ShelfRef<Jars, 2> = node.actor("hall").unwrap();
    assert_eq!(books.put("Dune".into()).await.unwrap(), 1);
    assert_eq!(jars.put(7).await.unwrap(), 1);
    assert_eq!(jars.clone().put(8).await.unwrap(), 2);
    assert_eq!(jars.put(9).await.unwrap_err().to_string(), "9 does not fit");
    assert!(books.has("Dune".into()).await.unwrap());
    assert!(!books.has("Emma".into()).await.unwrap());
    assert_eq!(books.label().await.unwrap(), "read me books 1");
    assert_eq!(jars.label().await.unwrap(), "eat me jars 1");
    node.kill().await.unwrap();
    let (books, jars): (ShelfRef<Books, 2>, ShelfRef<Jars, 2>) =
        (node.actor_named("books", "hall").unwrap(), node.actor("hall").unwrap());
    assert!(books.has("Dune".into()).await.unwrap());
    assert!(jars.has(8).await.unwrap());
    assert_eq!(books.label().await.unwrap(), "read me books 2");
    let other = node.actor_named::<ShelfRef<Books, 2>>("jars", "hall").unwrap_err();
    assert!(other.to_string().contains("does not implement Shelf"), "{other}");
}

#[tokio::test]
async fn what_nobody_provided_is_named_by_the_call_that_needs_it() {
    let node = TestNode::start(|node| node.actor::<ShelfActor<Books>>()).await.unwrap();
    let error = node.actor::<ShelfRef<Books, 2>>(1).unwrap().label().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(format!("{error:?}").contains("is not provided by this node"), "{error:?}");
    assert!(format!("{error:?}").contains("Labels"), "{error:?}");
}

#[tokio::test]
async fn what_is_provided_twice_is_refused() {
    let error = TestNode::start(|node| node.provide(1_u8).provide(2_u8)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("`u8` is provided twice"), "{error}");
}

#[interface]
trait Greeting {
    async fn greet(&self) -> Result<String>;
}

#[derive(Service)]
#[service(implements(Greeting), partitions = singleton)]
struct Greeter {
    word: Provided<String>,
    ctx: ServiceContext,
}

impl Greeting for Greeter {
    async fn greet(&self) -> Result<String> {
        Ok(format!("{} {}", *self.word, self.ctx.provided::<u8>()?))
    }
}

#[derive(Worker)]
#[worker(implements(Greeting))]
struct GreetingWorker {
    ctx: WorkerContext,
}

impl Greeting for GreetingWorker {
    async fn greet(&self) -> Result<String> {
        Ok(self.ctx.provided::<String>()?.to_uppercase())
    }
}

#[tokio::test]
async fn services_and_workers_are_given_it_too() {
    let set_up = |node: mainstay::node::NodeBuilder| {
        node.provide("hello".to_owned()).provide(3_u8).service::<Greeter>().worker::<GreetingWorker>()
    };
    let node = TestNode::start(set_up).await.unwrap();
    assert_eq!(node.service::<GreetingRef>(()).unwrap().greet().await.unwrap(), "hello 3");
    assert_eq!(node.worker::<GreetingRef>().unwrap().greet().await.unwrap(), "HELLO");
    assert_eq!(*node.services().provided::<u8>().unwrap(), 3);
}
