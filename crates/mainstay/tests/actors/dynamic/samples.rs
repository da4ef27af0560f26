//! The samples of the original's page on the state of actors, at each of the three levels.

use mainstay::prelude::*;
use mainstay::testkit::TestNode;

#[interface]
trait MyInterface {
    /// `GetStateAsync`
    async fn count(&self) -> Result<i32>;
    /// `TryGetStateAsync`
    async fn count_or_zero(&self) -> Result<i32>;
    /// `SetStateAsync`
    async fn set_count(&mut self, value: i32) -> Result<()>;
    /// `AddStateAsync`
    async fn add_count(&mut self, value: i32) -> Result<()>;
    /// `TryAddStateAsync`
    async fn try_add_count(&mut self, value: i32) -> Result<bool>;
    /// `AddOrUpdateStateAsync` and `SaveStateAsync`
    async fn raise_count(&mut self, count: i32) -> Result<()>;
    /// `RemoveStateAsync`
    async fn remove_count(&mut self) -> Result<()>;
    /// `TryRemoveStateAsync`
    async fn try_remove_count(&mut self) -> Result<bool>;
}

macro_rules! my_actor {
    ($name:ident, $level:literal) => {
        #[derive(Actor)]
        #[actor(implements(MyInterface), persistence = $level)]
        struct $name {
            ctx: Context,
        }

        impl MyInterface for $name {
            async fn count(&self) -> Result<i32> {
                Ok(*self.ctx.state().get("MyState")?)
            }

            async fn count_or_zero(&self) -> Result<i32> {
                Ok(self.ctx.state().try_get("MyState")?.map_or(0, |count| *count))
            }

            async fn set_count(&mut self, value: i32) -> Result<()> {
                self.ctx.state_mut().set("MyState", value)
            }

            async fn add_count(&mut self, value: i32) -> Result<()> {
                self.ctx.state_mut().add("MyState", value)
            }

            async fn try_add_count(&mut self, value: i32) -> Result<bool> {
                self.ctx.state_mut().try_add("MyState", value)
            }

            async fn raise_count(&mut self, count: i32) -> Result<()> {
                self.ctx.state_mut().add_or_update("MyState", count, |value| count.max(*value))?;
                self.save().await
            }

            async fn remove_count(&mut self) -> Result<()> {
                self.ctx.state_mut().remove("MyState")
            }

            async fn try_remove_count(&mut self) -> Result<bool> {
                self.ctx.state_mut().try_remove("MyState")
            }
        }
    };
}

my_actor!(Persisted, "persisted");
my_actor!(Volatile, "volatile");
my_actor!(Nowhere, "none");

#[tokio::test]
async fn each_sample_does_what_its_page_says() {
    let mut node =
        TestNode::start(|node| node.actor::<Persisted>().actor::<Volatile>().actor::<Nowhere>()).await.unwrap();
    for level in ["Persisted", "Volatile", "Nowhere"] {
        let actor: MyInterfaceRef = node.actor_named(level, 1).unwrap();
        assert_eq!(actor.count().await.unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(actor.count_or_zero().await.unwrap(), 0);
        assert_eq!(actor.remove_count().await.unwrap_err().kind(), ErrorKind::NotFound);
        assert!(!actor.try_remove_count().await.unwrap());
        actor.add_count(3).await.unwrap();
        assert_eq!(actor.add_count(4).await.unwrap_err().kind(), ErrorKind::Conflict);
        assert!(!actor.try_add_count(5).await.unwrap());
        assert_eq!(actor.count().await.unwrap(), 3);
        actor.set_count(6).await.unwrap();
        assert_eq!(actor.count_or_zero().await.unwrap(), 6);
        assert!(actor.try_remove_count().await.unwrap());
        assert!(actor.try_add_count(7).await.unwrap());
        actor.remove_count().await.unwrap();
        actor.raise_count(8).await.unwrap();
        actor.raise_count(2).await.unwrap();
        assert_eq!(actor.count().await.unwrap(), 8);
    }
    node.kill().await.unwrap();
    for (level, count) in [("Persisted", 8), ("Volatile", 0), ("Nowhere", 0)] {
        let actor: MyInterfaceRef = node.actor_named(level, 1).unwrap();
        assert_eq!(actor.count_or_zero().await.unwrap(), count, "{level}");
    }
}
