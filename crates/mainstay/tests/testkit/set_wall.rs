//! A wall clock that is set back.

use std::time::Duration;

use mainstay::prelude::*;
use mainstay::testkit::TestNode;

#[interface]
trait Hanging {
    /// Sets a reminder, and has the actor hang from the next turn on.
    async fn hang(&mut self) -> Result<()>;
    async fn ping(&mut self) -> Result<()>;
}

#[derive(Actor)]
#[actor(implements(Hanging))]
struct HangingActor {
    ctx: Context,
}

impl HangingActor {
    async fn never(&mut self) -> Result<()> {
        std::future::pending().await
    }
}

impl Hanging for HangingActor {
    async fn hang(&mut self) -> Result<()> {
        self.ctx.remind("later").after(Duration::from_secs(60 * 60)).set()?;
        self.ctx.set_timer("hang", Duration::from_secs(1), None, Self::never).map(drop)
    }

    async fn ping(&mut self) -> Result<()> {
        Ok(())
    }
}

impl Remindable for HangingActor {
    async fn remind(&mut self, _: Reminder) -> Result<()> {
        Ok(())
    }
}

/// What brings reminders forward tries again and again, and each try waits in line behind what hangs.
#[tokio::test]
async fn tries_to_bring_a_reminder_forward_do_not_fill_the_mailbox_of_an_actor_that_hangs() {
    let node = TestNode::start(|node| node.actor::<HangingActor>().actor_defaults(|settings| settings.mailbox = 4))
        .await
        .unwrap();
    let hanging: HangingRef = node.actor("one").unwrap();
    hanging.hang().await.unwrap();
    node.advance(Duration::from_secs(2)).await;
    node.set_wall(mainstay::actor::wall().saturating_sub(Duration::from_secs(2 * 60 * 60)));
    node.advance(Duration::from_secs(20 * 60)).await;
    let waiting = tokio::time::timeout(Duration::from_secs(1), hanging.ping()).await;
    assert!(waiting.is_err(), "a call waits in line and is not refused: {waiting:?}");
}
