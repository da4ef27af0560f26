//! The state manager: state under names.
//!
//! Each method is one of the document's samples. A value that was read cannot be changed in place, so that the mistake which
//! the document warns of does not compile; and a save that fails leaves memory as it is stored, so that nothing is believed
//! to be saved that is not.

use mainstay::prelude::*;
use mainstay::testkit::TestNode;

#[interface]
trait MyActor {
    async fn get_count(&self) -> Result<i32>;
    async fn get_count_or_zero(&self) -> Result<i32>;
    async fn set_count(&mut self, value: i32) -> Result<()>;
    async fn add_count(&mut self, value: i32) -> Result<()>;
    async fn try_add_count(&mut self, value: i32) -> Result<bool>;
    /// Keeps the higher one, and saves in the middle of the turn.
    async fn raise_count(&mut self, count: i32) -> Result<i32>;
    async fn remove_count(&mut self) -> Result<()>;
    async fn try_remove_count(&mut self) -> Result<bool>;
    /// Tries to save a change, and tells what is in memory after that.
    async fn set_save_and_look(&mut self, value: i32) -> Result<(bool, i32)>;
    async fn set_and_fail(&mut self, value: i32) -> Result<()>;
}

#[derive(Actor)]
#[actor(implements(MyActor), persistence = "persisted")]
struct MyActorActor {
    ctx: Context,
}

impl MyActor for MyActorActor {
    async fn get_count(&self) -> Result<i32> {
        Ok(*self.ctx.state().get("MyState")?)
    }

    async fn get_count_or_zero(&self) -> Result<i32> {
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

    async fn raise_count(&mut self, count: i32) -> Result<i32> {
        let count = *self.ctx.state_mut().add_or_update("MyState", count, |earlier| count.max(*earlier))?;
        self.save().await?;
        Ok(count)
    }

    async fn remove_count(&mut self) -> Result<()> {
        self.ctx.state_mut().remove("MyState")
    }

    async fn try_remove_count(&mut self) -> Result<bool> {
        self.ctx.state_mut().try_remove("MyState")
    }

    async fn set_save_and_look(&mut self, value: i32) -> Result<(bool, i32)> {
        self.ctx.state_mut().set("MyState", value)?;
        let is_saved = self.save().await.is_ok();
        Ok((is_saved, *self.ctx.state().get("MyState")?))
    }

    async fn set_and_fail(&mut self, value: i32) -> Result<()> {
        self.ctx.state_mut().set("MyState", value)?;
        Err(Error::invalid("on purpose"))
    }
}

async fn start() -> (TestNode, MyActorRef) {
    let node = TestNode::start(|node| node.actor::<MyActorActor>()).await.unwrap();
    let actor = node.actor("a").unwrap();
    (node, actor)
}

#[tokio::test]
async fn a_name_that_is_missing_is_an_error_or_none() {
    let (_node, actor) = start().await;
    assert_eq!(actor.get_count().await.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(actor.get_count_or_zero().await.unwrap(), 0);
    assert_eq!(actor.remove_count().await.unwrap_err().kind(), ErrorKind::NotFound);
    assert!(!actor.try_remove_count().await.unwrap());
}

#[tokio::test]
async fn a_name_is_set_added_and_removed() {
    let (mut node, actor) = start().await;
    actor.set_count(5).await.unwrap();
    assert_eq!(actor.get_count().await.unwrap(), 5);
    assert_eq!(actor.add_count(6).await.unwrap_err().kind(), ErrorKind::Conflict);
    assert!(!actor.try_add_count(6).await.unwrap());
    assert_eq!(actor.get_count().await.unwrap(), 5);
    actor.remove_count().await.unwrap();
    assert!(actor.try_add_count(7).await.unwrap());

    node.kill().await.unwrap();
    let actor: MyActorRef = node.actor("a").unwrap();
    assert_eq!(actor.get_count().await.unwrap(), 7);
    assert!(actor.try_remove_count().await.unwrap());
    actor.add_count(8).await.unwrap();
    assert_eq!(actor.get_count_or_zero().await.unwrap(), 8);
}

#[tokio::test]
async fn the_higher_count_is_kept_and_saved() {
    let (mut node, actor) = start().await;
    for (raised, kept) in [(3, 3), (9, 9), (4, 9)] {
        assert_eq!(actor.raise_count(raised).await.unwrap(), kept);
    }
    node.kill().await.unwrap();
    assert_eq!(node.actor::<MyActorRef>("a").unwrap().get_count().await.unwrap(), 9);
}

#[tokio::test]
async fn what_could_not_be_saved_is_not_believed_to_be() {
    let (node, actor) = start().await;
    actor.set_count(1).await.unwrap();
    node.fail_next_commit();
    assert_eq!(actor.set_save_and_look(2).await.unwrap(), (false, 1));
    assert_eq!(actor.set_save_and_look(3).await.unwrap(), (true, 3));
    actor.set_and_fail(4).await.unwrap_err();
    node.fail_next_commit();
    actor.set_count(5).await.unwrap_err();
    assert_eq!(actor.get_count().await.unwrap(), 3);
}
