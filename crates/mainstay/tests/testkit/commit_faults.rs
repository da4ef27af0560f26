//! Commits that fail on purpose: those of actors and those of services.

use std::time::Duration;

use mainstay::prelude::*;
use mainstay::testkit::{CommitFault, TestNode};

#[interface]
trait Till {
    async fn put(&self, coins: u64) -> Result<u64>;
    async fn total(&self) -> Result<u64>;
}

/// What both services do: one on disk, one in memory.
macro_rules! till {
    ($name:ident, $level:literal) => {
        #[derive(Service)]
        #[service(implements(Till), partitions = singleton, persistence = $level)]
        struct $name {
            coins: Dictionary<String, u64>,
            state: StateManager,
        }

        impl Till for $name {
            async fn put(&self, coins: u64) -> Result<u64> {
                self.state
                    .transact(async |mut tx| {
                        let total = self.coins.get_for_update(&mut tx, "all").await?.map_or(0, |total| *total) + coins;
                        self.coins.set(&mut tx, "all".to_owned(), total).await?;
                        Ok(total)
                    })
                    .await
            }

            async fn total(&self) -> Result<u64> {
                self.state
                    .transact(async |mut tx| Ok(self.coins.get(&mut tx, "all").await?.map_or(0, |total| *total)))
                    .await
            }
        }
    };
}

till!(PersistedTill, "persisted");
till!(VolatileTill, "volatile");
till!(LocalTill, "none");

#[interface]
trait Purse {
    async fn put(&mut self, coins: u64) -> Result<u64>;
    async fn total(&self) -> Result<u64>;
}

#[derive(Actor)]
#[actor(implements(Purse))]
struct PurseActor {
    coins: State<u64>,
}

impl Purse for PurseActor {
    async fn put(&mut self, coins: u64) -> Result<u64> {
        *self.coins += coins;
        Ok(*self.coins)
    }

    async fn total(&self) -> Result<u64> {
        Ok(*self.coins)
    }
}

async fn start() -> TestNode {
    TestNode::start(|node| {
        node.service::<PersistedTill>().service::<VolatileTill>().service::<LocalTill>().actor::<PurseActor>()
    })
    .await
    .unwrap()
}

/// What becomes of a commit, and whether it has happened.
const FAULTS: [(CommitFault, ErrorKind, bool); 3] = [
    (CommitFault::Refused, ErrorKind::StorageFull, false),
    (CommitFault::RequestLost, ErrorKind::OutcomeUnknown, false),
    (CommitFault::AnswerLost, ErrorKind::OutcomeUnknown, true),
];

/// Calls until it is known whether it succeeds: a partition whose last commit has no known outcome is opened anew, and its callers
/// are told to retry meanwhile.
async fn settled<T, F: Future<Output = Result<T>>>(call: impl Fn() -> F) -> T {
    loop {
        match call().await {
            Err(error) if error.is_retryable() => tokio::time::sleep(Duration::from_millis(1)).await,
            outcome => return outcome.unwrap(),
        }
    }
}

#[tokio::test]
async fn a_service_is_told_of_a_commit_that_fails_and_finds_what_is_stored() {
    let node = start().await;
    for name in ["PersistedTill", "VolatileTill"] {
        let till: TillRef = node.service_named(name, ()).unwrap();
        let mut expected = till.put(1).await.unwrap();
        for (fault, kind, happens) in FAULTS {
            node.fail_next_commit_with(fault);
            assert_eq!(till.put(10).await.unwrap_err().kind(), kind, "{name} {fault:?}");
            expected += if happens { 10 } else { 0 };
            assert_eq!(settled(|| till.total()).await, expected, "{name} {fault:?}");
            expected += 1;
            assert_eq!(till.put(1).await.unwrap(), expected, "{name} {fault:?}: only one commit fails");
        }
    }
}

#[tokio::test]
async fn a_service_in_memory_alone_can_be_refused_as_well() {
    let node = start().await;
    let till: TillRef = node.service_named("LocalTill", ()).unwrap();
    assert_eq!(till.put(1).await.unwrap(), 1);
    node.fail_next_commits(2);
    assert_eq!(till.put(10).await.unwrap_err().kind(), ErrorKind::StorageFull);
    assert_eq!(till.total().await.unwrap(), 1, "who only reads commits nothing");
    assert_eq!(till.put(10).await.unwrap_err().kind(), ErrorKind::StorageFull);
    assert_eq!(till.put(10).await.unwrap(), 11);
}

#[tokio::test]
async fn an_actor_is_told_of_a_commit_that_fails_and_finds_what_is_stored() {
    let node = start().await;
    let purse: PurseRef = node.actor("alice").unwrap();
    let mut expected = purse.put(1).await.unwrap();
    for (fault, kind, happens) in FAULTS {
        node.fail_next_commit_with(fault);
        assert_eq!(purse.put(10).await.unwrap_err().kind(), kind, "{fault:?}");
        expected += if happens { 10 } else { 0 };
        assert_eq!(settled(|| purse.total()).await, expected, "{fault:?}");
        expected += 1;
        assert_eq!(purse.put(1).await.unwrap(), expected, "{fault:?}: only one commit fails");
    }
}

#[interface]
trait Shelf {
    async fn set(&mut self, bytes: usize) -> Result<()>;
    async fn sizes(&self) -> Result<(usize, usize)>;
    async fn read(&mut self, bytes: usize) -> Result<Vec<u8>>;
}

/// What is stored, and what is only in memory and stands on it.
#[derive(Actor)]
#[actor(implements(Shelf))]
struct ShelfActor {
    value: State<Vec<u8>>,
    size: usize,
    ctx: Context,
}

impl Lifecycle for ShelfActor {
    async fn activate(&mut self) -> Result<()> {
        self.size = self.value.len();
        Ok(())
    }
}

impl Shelf for ShelfActor {
    async fn set(&mut self, bytes: usize) -> Result<()> {
        *self.value = vec![1; bytes];
        self.size = bytes;
        Ok(())
    }

    async fn sizes(&self) -> Result<(usize, usize)> {
        Ok((self.value.len(), self.size))
    }

    async fn read(&mut self, bytes: usize) -> Result<Vec<u8>> {
        self.size += 1;
        self.ctx.state_mut().set("read", bytes)?;
        Ok(vec![1; bytes])
    }
}

#[tokio::test]
async fn a_turn_that_cannot_be_stored_leaves_nothing_in_memory_either() {
    let node = TestNode::start(|node| node.actor::<ShelfActor>()).await.unwrap();
    let shelf: ShelfRef = node.actor("one").unwrap();
    assert_eq!(shelf.set(5 << 20).await.unwrap_err().kind(), ErrorKind::TooLarge);
    assert_eq!(shelf.sizes().await.unwrap(), (0, 0), "one that is new");
    shelf.set(7).await.unwrap();
    assert_eq!(shelf.set(5 << 20).await.unwrap_err().kind(), ErrorKind::TooLarge);
    assert_eq!(shelf.sizes().await.unwrap(), (7, 7));
    assert_eq!(shelf.idempotent("key").read(5 << 20).await.unwrap_err().kind(), ErrorKind::TooLarge);
    assert_eq!(shelf.sizes().await.unwrap(), (7, 7), "its answer could not be stored");
}
