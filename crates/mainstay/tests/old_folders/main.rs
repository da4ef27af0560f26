//! Data folders that earlier programs have written are opened, and all that is in them is found.
//!
//! A folder is kept as `tests/golden/folder-NAME.bin`, in which zeros are left out. It is made once, by the program whose name
//! it has, and never again: `MAINSTAY_GOLDEN=write cargo test -p mainstay --test old_folders` writes the one of [`WRITTEN`] if it
//! is missing. A program that changes a format gives [`WRITTEN`] a new name before, and adds it to [`KEPT`].
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod packed;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use mainstay::node::NodeBuilder;
use mainstay::partition::{Driver, NodeReplicasOptions, SimDisk, SyncDelay};
use mainstay::prelude::*;
use mainstay_core::time::{self, Duration, WallTime};

/// The folders that are read.
const KEPT: &[&str] = &["before-formats"];

/// The one that a missing file is written for.
const WRITTEN: &str = "before-formats";

const FOLDER: &str = "/data";

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const YEARS: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// When the folders were written, and are read.
const MIDNIGHT: WallTime = WallTime::from_millis(1_800_057_600_000);

#[interface]
trait Desk {
    async fn fill(&mut self) -> Result<()>;
    async fn count(&mut self) -> Result<u64>;
    async fn look(&self) -> Result<(String, Vec<String>)>;
}

#[derive(Actor)]
#[actor(implements(Desk), partitions = 3)]
struct DeskActor {
    text: State<String>,
    count: State<u64>,
    ctx: Context,
}

impl Desk for DeskActor {
    async fn fill(&mut self) -> Result<()> {
        *self.text = "written before".to_owned();
        self.ctx.remind("once").after(YEARS).value(&7_u32).set()?;
        self.ctx.remind("every").every(YEARS).set()?;
        self.ctx.remind("cron").cron("0 0 29 2 *").payload("leap").set()?;
        Ok(())
    }

    async fn count(&mut self) -> Result<u64> {
        *self.count += 1;
        Ok(*self.count)
    }

    async fn look(&self) -> Result<(String, Vec<String>)> {
        let mut reminders: Vec<String> = self.ctx.reminders()?.into_iter().map(|reminder| reminder.name).collect();
        reminders.sort();
        Ok((self.text.clone(), reminders))
    }
}

impl Remindable for DeskActor {
    async fn remind(&mut self, _: Reminder) -> Result<()> {
        Ok(())
    }
}

#[interface]
trait Shelf {
    async fn fill(&self) -> Result<()>;
    async fn look(&self) -> Result<(Option<u64>, Option<u64>, u64, Vec<String>, bool)>;
}

#[derive(Service)]
#[service(implements(Shelf), partitions = singleton)]
struct ShelfService {
    books: Dictionary<String, u64>,
    line: Queue<String>,
    state: StateManager,
}

impl Shelf for ShelfService {
    async fn fill(&self) -> Result<()> {
        let mut tx = self.state.begin();
        self.books.set(&mut tx, "plain".into(), 1).await?;
        self.books.set_with_ttl(&mut tx, "expiring".into(), 2, YEARS).await?;
        for item in ["first", "second"] {
            self.line.enqueue(&mut tx, item.to_owned()).await?;
        }
        tx.commit().await?;
        self.state.gates().switch_on("shelf.v2").await
    }

    async fn look(&self) -> Result<(Option<u64>, Option<u64>, u64, Vec<String>, bool)> {
        let mut tx = self.state.begin();
        let plain = self.books.get(&mut tx, "plain").await?.map(|value| *value);
        let expiring = self.books.get(&mut tx, "expiring").await?.map(|value| *value);
        let len = self.books.len(&mut tx).await?;
        let mut line = Vec::new();
        while let Some(item) = self.line.try_dequeue(&mut tx).await? {
            line.push(String::clone(&item));
        }
        // The transaction is dropped: what was taken stays.
        Ok((plain, expiring, len, line, self.state.gates().is_on("shelf.v2")))
    }
}

fn builder(disk: &SimDisk) -> NodeBuilder {
    let options = |options: &mut NodeReplicasOptions| {
        options.log.segment_bytes = 256 << 10;
        options.log.driver = Driver::Task { sync_delay: SyncDelay::default() };
    };
    Node::builder()
        .isolated()
        .data_dir(FOLDER)
        .disk(Arc::new(disk.clone()))
        .set("sets_per_level", "2")
        .host_options(options)
        .actor::<DeskActor>()
        .service::<ShelfService>()
        .actor_defaults(|settings| settings.idempotency_retention = DAY)
}

fn kept(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/folder-{name}.bin"))
}

fn desks(node: &Node) -> Vec<DeskRef> {
    let ids = [ActorId::from(-7), ActorId::from("text\0\u{1}"), ActorId::from(uuid::Uuid::from_u128(0xfeed))];
    ids.into_iter().map(|id| node.actor(id).unwrap()).collect()
}

/// Fills a folder, partly checkpointed and partly in the log alone.
async fn write() -> SimDisk {
    let disk = SimDisk::new(1);
    let node = builder(&disk).host_options(|options| options.replica.checkpoint.bytes = 1).start().await.unwrap();
    for desk in desks(&node) {
        desk.fill().await.unwrap();
        assert_eq!(desk.idempotent("key").count().await.unwrap(), 1);
    }
    // Until the checkpoints are made.
    time::sleep(Duration::from_secs(1)).await;
    node.stop().await;
    let node = builder(&disk).start().await.unwrap();
    node.service::<ShelfRef>(()).unwrap().fill().await.unwrap();
    for desk in desks(&node) {
        assert_eq!(desk.count().await.unwrap(), 2);
    }
    node.stop().await;
    disk
}

async fn check(packed: &[u8]) {
    let disk = SimDisk::new(1);
    packed::unpack(packed, &disk, Path::new(FOLDER));
    // Twice: what is written anew is read again.
    for round in 0..2 {
        let node = builder(&disk).start().await.unwrap();
        for desk in desks(&node) {
            let (text, reminders) = desk.look().await.unwrap();
            assert_eq!(text, "written before");
            assert_eq!(reminders, ["cron", "every", "once"]);
            assert_eq!(desk.idempotent("key").count().await.unwrap(), 1, "as it was answered then");
            assert_eq!(desk.count().await.unwrap(), 3 + round);
        }
        let found = node.service::<ShelfRef>(()).unwrap().look().await.unwrap();
        assert_eq!(found, (Some(1), Some(2), 2, vec!["first".into(), "second".into()], true));
        node.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn folders_of_earlier_programs_are_read() {
    time::start_thread_wall(MIDNIGHT);
    if !kept(WRITTEN).exists() && std::env::var_os("MAINSTAY_GOLDEN").is_some_and(|value| value == "write") {
        std::fs::write(kept(WRITTEN), packed::pack(&write().await, Path::new(FOLDER))).unwrap();
    }
    for name in KEPT {
        check(&std::fs::read(kept(name)).unwrap()).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_folder_of_this_program_is_read() {
    time::start_thread_wall(MIDNIGHT);
    check(&packed::pack(&write().await, Path::new(FOLDER))).await;
}
