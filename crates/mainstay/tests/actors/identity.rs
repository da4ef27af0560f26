//! Who an actor is, and what it can be called by.

use mainstay::actor::ACTOR_ID_BYTES_MAX;
use mainstay::prelude::*;
use mainstay::testkit::TestNode;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

#[interface]
trait Notes {
    /// Adds a note.
    async fn write(&mut self, note: String) -> Result<usize>;
}

#[interface]
trait Reader {
    async fn read(&self) -> Result<Vec<String>>;
    async fn whoami(&self) -> Result<String>;
    async fn fail(&self, code: u32) -> Result<(), Refusal>;
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum Refusal {
    Code(u32),
    Lost(String),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::Lost(error.to_string())
    }
}

#[derive(Actor)]
#[actor(implements(Notes, Reader))]
struct Notebook {
    notes: State<Vec<String>>,
    ctx: Context,
}

impl Notes for Notebook {
    async fn write(&mut self, note: String) -> Result<usize> {
        self.notes.push(note);
        Ok(self.notes.len())
    }
}

impl Reader for Notebook {
    async fn read(&self) -> Result<Vec<String>> {
        Ok(self.notes.clone())
    }

    async fn whoami(&self) -> Result<String> {
        Ok(format!("{} {}", self.ctx.service_name(), self.ctx.id()))
    }

    async fn fail(&self, code: u32) -> Result<(), Refusal> {
        Err(Refusal::Code(code))
    }
}

#[tokio::test]
async fn one_actor_has_several_interfaces_and_ids_of_three_kinds() {
    let node = TestNode::start(|node| node.actor::<Notebook>()).await.unwrap();
    let uuid = Uuid::from_u128(7);
    for (number, id) in (1..).zip([ActorId::from(7), ActorId::from("7"), ActorId::from(uuid), ActorId::from("")]) {
        let (notes, reader): (NotesRef, ReaderRef) = (node.actor(&id).unwrap(), node.actor(&id).unwrap());
        assert_eq!(notes.write(format!("note {number}")).await.unwrap(), 1);
        assert_eq!(reader.read().await.unwrap(), [format!("note {number}")]);
        assert_eq!(reader.whoami().await.unwrap(), format!("Notebook {id}"));
    }
}

#[tokio::test]
async fn any_text_up_to_the_limit_is_an_id() {
    let node = TestNode::start(|node| node.actor::<Notebook>()).await.unwrap();
    for id in ["a_b", "a/b\\c", "\0\u{1}\u{7f}", "ünï→💡", &"x".repeat(ACTOR_ID_BYTES_MAX)] {
        let notes: NotesRef = node.actor(id).unwrap();
        assert_eq!(notes.write("only one".into()).await.unwrap(), 1);
    }
    let error = node.actor::<NotesRef>("x".repeat(ACTOR_ID_BYTES_MAX + 1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
}

#[tokio::test]
async fn an_error_of_the_applications_own_type_arrives_as_it_is() {
    let node = TestNode::start(|node| node.actor::<Notebook>()).await.unwrap();
    let reader: ReaderRef = node.actor(1).unwrap();
    assert_eq!(reader.fail(42).await.unwrap_err(), Refusal::Code(42));
    let late = reader.with_timeout(std::time::Duration::ZERO);
    // A call that is ready at once needs no time.
    assert_eq!(late.fail(42).await.unwrap_err(), Refusal::Code(42));
}

#[interface]
trait Stranger {
    async fn greet(&self) -> Result<()>;
}

#[tokio::test]
async fn what_cannot_be_called_is_said_at_once() {
    let node = TestNode::start(|node| node.actor::<Notebook>()).await.unwrap();
    let error = node.actor::<StrangerRef>(1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains("no actor on this node implements Stranger"), "{error}");
    let error = node.actor_named::<StrangerRef>("Notebook", 1).unwrap_err();
    assert!(error.to_string().contains("does not implement Stranger"), "{error}");
    let error = node.service_named::<ReaderRef>("Notebook", 1).unwrap_err();
    assert!(error.to_string().contains("an actor: call it by `actor` or `actor_named`"), "{error}");
    assert!(node.actor_named::<ReaderRef>("Notebook", 1).unwrap().whoami().await.is_ok());
}
