//! The levels of persistence, and what is set for them unless told otherwise.
//!
//! The document's manifest has at least 2 of 3 replicas, with which a set that has lost one cannot lose another and recover.
//! Here it is 3 of 3, and 2 is refused.

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
        [(NAMES[0], Level::Persisted, 3), (NAMES[1], Level::Volatile, 3), (NAMES[2], Level::None, 1)]
    {
        let service = settings.service(name).unwrap();
        assert_eq!((service.level.value, service.partitioning.value.count()), (level, 10));
        assert_eq!((service.replicas.min, service.replicas.target), (replicas, replicas));
    }
    let set = |key: &str, value: &str| builder().set(format!("services.PersistedActor.{key}"), value).settings();
    set("replicas.target", "5").unwrap();
    let error = set("replicas.min", "2").unwrap_err();
    assert!(error.to_string().contains("replicas.min"), "{error}");
}
