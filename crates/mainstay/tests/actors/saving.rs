//! Saving in the middle of a turn, and giving it up.

use mainstay::partition::{Driver, SimDisk, SyncDelay};
use mainstay::prelude::*;
use mainstay_core::time::{self, Duration};

use crate::harness::on;

/// What a commit may have: room for one of the texts, and not for two.
const COMMIT_BYTES_MAX: usize = 100_000;

const TEXT_BYTES: usize = 60_000;

#[interface]
trait Draft {
    /// Stores something else.
    async fn note(&mut self, name: String) -> Result<()>;
    /// Writes a text, begins to save it and does not wait for that.
    async fn write_in_haste(&mut self, is_refused: bool) -> Result<()>;
    /// The same with state that is reached by the context.
    async fn note_in_haste(&mut self, name: String) -> Result<()>;
    async fn bytes(&self, name: String) -> Result<(usize, usize)>;
}

#[derive(Actor)]
#[actor(implements(Draft), partitions = 1)]
struct DraftActor {
    text: State<String>,
    ctx: Context,
}

fn text() -> String {
    "x".repeat(TEXT_BYTES)
}

impl Draft for DraftActor {
    async fn note(&mut self, name: String) -> Result<()> {
        self.ctx.state_mut().set(&name, text())
    }

    async fn write_in_haste(&mut self, is_refused: bool) -> Result<()> {
        *self.text = text();
        let saved = time::timeout(Duration::from_millis(1), self.save()).await;
        assert!(saved.is_err(), "it was saved too soon for this test: {saved:?}");
        if is_refused { Err(Error::invalid("on second thoughts")) } else { Ok(()) }
    }

    async fn note_in_haste(&mut self, name: String) -> Result<()> {
        self.ctx.state_mut().set(&name, text())?;
        *self.text = "short".to_owned();
        let saved = time::timeout(Duration::from_millis(1), self.save()).await;
        assert!(saved.is_err(), "it was saved too soon for this test: {saved:?}");
        Ok(())
    }

    async fn bytes(&self, name: String) -> Result<(usize, usize)> {
        Ok((self.text.len(), self.ctx.state().try_get::<String>(&name)?.map_or(0, |text| text.len())))
    }
}

async fn start(disk: &SimDisk) -> (Node, DraftRef) {
    let sync = Duration::from_millis(20);
    let node = on(disk).host_options(move |options| {
        options.replica.commit.commit_bytes_max = COMMIT_BYTES_MAX;
        options.log.driver = Driver::Task { sync_delay: SyncDelay { min: sync, max: sync } };
    });
    let node = node.actor::<DraftActor>().start().await.unwrap();
    let draft = node.actor("d").unwrap();
    (node, draft)
}

/// One is being committed, one gathers behind it, and so there is no room for a third.
async fn crowd<R>(draft: &DraftRef, third: impl Future<Output = R>) -> R {
    let (first, second, third) = tokio::join!(draft.note("1".into()), draft.note("2".into()), third);
    first.unwrap();
    second.unwrap();
    third
}

#[tokio::test(start_paused = true)]
async fn a_save_that_is_given_up_behind_a_crowd_is_stored_with_the_turn() {
    let disk = SimDisk::new(1);
    let (node, draft) = start(&disk).await;
    draft.note("0".into()).await.unwrap();
    crowd(&draft, draft.write_in_haste(false)).await.unwrap();
    assert_eq!(draft.bytes("2".into()).await.unwrap(), (TEXT_BYTES, TEXT_BYTES));
    node.stop().await;
    let (node, draft) = start(&disk).await;
    assert_eq!(draft.bytes("2".into()).await.unwrap(), (TEXT_BYTES, TEXT_BYTES), "what was acknowledged is lost");
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn so_is_what_was_set_by_name() {
    let disk = SimDisk::new(1);
    let (node, draft) = start(&disk).await;
    draft.note("0".into()).await.unwrap();
    crowd(&draft, draft.note_in_haste("3".into())).await.unwrap();
    node.stop().await;
    let (node, draft) = start(&disk).await;
    assert_eq!(draft.bytes("3".into()).await.unwrap(), (5, TEXT_BYTES), "what was acknowledged is lost");
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_gives_a_save_up_and_fails_leaves_nothing_of_it() {
    let disk = SimDisk::new(1);
    let (node, draft) = start(&disk).await;
    draft.note("0".into()).await.unwrap();
    let error = crowd(&draft, draft.write_in_haste(true)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert_eq!(draft.bytes("2".into()).await.unwrap(), (0, TEXT_BYTES), "what did not happen is seen");
    // It goes on from what is stored.
    crowd(&draft, draft.write_in_haste(false)).await.unwrap();
    node.stop().await;
    let (node, draft) = start(&disk).await;
    assert_eq!(draft.bytes("2".into()).await.unwrap(), (TEXT_BYTES, TEXT_BYTES));
    node.stop().await;
}
