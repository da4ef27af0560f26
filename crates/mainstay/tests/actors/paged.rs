//! Fields that are loaded when they are asked for.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use mainstay::prelude::*;
use mainstay::testkit::TestNode;
use serde::{Deserialize, Deserializer, Serialize};

#[interface]
trait Shelf {
    async fn is_loaded(&self) -> Result<bool>;
    async fn books(&self) -> Result<Vec<String>>;
    async fn add(&mut self, book: String) -> Result<()>;
    async fn add_and_fail(&mut self, book: String) -> Result<()>;
    async fn add_and_save(&mut self, book: String) -> Result<bool>;
    /// Adds and unloads, and says whether it is loaded then.
    async fn add_and_unload(&mut self, book: String) -> Result<bool>;
    async fn unload(&mut self) -> Result<()>;
    async fn touch(&mut self) -> Result<()>;
}

#[derive(Actor)]
#[actor(implements(Shelf), name = "Shelf")]
struct PagedShelf {
    books: Paged<Vec<String>>,
}

impl Shelf for PagedShelf {
    async fn is_loaded(&self) -> Result<bool> {
        Ok(self.books.is_loaded())
    }

    async fn books(&self) -> Result<Vec<String>> {
        Ok(self.books.get()?.clone())
    }

    async fn add(&mut self, book: String) -> Result<()> {
        self.books.get_mut()?.push(book);
        Ok(())
    }

    async fn add_and_fail(&mut self, book: String) -> Result<()> {
        self.add(book).await?;
        Err(Error::invalid("no"))
    }

    async fn add_and_save(&mut self, book: String) -> Result<bool> {
        self.add(book).await?;
        Ok(self.save().await.is_ok())
    }

    async fn add_and_unload(&mut self, book: String) -> Result<bool> {
        self.add(book).await?;
        self.books.unload();
        Ok(self.books.is_loaded())
    }

    async fn unload(&mut self) -> Result<()> {
        self.books.unload();
        assert!(!self.books.is_loaded());
        Ok(())
    }

    async fn touch(&mut self) -> Result<()> {
        self.books.get_mut()?;
        Ok(())
    }
}

async fn start() -> (TestNode, ShelfRef) {
    let node = TestNode::start(|node| node.actor::<PagedShelf>()).await.unwrap();
    let shelf = node.actor("a").unwrap();
    (node, shelf)
}

#[tokio::test]
async fn a_page_is_loaded_when_it_is_asked_for_and_saved_when_it_has_changed() {
    let (mut node, shelf) = start().await;
    assert!(!shelf.is_loaded().await.unwrap());
    assert!(shelf.books().await.unwrap().is_empty());
    assert!(shelf.is_loaded().await.unwrap());
    shelf.add("Emma".into()).await.unwrap();
    for _ in 0..2 {
        node.kill().await.unwrap();
        let shelf: ShelfRef = node.actor("a").unwrap();
        assert!(!shelf.is_loaded().await.unwrap());
        assert_eq!(shelf.books().await.unwrap(), ["Emma"]);
        assert!(shelf.is_loaded().await.unwrap());
    }
    let shelf: ShelfRef = node.actor("a").unwrap();
    let syncs = node.disk().syncs();
    shelf.touch().await.unwrap();
    assert_eq!(node.disk().syncs(), syncs);
}

#[tokio::test]
async fn what_a_failed_turn_or_commit_has_changed_is_gone() {
    let (mut node, shelf) = start().await;
    shelf.add("Emma".into()).await.unwrap();
    shelf.add_and_fail("Persuasion".into()).await.unwrap_err();
    assert_eq!(shelf.books().await.unwrap(), ["Emma"]);
    node.fail_next_commit();
    shelf.add("Persuasion".into()).await.unwrap_err();
    assert_eq!(shelf.books().await.unwrap(), ["Emma"]);
    node.fail_next_commit();
    assert!(!shelf.add_and_save("Persuasion".into()).await.unwrap());
    assert_eq!(shelf.books().await.unwrap(), ["Emma"]);
    assert!(shelf.add_and_save("Sanditon".into()).await.unwrap());
    node.kill().await.unwrap();
    assert_eq!(node.actor::<ShelfRef>("a").unwrap().books().await.unwrap(), ["Emma", "Sanditon"]);
}

#[tokio::test]
async fn a_page_leaves_memory_when_it_is_let_go_and_nothing_of_it_is_lost() {
    let (node, shelf) = start().await;
    shelf.add("Emma".into()).await.unwrap();
    shelf.unload().await.unwrap();
    assert!(!shelf.is_loaded().await.unwrap());
    // One that has changed is there until it is saved.
    assert!(shelf.add_and_unload("Persuasion".into()).await.unwrap());
    assert!(!shelf.is_loaded().await.unwrap());
    assert_eq!(shelf.books().await.unwrap(), ["Emma", "Persuasion"]);
    // What is loaded while the commit is under way is what the turn has made.
    let syncs = node.disk().syncs();
    let (added, books) = tokio::join!(shelf.add_and_unload("Sanditon".into()), shelf.books());
    assert_eq!(node.disk().syncs() - syncs, 1, "the turns have not overlapped");
    assert!(added.unwrap());
    assert_eq!(books.unwrap(), ["Emma", "Persuasion", "Sanditon"]);
}

/// The same actor as its author had it before.
#[derive(Actor)]
#[actor(implements(Shelf), name = "Shelf")]
struct PlainShelf {
    books: State<Vec<String>>,
}

impl Shelf for PlainShelf {
    async fn is_loaded(&self) -> Result<bool> {
        Ok(true)
    }

    async fn books(&self) -> Result<Vec<String>> {
        Ok(self.books.clone())
    }

    async fn add(&mut self, book: String) -> Result<()> {
        self.books.push(book);
        Ok(())
    }

    async fn add_and_fail(&mut self, _: String) -> Result<()> {
        Ok(())
    }

    async fn add_and_save(&mut self, _: String) -> Result<bool> {
        Ok(true)
    }

    async fn add_and_unload(&mut self, _: String) -> Result<bool> {
        Ok(true)
    }

    async fn unload(&mut self) -> Result<()> {
        Ok(())
    }

    async fn touch(&mut self) -> Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_field_can_become_paged_and_plain_again() {
    static IS_PAGED: AtomicBool = AtomicBool::new(false);
    let mut node = TestNode::start(|node| match IS_PAGED.load(Ordering::Relaxed) {
        true => node.actor::<PagedShelf>(),
        false => node.actor::<PlainShelf>(),
    })
    .await
    .unwrap();
    for (is_paged, book, books) in
        [(false, "a", vec!["a"]), (true, "b", vec!["a", "b"]), (false, "c", vec!["a", "b", "c"])]
    {
        IS_PAGED.store(is_paged, Ordering::Relaxed);
        node.restart().await.unwrap();
        let shelf: ShelfRef = node.actor("a").unwrap();
        shelf.add(book.into()).await.unwrap();
        assert_eq!(shelf.books().await.unwrap(), books);
    }
}

/// How many bytes of [`Heavy`] were ever read from the store.
static HEAVY_BYTES_READ: AtomicUsize = AtomicUsize::new(0);

#[derive(Default, Serialize)]
struct Heavy(String);

impl<'de> Deserialize<'de> for Heavy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        HEAVY_BYTES_READ.fetch_add(text.len(), Ordering::Relaxed);
        Ok(Self(text))
    }
}

#[interface]
trait Library {
    async fn fill(&mut self, bytes: u32) -> Result<()>;
    async fn visit(&mut self) -> Result<i64>;
    async fn read(&self) -> Result<usize>;
}

#[derive(Actor)]
#[actor(implements(Library))]
struct LibraryActor {
    visits: State<i64>,
    books: Paged<Heavy>,
}

impl Library for LibraryActor {
    async fn fill(&mut self, bytes: u32) -> Result<()> {
        self.books.get_mut()?.0 = "x".repeat(bytes as usize);
        Ok(())
    }

    async fn visit(&mut self) -> Result<i64> {
        *self.visits += 1;
        Ok(*self.visits)
    }

    async fn read(&self) -> Result<usize> {
        Ok(self.books.get()?.0.len())
    }
}

#[tokio::test]
async fn active_actors_do_not_have_their_pages_in_memory_before_they_ask_for_them() {
    const ACTORS: i64 = 300;
    const BYTES: u32 = 4096;
    let mut node = TestNode::start(|node| node.actor::<LibraryActor>()).await.unwrap();
    for id in 0..ACTORS {
        node.actor::<LibraryRef>(id).unwrap().fill(BYTES).await.unwrap();
    }
    node.restart().await.unwrap();
    for id in 0..ACTORS {
        assert_eq!(node.actor::<LibraryRef>(id).unwrap().visit().await.unwrap(), 1);
    }
    assert_eq!(HEAVY_BYTES_READ.load(Ordering::Relaxed), 0);
    for _ in 0..3 {
        let (one, other) = tokio::join!(async { node.actor::<LibraryRef>(7).unwrap().read().await.unwrap() }, async {
            node.actor::<LibraryRef>(7).unwrap().read().await.unwrap()
        },);
        assert_eq!((one, other), (BYTES as usize, BYTES as usize));
    }
    assert_eq!(HEAVY_BYTES_READ.load(Ordering::Relaxed), BYTES as usize);
}
