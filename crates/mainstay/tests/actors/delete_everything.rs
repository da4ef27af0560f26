//! Whatever is stored of an actor goes when it is deleted, however it got there and however much it is.

use std::time::Duration;

use mainstay::prelude::*;
use mainstay::testkit::TestNode;
use mainstay_core::{task, time};

use crate::lives::{Alive, lives};

#[interface]
trait Diary {
    async fn look(&self, seconds: u64) -> Result<()>;
    async fn remind_later(&self) -> Result<()>;
    async fn announce(&self) -> Result<()>;
    async fn note(&mut self, text: String) -> Result<u64>;
    async fn notes(&self) -> Result<u64>;
    async fn remind_at(&mut self, from: u64, to: u64) -> Result<()>;
    async fn cancel(&mut self, number: u64) -> Result<bool>;
    async fn remember(&mut self, from: u64, to: u64) -> Result<()>;
    async fn end(&mut self) -> Result<u64>;
}

#[derive(Event, Clone, serde::Serialize, serde::Deserialize)]
struct Opened;

#[derive(Actor)]
#[actor(implements(Diary), partitions = 1)]
struct DiaryActor {
    notes: State<u64>,
    alive: Option<Alive>,
    ctx: Context,
}

impl Lifecycle for DiaryActor {
    async fn activate(&mut self) -> Result<()> {
        self.alive = Some(Alive::new(self.ctx.id()));
        Ok(())
    }
}

impl Remindable for DiaryActor {
    async fn remind(&mut self, _: Reminder) -> Result<()> {
        Ok(())
    }
}

impl Diary for DiaryActor {
    async fn look(&self, seconds: u64) -> Result<()> {
        time::sleep(Duration::from_secs(seconds)).await;
        Ok(())
    }

    async fn remind_later(&self) -> Result<()> {
        self.ctx.remind("later").after(Duration::from_secs(3600)).set().map(drop)
    }

    async fn announce(&self) -> Result<()> {
        self.ctx.publish(Opened)
    }

    async fn note(&mut self, _: String) -> Result<u64> {
        *self.notes += 1;
        Ok(*self.notes)
    }

    async fn notes(&self) -> Result<u64> {
        Ok(*self.notes)
    }

    async fn remind_at(&mut self, from: u64, to: u64) -> Result<()> {
        for number in from..to {
            self.ctx.remind(&number.to_string()).after(Duration::from_secs(3600 + number)).set()?;
        }
        Ok(())
    }

    async fn cancel(&mut self, number: u64) -> Result<bool> {
        self.ctx.cancel_reminder(&number.to_string())
    }

    async fn remember(&mut self, from: u64, to: u64) -> Result<()> {
        for number in from..to {
            self.ctx.state_mut().set(&format!("{number}"), number)?;
        }
        Ok(())
    }

    async fn end(&mut self) -> Result<u64> {
        self.ctx.delete()?;
        Ok(*self.notes)
    }
}

async fn listed(node: &TestNode) -> usize {
    node.actors::<DiaryActor>().unwrap().all().collect().await.unwrap().len()
}

async fn reminders(node: &TestNode) -> usize {
    node.actors::<DiaryActor>().unwrap().all_reminders().collect().await.unwrap().len()
}

#[tokio::test]
async fn whatever_is_stored_first_makes_an_actor_known() {
    for what in ["known by a reminder", "known by an event"] {
        let mut node = TestNode::start(|node| node.actor::<DiaryActor>()).await.unwrap();
        let diary: DiaryRef = node.actor(what).unwrap();
        let looking = task::spawn({
            let diary = diary.clone();
            async move { diary.look(60).await }
        });
        time::sleep(Duration::from_millis(1)).await;
        match what {
            "known by a reminder" => diary.remind_later().await.unwrap(),
            _ => diary.announce().await.unwrap(),
        }
        node.kill().await.unwrap();
        looking.await.unwrap().unwrap_err();
        assert_eq!(listed(&node).await, 1, "{what}");
        let diary: DiaryRef = node.actor(what).unwrap();
        diary.delete_actor().await.unwrap();
        assert_eq!((listed(&node).await, reminders(&node).await), (0, 0), "{what}");
        let activated = lives(ActorId::from(what)).activated;
        node.advance(Duration::from_secs(2 * 3600)).await;
        assert_eq!((listed(&node).await, lives(ActorId::from(what)).activated), (0, activated), "{what}");
    }
}

#[tokio::test]
async fn the_answer_of_the_call_in_which_an_actor_ended_goes_with_a_deletion_too() {
    let node = TestNode::start(|node| node.actor::<DiaryActor>()).await.unwrap();
    let diary: DiaryRef = node.actor("ended").unwrap();
    diary.note("first".into()).await.unwrap();
    assert_eq!(diary.idempotent("end").end().await.unwrap(), 1);
    assert_eq!(diary.idempotent("end").end().await.unwrap(), 1, "it is answered as before, and makes no new one");
    assert_eq!(listed(&node).await, 0);
    diary.delete_actor().await.unwrap();
    assert_eq!(diary.idempotent("end").end().await.unwrap(), 0, "nothing is left, and so this is a new one");
}

#[tokio::test]
async fn an_actor_with_more_than_a_commit_can_remove_is_deleted_at_once_and_can_come_again() {
    let mut node = TestNode::start(|node| {
        node.actor::<DiaryActor>()
            .host_options(|options| options.replica.commit.commit_bytes_max = 128 << 10)
            .actor_defaults(|settings| settings.call_timeout = Duration::from_secs(3600))
    })
    .await
    .unwrap();
    let diary: DiaryRef = node.actor("busy").unwrap();
    for number in 0..400 {
        diary.idempotent(format!("{number:0500}")).note("text".into()).await.unwrap();
    }
    for page in 0..20 {
        diary.remind_at(page * 100, (page + 1) * 100).await.unwrap();
        diary.remember(page * 100, (page + 1) * 100).await.unwrap();
    }
    assert_eq!(reminders(&node).await, 2000);
    diary.delete_actor().await.unwrap();
    assert_eq!((listed(&node).await, reminders(&node).await), (0, 0));
    diary.remind_later().await.unwrap();
    assert_eq!(diary.idempotent(format!("{:0500}", 7)).note("again".into()).await.unwrap(), 1);
    node.kill().await.unwrap();
    let diary: DiaryRef = node.actor("busy").unwrap();
    assert_eq!((diary.notes().await.unwrap(), reminders(&node).await), (1, 1));

    // So is one that deletes itself.
    for page in 0..20 {
        diary.remind_at(page * 100, (page + 1) * 100).await.unwrap();
    }
    diary.end().await.unwrap();
    assert_eq!((listed(&node).await, reminders(&node).await), (0, 0));
}

#[tokio::test]
async fn answers_and_reminders_of_one_actor_are_bounded() {
    let node = TestNode::start(|node| {
        node.actor::<DiaryActor>().actor_defaults(|settings| {
            settings.idempotency_keys_max = 3;
            settings.idempotency_retention = Duration::from_secs(60);
            settings.reminders.count_max = 3;
        })
    })
    .await
    .unwrap();
    let diary: DiaryRef = node.actor("bounded").unwrap();
    for key in ["a", "b", "c"] {
        diary.idempotent(key).note("text".into()).await.unwrap();
    }
    let error = diary.idempotent("d").note("text".into()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Overloaded);
    let text = error.to_string();
    assert!(
        text.contains("DiaryActor(\"bounded\") keeps 3 answers") && text.contains("idempotency_keys_max"),
        "{text}"
    );
    assert_eq!(diary.idempotent("b").note("text".into()).await.unwrap(), 2, "what was answered still is");
    assert_eq!(diary.notes().await.unwrap(), 3, "and nothing else has happened");
    assert_eq!(diary.note("without a key".into()).await.unwrap(), 4);
    node.advance(Duration::from_secs(200)).await;
    assert_eq!(diary.idempotent("d").note("text".into()).await.unwrap(), 5, "they have expired");

    diary.remind_at(0, 3).await.unwrap();
    diary.remind_at(0, 3).await.unwrap();
    let error = diary.remind_at(2, 4).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    let text = error.to_string();
    assert!(
        text.contains("reminder \"3\" of DiaryActor(\"bounded\")") && text.contains("reminders.count_max"),
        "{text}"
    );
    assert!(diary.cancel(1).await.unwrap());
    diary.remind_at(3, 4).await.unwrap();
    assert_eq!(reminders(&node).await, 3);
    // What a turn that failed has set does not count.
    for _ in 0..3 {
        diary.cancel(3).await.unwrap();
        diary.remind_at(3, 5).await.unwrap_err();
        diary.remind_at(3, 4).await.unwrap();
    }
}
