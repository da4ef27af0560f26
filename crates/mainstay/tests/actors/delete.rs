//! Actors that are deleted: nothing is left of them, and a new one comes when it is called.

use std::time::Duration;

use mainstay::actor::ActorInfo;
use mainstay::prelude::*;
use mainstay::testkit::TestNode;
use mainstay_core::{task, time};

use crate::lives::{Alive, Lives, lives};

#[interface]
trait Note {
    async fn write(&mut self, text: String) -> Result<()>;
    async fn read(&self) -> Result<String>;
    async fn work(&mut self, seconds: u64) -> Result<()>;
    async fn end(&mut self, how: String) -> Result<String>;
    async fn end_shared(&self) -> Result<()>;
    async fn leave(&mut self, text: String) -> Result<()>;
}

#[derive(Actor)]
#[actor(implements(Note), partitions = 2)]
struct NoteActor {
    text: State<String>,
    alive: Option<Alive>,
    ctx: Context,
}

impl Lifecycle for NoteActor {
    async fn activate(&mut self) -> Result<()> {
        self.alive = Some(Alive::new(self.ctx.id()));
        Ok(())
    }

    async fn deactivate(&mut self) {
        if let Some(alive) = &self.alive {
            alive.deactivated();
        }
    }
}

impl Note for NoteActor {
    async fn write(&mut self, text: String) -> Result<()> {
        *self.text = text;
        Ok(())
    }

    async fn read(&self) -> Result<String> {
        Ok(self.text.clone())
    }

    async fn work(&mut self, seconds: u64) -> Result<()> {
        time::sleep(Duration::from_secs(seconds)).await;
        Ok(())
    }

    async fn end(&mut self, how: String) -> Result<String> {
        *self.text = "changed before".into();
        self.ctx.delete()?;
        *self.text = "changed after".into();
        match how.as_str() {
            "fail" => Err(Error::invalid("changed its mind")),
            "save" => self.save().await.map(|()| String::new()),
            _ => Ok("farewell".into()),
        }
    }

    async fn end_shared(&self) -> Result<()> {
        self.ctx.delete()
    }

    async fn leave(&mut self, text: String) -> Result<()> {
        *self.text = text;
        self.ctx.deactivate();
        self.ctx.deactivate();
        Ok(())
    }
}

async fn start() -> TestNode {
    TestNode::start(|node| node.actor::<NoteActor>()).await.unwrap()
}

fn note(node: &TestNode, id: &str) -> NoteRef {
    node.actor(id).unwrap()
}

async fn listed(node: &TestNode) -> Vec<ActorInfo> {
    node.actors::<NoteActor>().unwrap().all().collect().await.unwrap()
}

fn seen(id: &str) -> (u64, u64, u64) {
    let Lives { activated, deactivated, alive, .. } = lives(ActorId::from(id));
    (activated, deactivated, alive)
}

#[tokio::test]
async fn nothing_is_left_of_an_actor_that_is_deleted_and_a_new_one_can_be() {
    let mut node = start().await;
    let gone = note(&node, "gone");
    gone.idempotent("once").write("first".into()).await.unwrap();
    note(&node, "other").write("stays".into()).await.unwrap();
    gone.delete_actor().await.unwrap();
    assert_eq!(seen("gone"), (1, 1, 0), "its hook runs, once");
    assert_eq!(listed(&node).await.len(), 1);

    node.kill().await.unwrap();
    assert_eq!(listed(&node).await, [ActorInfo { id: "other".into(), is_active: false }]);
    let gone = note(&node, "gone");
    assert_eq!(gone.read().await.unwrap(), "", "a new one");
    assert_eq!(listed(&node).await.len(), 2);
    gone.idempotent("once").write("second".into()).await.unwrap();
    assert_eq!(gone.read().await.unwrap(), "second", "the answer that was kept for the key has gone too");
    assert_eq!(note(&node, "other").read().await.unwrap(), "stays");
}

#[tokio::test]
async fn one_that_is_not_in_memory_is_deleted_without_running_its_code() {
    let mut node = start().await;
    note(&node, "never").delete_actor().await.unwrap();
    assert_eq!(seen("never"), (0, 0, 0));
    note(&node, "asleep").write("text".into()).await.unwrap();
    node.restart().await.unwrap();
    assert_eq!(seen("asleep"), (1, 1, 0));
    node.actors::<NoteActor>().unwrap().delete("asleep").await.unwrap();
    assert_eq!(seen("asleep"), (1, 1, 0));
    assert_eq!(listed(&node).await, []);
    assert_eq!(note(&node, "asleep").read().await.unwrap(), "");
}

#[tokio::test]
async fn calls_that_wait_are_told() {
    let node = start().await;
    let actor = note(&node, "busy");
    actor.write("text".into()).await.unwrap();
    let spawn = |actor: NoteRef| task::spawn(async move { actor.read().await });
    let working = task::spawn({
        let actor = actor.clone();
        async move { actor.work(1).await }
    });
    task_turn().await;
    let before = spawn(actor.clone());
    task_turn().await;
    let delete = || {
        let actor = actor.clone();
        task::spawn(async move { actor.delete_actor().await })
    };
    let first = delete();
    task_turn().await;
    let after = spawn(actor.clone());
    let second = delete();
    task_turn().await;

    working.await.unwrap().unwrap();
    assert_eq!(before.await.unwrap().unwrap(), "text", "who came before has had its turn");
    first.await.unwrap().unwrap();
    let error = after.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains("was deleted while this call waited for it"), "{error}");
    second.await.unwrap().unwrap();
    assert_eq!(actor.read().await.unwrap(), "", "the same proxy finds the new one");
    assert_eq!(seen("busy"), (2, 1, 1));
}

/// Lets what was started begin.
async fn task_turn() {
    time::sleep(Duration::from_millis(1)).await;
}

#[tokio::test]
async fn an_actor_deletes_itself_with_its_turn() {
    let mut node = start().await;
    let actor = note(&node, "self");
    actor.write("text".into()).await.unwrap();
    actor.end("fail".into()).await.unwrap_err();
    assert_eq!(actor.read().await.unwrap(), "text", "a turn that fails deletes nothing");
    let error = actor.end_shared().await.unwrap_err();
    assert!(error.to_string().contains("from a method that takes `&mut self`"), "{error}");
    let error = actor.end("save".into()).await.unwrap_err();
    assert!(error.to_string().contains("is deleted with this turn"), "{error}");
    assert_eq!(actor.read().await.unwrap(), "text");
    assert_eq!(seen("self"), (1, 0, 1));

    let waiting = task::spawn({
        let actor = actor.clone();
        async move { actor.work(1).await }
    });
    task_turn().await;
    let ending = task::spawn({
        let actor = actor.clone();
        async move { actor.end("now".into()).await }
    });
    task_turn().await;
    let late = actor.read().await.unwrap_err();
    assert_eq!(late.kind(), ErrorKind::NotFound, "{late}");
    waiting.await.unwrap().unwrap();
    assert_eq!(ending.await.unwrap().unwrap(), "farewell");
    assert_eq!(seen("self"), (1, 1, 0));
    node.kill().await.unwrap();
    assert_eq!(listed(&node).await, [], "durable when the answer came, and nothing that the turn changed is there");
    assert_eq!(note(&node, "self").read().await.unwrap(), "");
}

#[tokio::test]
async fn a_deletion_that_cannot_be_committed_has_not_happened() {
    let node = start().await;
    let actor = note(&node, "kept");
    actor.write("text".into()).await.unwrap();
    node.fail_next_commit();
    assert_eq!(actor.delete_actor().await.unwrap_err().kind(), ErrorKind::StorageFull);
    assert_eq!(actor.read().await.unwrap(), "text");
    node.fail_next_commit();
    assert_eq!(actor.end("now".into()).await.unwrap_err().kind(), ErrorKind::StorageFull);
    assert_eq!(actor.read().await.unwrap(), "text", "and not what the turn has made of it");
    assert_eq!(listed(&node).await.len(), 1);
    assert_eq!(lives(ActorId::from("kept")).alive_max, 1);
    actor.delete_actor().await.unwrap();
    assert_eq!(actor.read().await.unwrap(), "");
}

#[tokio::test]
async fn an_actor_leaves_memory_when_it_or_another_says_so() {
    let node = start().await;
    let actor = note(&node, "note leaves");
    actor.leave("own".into()).await.unwrap();
    assert_eq!(seen("note leaves"), (1, 1, 0), "when its turn has ended");
    assert_eq!(actor.read().await.unwrap(), "own", "what the turn changed is saved");
    assert_eq!(seen("note leaves"), (2, 1, 1));

    node.deactivate_actor::<NoteActor>("note leaves").await.unwrap();
    assert_eq!(seen("note leaves"), (2, 2, 0));
    node.deactivate_actor::<NoteActor>("note leaves").await.unwrap();
    node.deactivate_actor::<NoteActor>("unknown").await.unwrap();
    assert_eq!((seen("note leaves"), seen("unknown")), ((2, 2, 0), (0, 0, 0)), "one that is not there is fine");
    assert_eq!(listed(&node).await.len(), 1);

    // Those who wait find a new one.
    let leaving = task::spawn({
        let actor = actor.clone();
        async move {
            actor.work(1).await?;
            actor.leave("again".into()).await
        }
    });
    task_turn().await;
    assert_eq!(actor.read().await.unwrap(), "own");
    leaving.await.unwrap().unwrap();
    assert_eq!(actor.read().await.unwrap(), "again");
    assert_eq!(lives(ActorId::from("note leaves")).alive_max, 1);
}

#[tokio::test]
async fn who_is_no_actor_cannot_be_removed() {
    let node = start().await;
    let error = node.actors_named("nobody").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
}
