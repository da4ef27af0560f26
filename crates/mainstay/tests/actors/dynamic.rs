//! State under names that are chosen as the actor runs.

mod drawer;
mod model;
mod samples;

use std::sync::atomic::{AtomicUsize, Ordering};

use mainstay::prelude::*;
use mainstay::testkit::TestNode;
use serde::{Deserialize, Deserializer, Serialize};

use drawer::{Drawer, DrawerRef, End, Op, Seen};

async fn start() -> (TestNode, DrawerRef) {
    let node = TestNode::start(|node| node.actor::<Drawer>().actor::<Versions>().actor::<Greeter>()).await.unwrap();
    let drawer = node.actor("a").unwrap();
    (node, drawer)
}

/// Runs operations in a turn that succeeds.
async fn run(drawer: &DrawerRef, ops: impl IntoIterator<Item = Op>) -> Result<Vec<Seen>> {
    drawer.run(ops.into_iter().collect(), End::Succeed).await
}

fn set(name: &str, value: i64) -> Op {
    Op::Set(name.into(), value)
}

fn try_get(name: &str) -> Op {
    Op::TryGet(name.into())
}

#[tokio::test]
async fn missing_and_existing_names_give_what_the_original_gives() {
    let (_node, drawer) = start().await;
    let n = || "n".to_owned();
    let missing = [Op::Get(n()), try_get("n"), Op::Contains(n()), Op::Remove(n()), Op::TryRemove(n())];
    let seen = run(&drawer, missing).await.unwrap();
    assert_eq!(seen, [Seen::NotFound, Seen::Value(None), Seen::Flag(false), Seen::NotFound, Seen::Flag(false)]);

    let adding = [Op::Add(n(), 1), Op::Add(n(), 2), Op::TryAdd(n(), 3), Op::GetOrAdd(n(), 4), Op::Get(n())];
    let seen = run(&drawer, adding.clone()).await.unwrap();
    let one = || Seen::Value(Some(1));
    assert_eq!(seen, [Seen::Done, Seen::Conflict, Seen::Flag(false), one(), one()]);
    let seen = run(&drawer, adding).await.unwrap();
    assert_eq!(seen, [Seen::Conflict, Seen::Conflict, Seen::Flag(false), one(), one()]);

    // The update of the scripted actor keeps the larger one.
    let updating = [Op::AddOrUpdate(n(), 5), Op::AddOrUpdate(n(), 3), Op::AddOrUpdate("m".into(), 2), set("n", 0)];
    let seen = run(&drawer, updating).await.unwrap();
    assert_eq!(seen, [Seen::Value(Some(5)), Seen::Value(Some(5)), Seen::Value(Some(2)), Seen::Done]);

    let removing =
        [Op::Remove(n()), Op::TryRemove(n()), Op::Get(n()), Op::TryAdd(n(), 9), Op::TryRemove(n()), Op::Names];
    let seen = run(&drawer, removing).await.unwrap();
    let names = Seen::Names(vec!["m".into()]);
    assert_eq!(seen, [Seen::Done, Seen::Flag(false), Seen::NotFound, Seen::Flag(true), Seen::Flag(true), names]);
}

#[tokio::test]
async fn errors_name_the_actor_the_key_and_the_remedy() {
    let (_node, drawer) = start().await;
    for (op, kind, words) in [
        (Op::Get("n".into()), ErrorKind::NotFound, ["Drawer(\"a\")", "\"n\"", "try_"]),
        (Op::Remove("n".into()), ErrorKind::NotFound, ["Drawer(\"a\")", "\"n\"", "try_"]),
        (Op::Add("there".into(), 1), ErrorKind::Conflict, ["Drawer(\"a\")", "\"there\"", "`set`"]),
        (Op::GetText("there".into()), ErrorKind::Invalid, ["Drawer(\"a\")", "\"there\"", "alloc::string::String"]),
        (set(&"n".repeat(1024), 1), ErrorKind::TooLarge, ["Drawer(\"a\")", "1024", "DYNAMIC_NAME_BYTES_MAX is 1023"]),
    ] {
        run(&drawer, [set("there", 1)]).await.unwrap();
        let error = drawer.fail_with(vec![op.clone()]).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{op:?}: {error}");
        for word in words {
            assert!(error.to_string().contains(word), "{op:?}: {word:?} is not in {error}");
        }
    }
    run(&drawer, [set(&"n".repeat(1023), 1), try_get(&"n".repeat(1023))]).await.unwrap();
}

#[tokio::test]
async fn a_value_of_another_type_is_refused_in_memory_and_from_the_store() {
    let (mut node, drawer) = start().await;
    run(&drawer, [set("n", 1)]).await.unwrap();
    // In memory: it was set as a number. Then from the store.
    for _ in 0..2 {
        let error = node.actor::<DrawerRef>("a").unwrap().fail_with(vec![Op::GetText("n".into())]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        node.restart().await.unwrap();
    }
    // It can be replaced, though.
    let drawer = node.actor("a").unwrap();
    let seen = run(&drawer, [Op::SetText("n".into(), "one".into()), Op::GetText("n".into())]).await.unwrap();
    assert_eq!(seen, [Seen::Done, Seen::Text("one".into())]);
}

#[tokio::test]
async fn names_are_apart_from_those_of_fields() {
    let (mut node, drawer) = start().await;
    run(&drawer, [Op::Field(5), set("field", 7), set("", 8)]).await.unwrap();
    node.restart().await.unwrap();
    let drawer = node.actor("a").unwrap();
    let seen = run(&drawer, [Op::ReadField, try_get("field"), Op::Names, Op::Remove("field".into())]).await.unwrap();
    let names = Seen::Names(vec![String::new(), "field".into()]);
    assert_eq!(seen, [Seen::Value(Some(5)), Seen::Value(Some(7)), names, Seen::Done]);
    node.restart().await.unwrap();
    let seen = run(&node.actor("a").unwrap(), [Op::ReadField, try_get("field")]).await.unwrap();
    assert_eq!(seen, [Seen::Value(Some(5)), Seen::Value(None)]);
}

#[tokio::test]
async fn reads_look_through_turns_that_are_not_committed() {
    let (node, drawer) = start().await;
    run(&drawer, [set("old", 1), set("gone", 2)]).await.unwrap();
    let syncs = node.disk().syncs();
    let (changed, seen, shared) = tokio::join!(
        run(&drawer, [set("new", 3), Op::Remove("gone".into())]),
        // Nothing in memory, and nothing of the turn before in the store.
        run(&drawer, [Op::ClearCache, try_get("new"), Op::Contains("gone".into()), Op::Names]),
        drawer.look(),
    );
    assert_eq!(node.disk().syncs() - syncs, 1, "the turns have not overlapped");
    changed.unwrap();
    let names = vec!["new".to_owned(), "old".to_owned()];
    assert_eq!(seen.unwrap(), [Seen::Done, Seen::Value(Some(3)), Seen::Flag(false), Seen::Names(names)]);
    assert_eq!(shared.unwrap().0, [("new".to_owned(), 3), ("old".to_owned(), 1)].into());
}

#[tokio::test]
async fn nothing_is_written_when_nothing_has_changed() {
    let (node, drawer) = start().await;
    run(&drawer, [set("n", 1)]).await.unwrap();
    let syncs = node.disk().syncs();
    run(&drawer, [set("n", 2), set("n", 1)]).await.unwrap();
    run(&drawer, [Op::Add("m".into(), 1), Op::Remove("m".into())]).await.unwrap();
    run(&drawer, [Op::Remove("n".into()), Op::Add("n".into(), 1), Op::Save]).await.unwrap();
    run(&drawer, [set("n", 2), Op::ClearCache]).await.unwrap();
    assert_eq!(node.disk().syncs(), syncs);
    run(&drawer, [set("n", 2)]).await.unwrap();
    assert!(node.disk().syncs() > syncs);
}

#[tokio::test]
async fn a_value_that_cannot_be_stored_fails_the_turn_and_takes_everything_back() {
    let (mut node, drawer) = start().await;
    run(&drawer, [Op::Field(1), set("n", 1)]).await.unwrap();
    for save in [None, Some(Op::Save)] {
        // The field is handed over before the value fails.
        let ops = [Op::Field(2), set("n", 2), Op::SetText("big".into(), "x".repeat(5 << 20))];
        let result = run(&drawer, ops.into_iter().chain(save.clone())).await;
        match save {
            None => {
                let error = result.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::TooLarge);
                assert!(error.to_string().contains("\"big\" of Drawer(\"a\")"), "{error}");
                assert_eq!(drawer.look().await.unwrap(), ([("n".to_owned(), 1)].into(), 1));
            }
            // Fields are out of its reach, and saved at the end.
            Some(_) => assert_eq!(result.unwrap().last(), Some(&Seen::SaveFailed)),
        }
    }
    assert_eq!(drawer.look().await.unwrap(), ([("n".to_owned(), 1)].into(), 2));
    node.restart().await.unwrap();
    assert_eq!(node.actor::<DrawerRef>("a").unwrap().look().await.unwrap(), ([("n".to_owned(), 1)].into(), 2));
}

#[tokio::test]
async fn a_first_turn_that_cannot_be_stored_leaves_an_actor_that_works() {
    let (mut node, drawer) = start().await;
    let ops = [Op::Field(2), Op::SetText("big".into(), "x".repeat(5 << 20))];
    assert_eq!(run(&drawer, ops).await.unwrap_err().kind(), ErrorKind::TooLarge);
    run(&drawer, [set("n", 1)]).await.unwrap();
    node.restart().await.unwrap();
    assert_eq!(node.actor::<DrawerRef>("a").unwrap().look().await.unwrap(), ([("n".to_owned(), 1)].into(), 0));
}

#[tokio::test]
async fn a_save_on_a_turn_that_was_lost_fails_the_whole_turn() {
    let (node, drawer) = start().await;
    run(&drawer, [Op::Field(1), set("n", 1)]).await.unwrap();
    let (stored, lost, stale) = tokio::join!(
        run(&drawer, [Op::Field(2), set("n", 2)]),
        // Its commit waits for that of the turn before, and then fails.
        async {
            node.fail_next_commit();
            run(&drawer, [Op::Field(100), set("n", 100)]).await
        },
        run(&drawer, [Op::ReadField, set("m", 1), Op::Save, Op::Field(101), set("m", 2)]),
    );
    stored.unwrap();
    assert_eq!(lost.unwrap_err().kind(), ErrorKind::StorageFull);
    assert_eq!(stale.unwrap_err().kind(), ErrorKind::Retry);
    assert_eq!(drawer.look().await.unwrap(), ([("n".to_owned(), 2)].into(), 2));
}

#[interface]
trait Versioned {
    async fn store_new(&mut self) -> Result<()>;
    async fn rename(&mut self, read_first: bool) -> Result<()>;
    async fn replace(&mut self) -> Result<()>;
    async fn colour(&self) -> Result<String>;
}

/// A type as a newer build has it.
#[derive(Serialize, Deserialize)]
struct Today {
    name: String,
    #[serde(default)]
    colour: String,
}

/// The same type as this build has it.
#[derive(Serialize, Deserialize)]
struct Yesterday {
    name: String,
}

#[derive(Actor)]
#[actor(implements(Versioned))]
struct Versions {
    ctx: Context,
}

impl Versioned for Versions {
    async fn store_new(&mut self) -> Result<()> {
        self.ctx.state_mut().set("thing", Today { name: "chair".into(), colour: "red".into() })?;
        // Another build comes next, which finds nothing in memory.
        self.ctx.state_mut().save().await?;
        self.ctx.state_mut().clear_cache();
        Ok(())
    }

    async fn rename(&mut self, read_first: bool) -> Result<()> {
        if read_first {
            self.ctx.state().get::<Yesterday>("thing")?;
        }
        self.ctx.state_mut().set("thing", Yesterday { name: "table".into() })?;
        self.ctx.state_mut().save().await?;
        self.ctx.state_mut().clear_cache();
        assert_eq!(self.ctx.state().get::<Yesterday>("thing")?.name, "table");
        self.ctx.state_mut().clear_cache();
        Ok(())
    }

    async fn replace(&mut self) -> Result<()> {
        self.ctx.state_mut().remove("thing")?;
        self.ctx.state_mut().add("thing", Yesterday { name: "table".into() })?;
        self.ctx.state_mut().save().await?;
        self.ctx.state_mut().clear_cache();
        Ok(())
    }

    async fn colour(&self) -> Result<String> {
        Ok(self.ctx.state().get::<Today>("thing")?.colour.clone())
    }
}

#[tokio::test]
async fn what_a_newer_version_has_stored_stays_when_a_value_is_set_and_goes_when_it_is_removed() {
    let (node, _) = start().await;
    for read_first in [false, true] {
        let versions: VersionedRef = node.actor(format!("{read_first}")).unwrap();
        versions.store_new().await.unwrap();
        versions.rename(read_first).await.unwrap();
        assert_eq!(versions.colour().await.unwrap(), "red", "read first: {read_first}");
    }
    let versions: VersionedRef = node.actor("replaced").unwrap();
    versions.store_new().await.unwrap();
    versions.replace().await.unwrap();
    assert_eq!(versions.colour().await.unwrap(), "");
}

#[interface]
trait Greeting {
    async fn names(&self) -> Result<Vec<String>>;
    async fn reload(&mut self) -> Result<(String, i64)>;
    async fn fail(&mut self) -> Result<()>;
    async fn lives(&self) -> Result<i64>;
}

#[derive(Actor)]
#[actor(implements(Greeting))]
struct Greeter {
    lives: State<i64>,
    ctx: Context,
}

impl Lifecycle for Greeter {
    async fn activate(&mut self) -> Result<()> {
        *self.lives += 1;
        self.ctx.state_mut().set("greeting", "hello".to_owned())
    }
}

impl Greeting for Greeter {
    async fn names(&self) -> Result<Vec<String>> {
        self.ctx.state().names()
    }

    async fn reload(&mut self) -> Result<(String, i64)> {
        self.ctx.state_mut().clear_cache();
        Ok((self.ctx.state().get::<String>("greeting")?.to_string(), *self.lives))
    }

    async fn fail(&mut self) -> Result<()> {
        *self.lives = 100;
        Err(Error::invalid("no"))
    }

    async fn lives(&self) -> Result<i64> {
        Ok(*self.lives)
    }
}

#[tokio::test]
async fn what_an_activation_sets_is_there_for_its_first_turn_however_that_ends() {
    let (node, _) = start().await;
    let greeter = |id: &str| node.actor::<GreetingRef>(id).unwrap();
    assert_eq!(greeter("a").names().await.unwrap(), ["greeting"]);
    assert_eq!(greeter("b").reload().await.unwrap(), ("hello".to_owned(), 1));
    greeter("c").fail().await.unwrap_err();
    assert_eq!(greeter("c").lives().await.unwrap(), 1);
    assert_eq!(greeter("c").reload().await.unwrap(), ("hello".to_owned(), 1));
    node.fail_next_commit();
    assert_eq!(greeter("d").lives().await.unwrap_err().kind(), ErrorKind::StorageFull);
    assert_eq!(greeter("d").lives().await.unwrap(), 1);
}

/// How many bytes of [`Heavy`] were ever read from the store.
static HEAVY_BYTES_READ: AtomicUsize = AtomicUsize::new(0);

#[derive(Serialize)]
struct Heavy(String);

impl<'de> Deserialize<'de> for Heavy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        HEAVY_BYTES_READ.fetch_add(text.len(), Ordering::Relaxed);
        Ok(Self(text))
    }
}

#[interface]
trait Archive {
    async fn fill(&mut self, bytes: u32) -> Result<()>;
    async fn touch(&mut self) -> Result<i64>;
    async fn names(&self) -> Result<usize>;
    async fn open(&self) -> Result<usize>;
}

#[derive(Actor)]
#[actor(implements(Archive))]
struct Archivist {
    visits: State<i64>,
    ctx: Context,
}

impl Archive for Archivist {
    async fn fill(&mut self, bytes: u32) -> Result<()> {
        self.ctx.state_mut().set("files", Heavy("x".repeat(bytes as usize)))
    }

    async fn touch(&mut self) -> Result<i64> {
        *self.visits += 1;
        Ok(*self.visits)
    }

    async fn names(&self) -> Result<usize> {
        assert!(self.ctx.state().contains("files")?);
        Ok(self.ctx.state().names()?.len())
    }

    async fn open(&self) -> Result<usize> {
        Ok(self.ctx.state().get::<Heavy>("files")?.0.len())
    }
}

#[tokio::test]
async fn active_actors_do_not_have_their_dynamic_state_in_memory_before_they_ask_for_it() {
    const ACTORS: i64 = 300;
    const BYTES: u32 = 4096;
    let mut node = TestNode::start(|node| node.actor::<Archivist>()).await.unwrap();
    for id in 0..ACTORS {
        node.actor::<ArchiveRef>(id).unwrap().fill(BYTES).await.unwrap();
    }
    node.restart().await.unwrap();
    for id in 0..ACTORS {
        let archive: ArchiveRef = node.actor(id).unwrap();
        assert_eq!((archive.touch().await.unwrap(), archive.names().await.unwrap()), (1, 1));
    }
    assert_eq!(HEAVY_BYTES_READ.load(Ordering::Relaxed), 0);
    // It is read once, and from memory after that.
    for _ in 0..3 {
        assert_eq!(node.actor::<ArchiveRef>(7).unwrap().open().await.unwrap(), BYTES as usize);
    }
    assert_eq!(HEAVY_BYTES_READ.load(Ordering::Relaxed), BYTES as usize);
}
