//! Real threads. What they check is what cannot be checked one poll at a time: that the locks of the lock manager
//! itself are taken rightly.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::task::Poll;

use mainstay_core::random;
use mainstay_core::time::Duration;
use mainstay_core::{ErrorKind, Result};
use mainstay_replica::Key;
use rand::RngExt as _;

use super::driver::{Owner, collection, key, table};
use crate::layout::CollectionId;
use crate::lock::LockMode::{self, Exclusive, Shared, Update};
use crate::lock::{LockTable, TransactionId};

const THREADS: u64 = 4;
const TASKS_PER_THREAD: usize = 4;
const TRANSACTIONS_PER_TASK: u64 = 400;
const KEYS: usize = 5;

/// So long that only what stands still for good reaches it.
const LIMIT: Duration = Duration::from_secs(60);

/// A key, the collection that it stands for if it does, and who is at it: each sharer counts one, an update a thousand, a writer a million.
struct Guarded {
    key: Key,
    collection: Option<CollectionId>,
    inside: AtomicI64,
}

const UPDATE: i64 = 1_000;
const WRITER: i64 = 1_000_000;

fn weight(mode: LockMode) -> i64 {
    match mode {
        Shared => 1,
        Update => UPDATE,
        Exclusive => WRITER,
    }
}

impl Guarded {
    fn enter(&self, mode: LockMode, former: Option<LockMode>) {
        let change = weight(mode) - former.map_or(0, weight);
        let inside = self.inside.fetch_add(change, Ordering::SeqCst) + change;
        match mode {
            // An update may have joined between the grant and this line.
            Shared => assert!(inside < WRITER, "a reader joined {inside}"),
            Update => assert!(inside < 2 * UPDATE, "an update joined {inside}"),
            Exclusive => assert_eq!(inside, WRITER, "a writer is not alone"),
        }
    }

    fn leave(&self, mode: LockMode) {
        self.inside.fetch_sub(weight(mode), Ordering::SeqCst);
    }
}

struct World {
    table: Arc<LockTable>,
    keys: Vec<Guarded>,
    ids: AtomicU64,
    deadlocks: AtomicU64,
    dropped: AtomicU64,
}

/// Acquires, or drops the future when it was polled a few times without an end.
async fn acquire(owner: &mut Owner, guarded: &Guarded, mode: LockMode, polls: Option<u32>) -> Option<Result<()>> {
    let Guarded { key, collection, .. } = guarded;
    match collection {
        Some(collection) if mode == Shared && owner.try_share(*collection) => return Some(Ok(())),
        Some(_) if mode != Shared => owner.bar(),
        _ => {}
    }
    let mut future = pin!(owner.acquire(key, mode, LIMIT, || format!("{key:?}")));
    let mut left = polls;
    std::future::poll_fn(|context| {
        if left == Some(0) {
            return Poll::Ready(None);
        }
        left = left.map(|left| left - 1);
        if left.is_some() {
            // To be polled again soon, whether granted or not.
            context.waker().wake_by_ref();
        }
        future.as_mut().poll(context).map(Some)
    })
    .await
}

async fn transaction(world: &World) {
    let id = world.ids.fetch_add(1, Ordering::Relaxed);
    let mut owner = Owner::new(world.table.clone(), TransactionId(id));
    let mut entered = [None; KEYS];
    for _ in 0..random::rng().random_range(1..5) {
        let n = random::rng().random_range(0..KEYS);
        // A collection is shared, mostly.
        let modes =
            if world.keys[n].collection.is_some() { [Shared, Shared, Exclusive] } else { [Shared, Update, Exclusive] };
        let mode = modes[random::rng().random_range(0..3)];
        let polls = random::rng().random_bool(0.2).then(|| random::rng().random_range(1..4));
        match acquire(&mut owner, &world.keys[n], mode, polls).await {
            Some(Ok(())) => {
                if entered[n].is_none_or(|held| held < mode) {
                    world.keys[n].enter(mode, entered[n]);
                    entered[n] = Some(mode);
                }
            }
            Some(Err(error)) => {
                assert_eq!(error.kind(), ErrorKind::Retry, "stands still: {error}");
                world.deadlocks.fetch_add(1, Ordering::Relaxed);
                break;
            }
            None => {
                world.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
        assert_eq!(owner.holds(&world.keys[n].key), entered[n]);
        tokio::task::yield_now().await;
    }
    for (n, mode) in entered.into_iter().enumerate() {
        if let Some(mode) = mode {
            world.keys[n].leave(mode);
        }
    }
}

#[test]
fn threads_exclude_each_other_and_none_stands_still() {
    let keys = (0..KEYS).map(|n| {
        let name = ["stock", "orders"].get(n).map_or_else(|| format!("key {n}"), |name| (*name).to_owned());
        Guarded { key: key(&name), collection: collection(&name), inside: AtomicI64::new(0) }
    });
    let world = World {
        table: table(),
        keys: keys.collect(),
        ids: AtomicU64::new(0),
        deadlocks: AtomicU64::new(0),
        dropped: AtomicU64::new(0),
    };
    let task = || async {
        for _ in 0..TRANSACTIONS_PER_TASK {
            transaction(&world).await;
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
                runtime.block_on(async {
                    // Several at once on each thread, so that more wait than there are threads.
                    let mut tasks: Vec<_> = (0..TASKS_PER_THREAD).map(|_| Box::pin(task())).collect();
                    std::future::poll_fn(|context| {
                        tasks.retain_mut(|task| task.as_mut().poll(context).is_pending());
                        if tasks.is_empty() { Poll::Ready(()) } else { Poll::Pending }
                    })
                    .await;
                });
            });
        }
    });
    assert_eq!(world.ids.into_inner(), THREADS * TASKS_PER_THREAD as u64 * TRANSACTIONS_PER_TASK);
    assert!(world.deadlocks.into_inner() > 0 && world.dropped.into_inner() > 0, "too tame to say anything");
    let left = (world.table.len(), world.table.listed(), world.table.waits().len());
    assert_eq!(left, (0, 0, 0), "something was left behind");
    assert!(world.keys.iter().all(|key| key.inside.load(Ordering::SeqCst) == 0));
}
