//! What gathers behind a commit has its limits, and nobody fails for what somebody else has changed.

use futures_util::future::join_all;
use mainstay::partition::{Driver, SimDisk, SyncDelay};
use mainstay::prelude::*;
use mainstay_core::time::Duration;
use mainstay_store::disk::sim::{DiskOp, Fault};

use crate::harness::on;

/// What a commit may have.
const COMMIT_BYTES_MAX: usize = 100_000;

/// How many may wait for a commit: `WAITING_MAX` of the gate.
const WAITING_MAX: usize = 16 << 10;

const MAILBOX: usize = 100;

#[interface]
trait Store {
    async fn set(&mut self, name: String, bytes: u32) -> Result<()>;
    async fn size(&self, name: String) -> Result<Option<u64>>;
    /// Fails.
    async fn refuse(&mut self) -> Result<()>;
}

#[derive(Actor)]
#[actor(implements(Store), partitions = 1)]
struct StoreActor {
    ctx: Context,
}

impl Store for StoreActor {
    async fn set(&mut self, name: String, bytes: u32) -> Result<()> {
        self.ctx.state_mut().set(&name, "x".repeat(bytes as usize))
    }

    async fn size(&self, name: String) -> Result<Option<u64>> {
        Ok(self.ctx.state().try_get::<String>(&name)?.map(|value| value.len() as u64))
    }

    async fn refuse(&mut self) -> Result<()> {
        Err(Error::invalid("no"))
    }
}

async fn start(disk: &SimDisk, sync: Duration) -> (Node, StoreRef) {
    let limited = on(disk).host_options(move |options| {
        options.replica.commit.commit_bytes_max = COMMIT_BYTES_MAX;
        options.log.driver = Driver::Task { sync_delay: SyncDelay { min: sync, max: sync } };
    });
    let limited = limited.actor::<StoreActor>().actor_defaults(|settings| settings.mailbox = MAILBOX);
    let node = limited.start().await.unwrap();
    // What the node itself commits in its first start shares the log, and with slow syncs the time of calls.
    while !node.cluster().unwrap().is_settled() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let store: StoreRef = node.actor("s").unwrap();
    store.set("first".into(), 1).await.unwrap();
    (node, store)
}

#[tokio::test(start_paused = true)]
async fn turns_that_are_too_large_for_one_commit_are_committed_one_after_another() {
    let disk = SimDisk::new(1);
    let (_node, store) = start(&disk, Duration::from_millis(1)).await;
    let sets = (0..12).map(|number| store.set(format!("large {number}"), 30_000));
    for set in join_all(sets).await {
        set.unwrap();
    }
    for number in 0..12 {
        assert_eq!(store.size(format!("large {number}")).await.unwrap(), Some(30_000));
    }
}

#[tokio::test(start_paused = true)]
async fn only_who_made_a_commit_that_is_too_large_is_told_so() {
    let disk = SimDisk::new(1);
    let (_node, store) = start(&disk, Duration::from_millis(1)).await;
    let (first, large, read, refused, small) = tokio::join!(
        store.set("first".into(), 2),
        store.set("large".into(), 200_000),
        store.size("large".into()),
        store.refuse(),
        store.set("small".into(), 10),
    );
    first.unwrap();
    assert_eq!(large.unwrap_err().kind(), ErrorKind::TooLarge);
    // They have seen what was lost, and had nothing to do with it.
    for error in [read.unwrap_err(), refused.unwrap_err(), small.unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::Retry, "{error}");
    }
    store.set("small".into(), 10).await.unwrap();
    assert_eq!((store.size("first".into()).await.unwrap(), store.size("large".into()).await.unwrap()), (Some(2), None));
}

#[tokio::test(start_paused = true)]
async fn who_gathered_behind_a_commit_that_fails_on_its_way_is_told_to_retry() {
    let disk = SimDisk::new(1);
    let (_node, store) = start(&disk, Duration::from_millis(1)).await;
    disk.inject(Fault::on(DiskOp::Sync).times(u64::MAX));
    let (first, behind) = tokio::join!(store.set("first".into(), 2), store.set("behind".into(), 1));
    // Only the first may have happened.
    assert_eq!(first.unwrap_err().kind(), ErrorKind::OutcomeUnknown);
    assert_eq!(behind.unwrap_err().kind(), ErrorKind::Retry);
}

#[tokio::test(start_paused = true)]
async fn behind_a_commit_that_takes_long_so_many_gather_and_the_others_wait_in_line() {
    let disk = SimDisk::new(1);
    let (_node, store) = start(&disk, Duration::from_secs(10)).await;
    // One is committed, so many gather behind it, one keeps the actor, and the mailbox has room for some.
    let admitted = 1 + WAITING_MAX + 1 + MAILBOX;
    let sets = (0..admitted + 7).map(|number| store.set("counted".into(), (number % 10) as u32));
    let (mut done, mut refused) = (0, 0);
    for set in join_all(sets).await {
        match set {
            Ok(()) => done += 1,
            Err(error) if error.kind() == ErrorKind::Overloaded => refused += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!((done, refused), (admitted, 7));
}
