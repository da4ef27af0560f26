//! On several threads and in real time, where nothing waits for its turn by chance.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use mainstay::prelude::*;
use mainstay_governance::resolve::{self, PhysicalResource, Resolver, ResolverSettings};
use parking_lot::Mutex;
use tokio::task::JoinHandle;

const ENTITY: i64 = 7;

/// How often the partition of the entity is moved.
const MOVES: u64 = 30;

/// Where the entity is, and how often that has begun or ended to change: even while it does not.
#[derive(Default)]
struct Truth {
    home: Mutex<(u64, &'static str)>,
    is_over: AtomicBool,
    checked: AtomicU64,
    wrong: AtomicU64,
}

impl Truth {
    fn begin(&self) {
        self.home.lock().0 += 1;
    }

    fn end(&self, home: &'static str) {
        let mut now = self.home.lock();
        *now = (now.0 + 1, home);
    }
}

/// Uses the entity: what was called after a move has returned, and ran before the next began, must be at its home.
async fn use_entity(users: Resolver, truth: Arc<Truth>) {
    while !truth.is_over.load(Ordering::SeqCst) {
        let (before, home) = *truth.home.lock();
        let check = async |resolution: resolve::Resolution| {
            let (now, _) = *truth.home.lock();
            if before == now && before % 2 == 0 {
                truth.checked.fetch_add(1, Ordering::SeqCst);
                truth.wrong.fetch_add(u64::from(resolution.resource.name != home), Ordering::SeqCst);
            }
            Ok(())
        };
        users.with(ENTITY, check).await.unwrap();
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_begins_at_the_old_home_on_any_thread_once_a_move_has_returned() {
    let folder = tempfile::tempdir().unwrap();
    let builder = Node::builder().isolated().data_dir(folder.path());
    let node = resolve::serve(builder).start().await.unwrap();
    let open = || Resolver::open(&node, "users", ResolverSettings::default());
    let mover = open().await.unwrap();
    for name in ["db1", "db2"] {
        mover.add_resource(PhysicalResource::new(name)).await.unwrap();
    }
    mover.assign(ENTITY, "db1").await.unwrap();
    let partition = mover.resolve(ENTITY).await.unwrap().partition;
    let truth = Arc::new(Truth::default());
    *truth.home.lock() = (0, "db1");
    let mut tasks: Vec<JoinHandle<()>> = Vec::new();
    for _ in 0..4 {
        tasks.push(tokio::spawn(use_entity(open().await.unwrap(), truth.clone())));
    }
    for round in 0..MOVES {
        let target = if round % 2 == 0 { "db2" } else { "db1" };
        truth.begin();
        mover.move_partition(partition, target).await.unwrap();
        truth.end(target);
        // Until somebody has looked, so that every move is followed.
        let checked = truth.checked.load(Ordering::SeqCst);
        while truth.checked.load(Ordering::SeqCst) < checked + 4 {
            assert!(!tasks.iter().any(JoinHandle::is_finished), "they look until they are told");
            tokio::task::yield_now().await;
        }
    }
    truth.is_over.store(true, Ordering::SeqCst);
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(truth.wrong.load(Ordering::SeqCst), 0, "of {}", truth.checked.load(Ordering::SeqCst));
    node.stop().await;
}
