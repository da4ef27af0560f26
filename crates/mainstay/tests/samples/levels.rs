//! The levels of persistence, and what is set for them unless told otherwise.
//!
//! The document's manifest has 10 partitions and at least 2 of 3 replicas. Both are the defaults here. One node has one replica
//! of everything, and says so.

use mainstay::prelude::*;
use mainstay::testkit::TestNode;

#[interface]
trait MyActor {
    async fn set(&mut self, value: u32) -> Result<()>;
    async fn get(&self) -> Result<u32>;
}

macro_rules! actor {
    ($name:ident, $level:literal) => {
        #[derive(Actor)]
        #[actor(implements(MyActor), persistence = $level)]
        struct $name {
            value: State<u32>,
        }

        impl MyActor for $name {
            async fn set(&mut self, value: u32) -> Result<()> {
                *self.value = value;
                Ok(())
            }

            async fn get(&self) -> Result<u32> {
                Ok(*self.value)
            }
        }
    };
}

actor!(PersistedActor, "persisted");
actor!(VolatileActor, "volatile");
actor!(NoneActor, "none");

const NAMES: [&str; 3] = ["PersistedActor", "VolatileActor", "NoneActor"];

#[tokio::test]
async fn what_survives_follows_from_the_level() {
    let set_up = |node: mainstay::node::NodeBuilder| {
        node.actor::<PersistedActor>().actor::<VolatileActor>().actor::<NoneActor>()
    };
    let mut node = TestNode::start(set_up).await.unwrap();
    for name in NAMES {
        node.actor_named::<MyActorRef>(name, 1).unwrap().set(7).await.unwrap();
    }
    node.kill().await.unwrap();
    let mut kept = Vec::new();
    for name in NAMES {
        kept.push(node.actor_named::<MyActorRef>(name, 1).unwrap().get().await.unwrap());
    }
    // There is one node, and so one replica of what is only in memory.
    assert_eq!(kept, [7, 0, 0]);
}

#[test]
fn replicas_and_partitions_follow_from_the_level() {
    let builder = || Node::builder().isolated().actor::<PersistedActor>().actor::<VolatileActor>().actor::<NoneActor>();
    let settings = builder().settings().unwrap();
    for (name, level, replicas) in
        [(NAMES[0], Level::Persisted, (2, 3)), (NAMES[1], Level::Volatile, (2, 3)), (NAMES[2], Level::None, (1, 1))]
    {
        let service = settings.service(name).unwrap();
        assert_eq!((service.level.value, service.partitioning.value.count()), (level, 10));
        assert_eq!((service.replicas.min, service.replicas.target), replicas);
    }
    let set = |key: &str, value: &str| builder().set(format!("services.PersistedActor.{key}"), value).settings();
    set("replicas.target", "5").unwrap();
    set("replicas.min", "3").unwrap();
    let error = set("replicas.min", "1").unwrap_err();
    assert!(error.to_string().contains("replicas.min"), "{error}");
}

/// The parameters of the document's manifest, as a file: the service starts, works, survives a kill, and is as if nothing
/// had been set.
#[tokio::test]
async fn the_manifest_of_the_document_is_taken_as_written() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mainstay.toml");
    let manifest = "[services.PersistedActor]\npartitions = 10\nreplicas.min = 2\nreplicas.target = 3\n";
    std::fs::write(&file, manifest).unwrap();
    let mut node = TestNode::start(move |node| node.actor::<PersistedActor>().config_file(&file)).await.unwrap();
    let defaults = Node::builder().isolated().actor::<PersistedActor>().settings().unwrap();
    let by_default = defaults.service(NAMES[0]).unwrap();
    let taken = node.settings().service(NAMES[0]).unwrap();
    assert_eq!((taken.replicas.min, taken.replicas.target), (2, 3));
    assert_eq!(taken.replicas, by_default.replicas);
    assert_eq!(taken.partitioning.value, by_default.partitioning.value);
    for id in 0..20 {
        node.actor::<MyActorRef>(id).unwrap().set(7).await.unwrap();
    }
    node.kill().await.unwrap();
    for id in 0..20 {
        assert_eq!(node.actor::<MyActorRef>(id).unwrap().get().await.unwrap(), 7);
    }
}
