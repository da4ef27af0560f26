//! A node that is stopped or dropped, and started again in the same process: who holds its folder, and how much that takes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "these are tests of applications, which use tokio as it is")]

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use mainstay::prelude::*;

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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_was_dropped_is_waited_for_by_the_next() {
    let folder = tempfile::tempdir().unwrap();
    for expected in 1..=20 {
        let node = start(folder.path()).await.unwrap_or_else(|error| panic!("start {expected}: {error}"));
        assert_eq!(add(&node).await, expected);
        drop(node);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_that_is_in_use_names_its_holder() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path()).await.unwrap();
    let refused = start(folder.path()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict);
    assert!(refused.to_string().contains("a node of this process that is still running or stopping"), "{refused}");
    node.stop().await;
    start(folder.path()).await.unwrap().stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_wrong_with_a_folder_is_told_by_the_name_of_its_setting() {
    let folder = tempfile::tempdir().unwrap();
    let (file, used) = (folder.path().join("file"), folder.path().join("used"));
    std::fs::write(&file, "no folder").unwrap();
    let node = start(&used).await.unwrap();
    for (wrong, kind) in
        [(file.clone(), ErrorKind::Invalid), (file.join("below"), ErrorKind::Invalid), (used, ErrorKind::Conflict)]
    {
        let error = start(&wrong).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().starts_with(&format!("data_dir {}: ", wrong.display())), "{error}");
    }
    node.stop().await;
}

/// The bytes that a folder takes on its disk.
fn disk_bytes(folder: &Path) -> u64 {
    std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| {
            let (path, found) = {
                let entry = entry.unwrap();
                (entry.path(), entry.metadata().unwrap())
            };
            found.blocks() * 512 + if found.is_dir() { disk_bytes(&path) } else { 0 }
        })
        .sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_with_one_counter_is_small() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path()).await.unwrap();
    assert_eq!(add(&node).await, 1);
    node.stop().await;
    let bytes = disk_bytes(folder.path());
    assert!(bytes < 8 << 20, "{bytes} bytes for one counter");
}
