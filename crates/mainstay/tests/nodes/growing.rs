use std::path::Path;
use std::time::Duration;

use mainstay::node::ClusterOptions;
use mainstay::prelude::*;

#[interface]
pub trait Counter {
    async fn count(&self) -> Result<i64>;
    async fn add(&mut self, n: i64) -> Result<i64>;
}

#[derive(Actor)]
#[actor(implements(Counter), persistence = "persisted")]
pub(crate) struct CounterActor {
    count: State<i64>,
}

impl Counter for CounterActor {
    async fn count(&self) -> Result<i64> {
        Ok(*self.count)
    }

    async fn add(&mut self, n: i64) -> Result<i64> {
        *self.count += n;
        Ok(*self.count)
    }
}

const ACTORS: i64 = 40;

/// Waits until every set has so many voters.
async fn settled(node: &Node, voters: usize) {
    let is_settled = || {
        let cluster = node.cluster().unwrap();
        cluster.is_settled() && cluster.sets.iter().all(|set| set.voters.len() == voters)
    };
    let settled = async {
        while !is_settled() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(60), settled).await;
    assert!(waited.is_ok(), "{:#?}", node.cluster());
}

async fn start(folder: &Path, seeds: &[String]) -> Node {
    let options = ClusterOptions::from_settings().listen("127.0.0.1:0".parse().unwrap()).seeds(seeds.iter().cloned());
    Node::builder().isolated().data_dir(folder).cluster(options).actor::<CounterActor>().start().await.unwrap()
}

fn counter(node: &Node, id: i64) -> CounterRef {
    CounterRef::of(node, id).unwrap().with_timeout(Duration::from_secs(30))
}

async fn add_all(node: &Node) {
    for id in 0..ACTORS {
        counter(node, id).add(1).await.unwrap();
    }
}

async fn check_all(node: &Node, expected: i64) {
    for id in 0..ACTORS {
        assert_eq!(counter(node, id).count().await.unwrap(), expected, "actor {id}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_of_one_node_becomes_three_nodes_and_outlives_the_first() {
    let folders: Vec<_> = (0..3).map(|_| tempfile::tempdir().unwrap()).collect();
    let alone = Node::builder().isolated().data_dir(folders[0].path()).actor::<CounterActor>().start().await.unwrap();
    add_all(&alone).await;
    alone.stop().await;

    let first = start(folders[0].path(), &[]).await;
    check_all(&first, 1).await;
    let seeds = [first.cluster_address().unwrap().to_string()];
    let second = start(folders[1].path(), &seeds).await;
    add_all(&second).await;
    let third = start(folders[2].path(), &seeds).await;
    add_all(&third).await;
    check_all(&first, 3).await;
    settled(&first, 3).await;
    drop(first);
    add_all(&second).await;
    check_all(&third, 4).await;
}
