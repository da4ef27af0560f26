//! What the conformance page promises and no other topic has: see `docs/conformance.md`.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::time::Duration;

use mainstay::actor::TurnInfo;
use mainstay::prelude::*;
use mainstay::testkit::TestNode;

#[interface]
trait Guest {
    async fn visits(&self) -> Result<u32>;
    async fn stay(&mut self) -> Result<u32>;
}

#[derive(Actor)]
#[actor(implements(Guest))]
struct GuestActor {
    visits: State<u32>,
}

impl Lifecycle for GuestActor {
    async fn activate(&mut self) -> Result<()> {
        tokio::task::yield_now().await;
        *self.visits += 1;
        Ok(())
    }
}

impl Guest for GuestActor {
    async fn visits(&self) -> Result<u32> {
        Ok(*self.visits)
    }

    async fn stay(&mut self) -> Result<u32> {
        Ok(*self.visits)
    }
}

#[test]
fn random_ids_are_numbers_and_apart() {
    let ids: BTreeSet<_> = (0..100).map(|_| ActorId::random().as_number().unwrap()).collect();
    assert_eq!(ids.len(), 100);
}

#[tokio::test]
async fn a_proxy_activates_nobody_and_any_call_does() {
    let node = TestNode::start(|node| node.actor::<GuestActor>()).await.unwrap();
    let guest: GuestRef = node.actor("quiet").unwrap();
    node.advance(Duration::from_secs(1)).await;
    let listed = node.actors::<GuestActor>().unwrap().all().collect().await.unwrap();
    assert_eq!(listed, []);
    guest.visits().await.unwrap();
    let listed = node.actors::<GuestActor>().unwrap().all().collect().await.unwrap();
    assert!(listed.len() == 1 && listed[0].is_active);
}

#[tokio::test]
async fn activation_runs_alone_and_what_it_changes_is_saved() {
    let mut node = TestNode::start(|node| node.actor::<GuestActor>()).await.unwrap();
    for visit in 1..=3 {
        let guest: GuestRef = node.actor("regular").unwrap();
        // Neither sees an actor that is not activated, nor one that is activated twice.
        let (one, two, three) = tokio::join!(guest.visits(), guest.stay(), guest.visits());
        assert_eq!([one.unwrap(), two.unwrap(), three.unwrap()], [visit; 3]);
        node.kill().await.unwrap();
    }
}

#[interface]
trait Gatekeeper {
    async fn open(&mut self) -> Result<()>;
    async fn look(&self) -> Result<u32>;
    async fn forbidden(&mut self) -> Result<()>;
    async fn regretted(&mut self) -> Result<()>;
    async fn opened(&self) -> Result<u32>;
    async fn seen(&self) -> Result<Vec<String>>;
    async fn plan(&mut self) -> Result<()>;
}

#[derive(Actor)]
#[actor(implements(Gatekeeper))]
struct GatekeeperActor {
    opened: State<u32>,
    seen: std::sync::Mutex<Vec<String>>,
    ctx: Context,
}

impl GatekeeperActor {
    fn note(&self, when: &str, turn: TurnInfo) {
        if turn.method != "seen" {
            self.seen.lock().unwrap().push(format!("{when} {}", turn.method));
        }
    }

    async fn tick(&mut self) -> Result<()> {
        *self.opened += 100;
        Ok(())
    }
}

impl Lifecycle for GatekeeperActor {
    async fn before_turn(&self, turn: TurnInfo) -> Result<()> {
        self.note("before", turn);
        if turn.method == "forbidden" {
            return Err(Error::invalid("not today"));
        }
        Ok(())
    }

    async fn after_turn(&self, turn: TurnInfo) -> Result<()> {
        self.note("after", turn);
        if turn.method == "regretted" {
            return Err(Error::invalid("better not"));
        }
        Ok(())
    }
}

impl Remindable for GatekeeperActor {
    async fn remind(&mut self, _: Reminder) -> Result<()> {
        *self.opened += 1000;
        Ok(())
    }
}

impl Gatekeeper for GatekeeperActor {
    async fn open(&mut self) -> Result<()> {
        *self.opened += 1;
        Ok(())
    }

    async fn look(&self) -> Result<u32> {
        Ok(*self.opened)
    }

    async fn forbidden(&mut self) -> Result<()> {
        *self.opened += 10;
        Ok(())
    }

    async fn regretted(&mut self) -> Result<()> {
        *self.opened += 10;
        Ok(())
    }

    async fn opened(&self) -> Result<u32> {
        Ok(*self.opened)
    }

    async fn seen(&self) -> Result<Vec<String>> {
        Ok(std::mem::take(&mut *self.seen.lock().unwrap()))
    }

    async fn plan(&mut self) -> Result<()> {
        self.ctx.set_timer("tick", Duration::from_secs(1), None, Self::tick)?;
        self.ctx.remind("r").after(Duration::from_secs(2)).set()?;
        Ok(())
    }
}

#[tokio::test]
async fn hooks_run_around_every_turn_and_can_refuse_it() {
    let node = TestNode::start(|node| node.actor::<GatekeeperActor>()).await.unwrap();
    let keeper: GatekeeperRef = node.actor(1).unwrap();
    keeper.open().await.unwrap();
    keeper.look().await.unwrap();
    assert_eq!(keeper.seen().await.unwrap(), ["before open", "after open", "before look", "after look"]);
    assert!(keeper.forbidden().await.unwrap_err().to_string().contains("not today"));
    assert!(keeper.regretted().await.unwrap_err().to_string().contains("better not"));
    assert_eq!(keeper.seen().await.unwrap(), ["before forbidden", "before regretted", "after regretted"]);
    assert_eq!(keeper.opened().await.unwrap(), 1, "neither has changed anything");
    keeper.seen().await.unwrap();

    keeper.plan().await.unwrap();
    node.advance(Duration::from_secs(3)).await;
    let seen = keeper.seen().await.unwrap();
    assert_eq!(seen[2..], ["before timer", "after timer", "before remind", "after remind"]);
    assert_eq!(keeper.opened().await.unwrap(), 1101);
}

thread_local! {
    // Of this test alone, which runs on a thread of its own.
    static OPEN_FAILS: Cell<u32> = const { Cell::new(0) };
}

#[interface]
trait Shop {
    async fn sold(&mut self) -> Result<u32>;
    async fn try_other(&mut self) -> Result<u32>;
    async fn fail(&mut self) -> Result<()>;
    async fn set_timer(&mut self) -> Result<()>;
    async fn name(&mut self, name: String) -> Result<()>;
    async fn unname(&mut self, name: String) -> Result<()>;
}

#[derive(Actor)]
#[actor(implements(Shop))]
struct ShopActor {
    sold: State<u32>,
    ctx: Context,
}

impl Lifecycle for ShopActor {
    async fn activate(&mut self) -> Result<()> {
        let is_failing = OPEN_FAILS.get().checked_sub(1).map(|left| OPEN_FAILS.set(left));
        match is_failing {
            Some(()) if self.ctx.id().as_text() == Some("closed") => Err(Error::invalid("the door is stuck")),
            _ => Ok(()),
        }
    }
}

impl ShopActor {
    async fn tick(&mut self) -> Result<()> {
        *self.sold += 1;
        Ok(())
    }
}

impl Shop for ShopActor {
    async fn sold(&mut self) -> Result<u32> {
        *self.sold += 1;
        Ok(*self.sold)
    }

    async fn try_other(&mut self) -> Result<u32> {
        *self.sold += 1;
        let other = self.ctx.actor::<ShopRef>("other")?.fail().await;
        assert!(other.is_err());
        Ok(*self.sold)
    }

    async fn fail(&mut self) -> Result<()> {
        Err(Error::invalid("sold out"))
    }

    async fn set_timer(&mut self) -> Result<()> {
        let minute = Duration::from_secs(60);
        self.ctx.set_timer("tick", minute, Some(minute), Self::tick).map(drop)
    }

    async fn name(&mut self, name: String) -> Result<()> {
        self.ctx.state_mut().set(&name, 1)
    }

    async fn unname(&mut self, name: String) -> Result<()> {
        self.ctx.state_mut().remove(&name)
    }
}

async fn shops() -> TestNode {
    TestNode::start(|node| node.actor::<ShopActor>()).await.unwrap()
}

#[tokio::test]
async fn an_activation_that_fails_fails_its_call_and_the_next_tries_again() {
    let node = shops().await;
    let shop: ShopRef = node.actor("closed").unwrap();
    OPEN_FAILS.set(1);
    let error = shop.sold().await.unwrap_err();
    assert!(error.to_string().contains("ShopActor(\"closed\") cannot be activated: the door is stuck"), "{error}");
    assert_eq!(shop.sold().await.unwrap(), 1);
}

#[tokio::test]
async fn an_error_of_another_actor_that_is_handled_takes_nothing_back() {
    let mut node = shops().await;
    assert_eq!(node.actor::<ShopRef>("one").unwrap().try_other().await.unwrap(), 1);
    node.kill().await.unwrap();
    assert_eq!(node.actor::<ShopRef>("one").unwrap().sold().await.unwrap(), 2);
}

#[tokio::test]
async fn a_timer_does_not_keep_an_actor_in_memory() {
    let node = shops().await;
    let shop: ShopRef = node.actor("timed").unwrap();
    shop.set_timer().await.unwrap();
    node.advance(Duration::from_secs(2 * 60 * 60)).await;
    let listed = node.actors::<ShopActor>().unwrap().all().collect().await.unwrap();
    assert!(listed.len() == 1 && !listed[0].is_active);
    let sold = shop.sold().await.unwrap();
    assert!((50..=75).contains(&sold), "it ran every minute until the actor left after about an hour: {sold}");
}

#[tokio::test]
async fn an_actor_without_state_is_still_there_until_it_is_deleted() {
    let node = shops().await;
    let shop: ShopRef = node.actor("empty").unwrap();
    shop.name("x".into()).await.unwrap();
    shop.unname("x".into()).await.unwrap();
    let listed = || async { node.actors::<ShopActor>().unwrap().all().collect().await.unwrap().len() };
    assert_eq!(listed().await, 1);
    shop.delete_actor().await.unwrap();
    assert_eq!(listed().await, 0);
}
