//! An actor that is made by hand.

use std::time::Duration;

use mainstay::prelude::*;
use mainstay::testkit::TestNode;

#[derive(Debug, Clone, Event, serde::Serialize, serde::Deserialize)]
struct Rang;

#[interface]
trait Bell {
    async fn ring(&mut self, times: u32) -> Result<u32>;
    async fn note(&mut self, name: String, value: u32) -> Result<Vec<String>>;
    async fn ask_another(&mut self) -> Result<u32>;
    async fn ring_later(&mut self) -> Result<()>;
    async fn set_reminder(&mut self) -> Result<()>;
    async fn wait(&mut self) -> Result<()>;
    async fn publish(&mut self) -> Result<()>;
    async fn listen(&mut self) -> Result<()>;
    async fn keep(&mut self) -> Result<()>;
    async fn delete(&mut self) -> Result<()>;
    async fn list(&mut self) -> Result<()>;
    async fn replace_count(&mut self) -> Result<()>;
    async fn replace_log(&mut self) -> Result<()>;
}

#[derive(Actor)]
#[actor(implements(Bell))]
struct BellActor {
    count: State<u32>,
    log: Paged<Vec<u32>>,
    step: Provided<u32>,
    ctx: Context,
}

impl Bell for BellActor {
    async fn ring(&mut self, times: u32) -> Result<u32> {
        *self.count += times * *self.step;
        self.log.get_mut()?.push(times);
        Ok(*self.count)
    }

    async fn note(&mut self, name: String, value: u32) -> Result<Vec<String>> {
        self.ctx.state_mut().set(&name, value)?;
        assert_eq!(*self.ctx.state().get::<u32>(&name)?, value);
        self.ctx.state().names()
    }

    async fn ask_another(&mut self) -> Result<u32> {
        self.ctx.actor::<BellRef>(8)?.ring(1).await
    }

    async fn ring_later(&mut self) -> Result<()> {
        let ring = async |bell: &mut BellActor| bell.ring(1).await.map(drop);
        self.ctx.set_timer("ring", Duration::from_secs(1), None, ring).map(drop)
    }

    async fn set_reminder(&mut self) -> Result<()> {
        self.ctx.remind("ring").after(Duration::from_secs(1)).set().map(drop)
    }

    async fn wait(&mut self) -> Result<()> {
        self.ctx.then(std::future::ready(1), async |bell: &mut BellActor, times| bell.ring(times).await.map(drop))
    }

    async fn publish(&mut self) -> Result<()> {
        self.ctx.publish(Rang)
    }

    async fn listen(&mut self) -> Result<()> {
        let other: BellRef = self.ctx.actor(8)?;
        self.ctx.subscribe(&other, async |_: &mut BellActor, _: Received<Rang>| Ok(()))
    }

    async fn keep(&mut self) -> Result<()> {
        self.save().await
    }

    async fn delete(&mut self) -> Result<()> {
        self.ctx.delete()
    }

    async fn list(&mut self) -> Result<()> {
        self.ctx.actors::<BellActor>().map(drop)
    }

    async fn replace_count(&mut self) -> Result<()> {
        self.count = State::new(7);
        Ok(())
    }

    async fn replace_log(&mut self) -> Result<()> {
        self.log = Paged::new(vec![7]);
        Ok(())
    }
}

fn bell() -> BellActor {
    BellActor {
        count: State::new(2),
        log: Paged::new(vec![2]),
        step: Provided::new(10),
        ctx: Context::for_tests("bell"),
    }
}

#[tokio::test]
async fn the_methods_of_an_actor_run_without_a_node() {
    let mut bell = bell();
    assert_eq!(bell.ctx.id(), &ActorId::from("bell"));
    assert!(!State::is_changed(&bell.count));
    assert_eq!(bell.ring(3).await.unwrap(), 32);
    assert!(State::is_changed(&bell.count));
    assert_eq!(bell.log.get().unwrap(), &[2, 3]);
    bell.note("b".into(), 1).await.unwrap();
    assert_eq!(bell.note("a".into(), 2).await.unwrap(), ["a", "b"]);
    assert_eq!(bell.ctx.state().try_get::<u32>("c").unwrap(), None);
    bell.ctx.deactivate();
}

#[test]
fn an_actor_is_made_where_there_is_no_runtime() {
    let bell = bell();
    assert_eq!((*bell.count, bell.ctx.level()), (2, Level::None));
}

#[tokio::test]
async fn what_needs_a_node_is_refused_and_says_so() {
    let mut bell = bell();
    let refused = [
        bell.ask_another().await.unwrap_err(),
        bell.ring_later().await.unwrap_err(),
        bell.set_reminder().await.unwrap_err(),
        bell.wait().await.unwrap_err(),
        bell.publish().await.unwrap_err(),
        bell.listen().await.unwrap_err(),
        bell.delete().await.unwrap_err(),
        bell.list().await.unwrap_err(),
    ];
    for error in refused {
        let is_clear = error.kind() == ErrorKind::Invalid && error.to_string().contains("TestNode");
        assert!(is_clear, "{error}");
    }
    let error = bell.keep().await.unwrap_err();
    assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains("in its turn"), "{error}");
    assert_eq!(*bell.count, 2, "and nothing has changed");
}

#[tokio::test]
async fn a_field_of_a_test_is_not_taken_for_one_of_a_node() {
    let node = TestNode::start(|node| node.actor::<BellActor>().provide(1_u32)).await.unwrap();
    let bell: BellRef = node.actor(1).unwrap();
    assert_eq!(bell.ring(1).await.unwrap(), 1);
    for error in [bell.replace_count().await.unwrap_err(), bell.replace_log().await.unwrap_err()] {
        let is_clear = error.kind() == ErrorKind::Invalid && error.to_string().contains("which is not stored");
        assert!(is_clear, "{error}");
    }
    assert_eq!(bell.ring(1).await.unwrap(), 2, "nothing was lost");
}
