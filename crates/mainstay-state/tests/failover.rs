//! A partition whose primary changes while transactions are under way.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::pin::Pin;
use std::sync::Arc;

use mainstay_core::task::Scope;
use mainstay_core::time::{self, Duration};
use mainstay_core::{ActorId, ClusterId, ErrorKind, Level, NodeId, PartitionId, Result, SequenceNumber};
use mainstay_replica::{
    InProcessNetwork, KeyRange, Order, Partition, RealDisk, ReplicaOptions, Role, UniformSets, UniformSetsOptions,
};
use mainstay_state::actor::{ActorStore, ActorWrites};
use mainstay_state::{ConcurrentQueue, Dictionary, StateManager};

const CLUSTER: ClusterId = ClusterId(1);
const NODES: [NodeId; 3] = [NodeId(1), NodeId(2), NodeId(3)];

struct Cluster {
    network: InProcessNetwork,
    nodes: Vec<UniformSets>,
    _folders: Vec<tempfile::TempDir>,
}

impl Cluster {
    async fn start() -> Self {
        Self::start_with(ReplicaOptions::default()).await
    }

    /// Starts one in which the others wait for the first node for longer than it is ever cut off.
    async fn start_led_by_the_first() -> Self {
        let mut options = ReplicaOptions::default();
        // The lease is half of it: long enough to begin something after the first was cut off.
        options.timing.election_timeout_min = Duration::from_secs(9);
        options.timing.election_timeout_max = Duration::from_secs(10);
        Self::start_with(options).await
    }

    async fn start_with(replica: ReplicaOptions) -> Self {
        let network = InProcessNetwork::new();
        let (mut nodes, mut folders) = (Vec::new(), Vec::new());
        for node in NODES {
            let folder = tempfile::tempdir().unwrap();
            let options = UniformSetsOptions {
                cluster: Some(CLUSTER),
                sets_per_level: 1,
                replica: replica.clone(),
                ..UniformSetsOptions::new(node)
            };
            let disk = Arc::new(RealDisk);
            let replicas = UniformSets::open(disk, folder.path(), options, network.endpoint(node)).await.unwrap();
            let handler = replicas.clone();
            let receive = move |from, set, request| -> std::pin::Pin<Box<dyn Future<Output = _> + Send>> {
                let replicas = handler.clone();
                Box::pin(async move { replicas.receive(from, set, request).await })
            };
            network.attach(node, Scope::new(), Arc::new(receive));
            match nodes.is_empty() {
                true => replicas.bootstrap().await.unwrap(),
                false => replicas.join(&NODES[..=nodes.len()]).await.unwrap(),
            }
            nodes.push(replicas);
            folders.push(folder);
        }
        Self { network, nodes, _folders: folders }
    }

    fn partition(&self, node: usize, level: Level) -> Partition {
        self.nodes[node].partition(level, PartitionId(0))
    }

    /// The one for actors, in the same set.
    fn actors(&self, node: usize, level: Level) -> Partition {
        self.nodes[node].partition(level, PartitionId(1))
    }

    /// The node that is primary, out of some.
    async fn primary(&self, level: Level, among: &[usize]) -> usize {
        let found = async {
            loop {
                for node in among {
                    if self.partition(*node, level).check().is_ok() {
                        return *node;
                    }
                }
                time::sleep(Duration::from_millis(20)).await;
            }
        };
        time::timeout(Duration::from_secs(60), found).await.expect("a primary within a minute")
    }

    fn cut_off(&self, node: usize) {
        for other in NODES {
            self.network.cut(NODES[node], other);
            self.network.cut(other, NODES[node]);
        }
    }

    async fn stop(self) {
        for replicas in &self.nodes {
            replicas.stop().await;
        }
    }
}

async fn value(state: &StateManager, numbers: &Dictionary<String, u64>, key: &str) -> Option<u64> {
    numbers.get(&mut state.begin(), key).await.unwrap().as_deref().copied()
}

#[tokio::test]
async fn a_commit_under_way_when_the_primary_is_lost_has_an_unknown_outcome() {
    let cluster = Cluster::start().await;
    for level in [Level::Persisted, Level::Volatile] {
        let old = cluster.primary(level, &[0, 1, 2]).await;
        let state = StateManager::open(cluster.partition(old, level)).await.unwrap();
        let numbers: Dictionary<String, u64> = state.collection("numbers").await.unwrap();
        let mut tx = state.begin();
        numbers.set(&mut tx, "kept".into(), 1).await.unwrap();
        tx.commit().await.unwrap();

        // Three transactions: one on its way when the others cannot be reached, one that has not been committed, one begun.
        let mut late = state.begin();
        numbers.set(&mut late, "late".into(), 3).await.unwrap();
        cluster.cut_off(old);
        let mut tx = state.begin();
        numbers.set(&mut tx, "unknown".into(), 2).await.unwrap();
        let error = tx.commit().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");

        // Whoever is cut off neither reads nor writes.
        cluster.partition(old, level).watch().wait_for(|role_state| role_state.role != Role::Primary).await.unwrap();
        let error = numbers.get(&mut state.begin(), "kept").await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::NotPrimary { .. }), "{error}");
        let error = late.commit().await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::NotPrimary { .. }), "{error}");

        let others: Vec<usize> = (0..NODES.len()).filter(|node| *node != old).collect();
        let new = cluster.primary(level, &others).await;
        let after = StateManager::open(cluster.partition(new, level)).await.unwrap();
        let numbers_after: Dictionary<String, u64> = after.collection("numbers").await.unwrap();
        assert_eq!(value(&after, &numbers_after, "kept").await, Some(1));
        assert_eq!(value(&after, &numbers_after, "late").await, None);
        let unknown = value(&after, &numbers_after, "unknown").await;
        let mut tx = after.begin();
        assert_eq!(numbers_after.len(&mut tx).await.unwrap(), 1 + u64::from(unknown.is_some()));
        numbers_after.set(&mut tx, "kept".into(), 10).await.unwrap();
        tx.commit().await.unwrap();

        // The old one stays closed, also where it can be reached again.
        cluster.network.heal();
        let error = numbers.get(&mut state.begin(), "kept").await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::NotPrimary { .. }), "{error}");
        assert_eq!(value(&after, &numbers_after, "kept").await, Some(10));
    }
    cluster.stop().await;
}

#[tokio::test]
async fn actors_of_a_lost_primary_are_neither_read_nor_written() {
    let cluster = Cluster::start().await;
    let (level, id) = (Level::Volatile, ActorId::from(7));
    let writes = |state: &str| {
        let mut writes = ActorWrites::new(id.clone());
        writes.put_state(state, "1".into()).unwrap();
        writes
    };
    let old = cluster.primary(level, &[0, 1, 2]).await;
    let store = ActorStore::open(cluster.actors(old, level)).await.unwrap();
    store.commit(&writes("kept")).await.unwrap();

    cluster.cut_off(old);
    let error = store.commit(&writes("unknown")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
    let others: Vec<usize> = (0..NODES.len()).filter(|node| *node != old).collect();
    let new = cluster.primary(level, &others).await;
    let after = ActorStore::open(cluster.actors(new, level)).await.unwrap();
    assert!(after.state(&id, "kept").unwrap().is_some());

    // Once it can be reached again it knows of the other one, and may even become primary: in another epoch.
    cluster.network.heal();
    for error in [store.state(&id, "kept").unwrap_err(), store.commit(&writes("late")).await.unwrap_err()] {
        assert!(matches!(error.kind(), ErrorKind::NotPrimary { .. }), "{error}");
    }
    assert!(after.state(&id, "late").unwrap().is_none());
    assert!(after.epoch() > store.epoch());
    cluster.stop().await;
}

/// Waits until a partition is primary, or is not.
async fn until(partition: &Partition, role: Role) {
    partition.watch().wait_for(|role_state| role_state.role == role).await.unwrap();
}

#[tokio::test]
async fn an_unknown_outcome_closes_the_state_even_if_the_same_primary_goes_on() {
    let cluster = Cluster::start_led_by_the_first().await;
    for level in [Level::Persisted, Level::Volatile] {
        let partition = cluster.partition(0, level);
        until(&partition, Role::Primary).await;
        let state = StateManager::open(partition.clone()).await.unwrap();
        let (numbers, others): (Dictionary<String, u64>, Dictionary<String, u64>) =
            (state.collection("numbers").await.unwrap(), state.collection("others").await.unwrap());
        let jobs: ConcurrentQueue<u64> = state.collection("jobs").await.unwrap();
        let epoch = partition.check().unwrap();

        cluster.cut_off(0);
        let mut drop_it = state.begin();
        state.drop_collection(&mut drop_it, "numbers").await.unwrap();
        let gates = state.gates();
        let (dropped, switched) = tokio::join!(drop_it.commit(), gates.switch_on("new"));
        assert_eq!(dropped.unwrap_err().kind(), ErrorKind::OutcomeUnknown);
        assert_eq!(switched.unwrap_err().kind(), ErrorKind::OutcomeUnknown);
        until(&partition, Role::Secondary).await;
        cluster.network.heal();
        until(&partition, Role::Primary).await;
        assert_eq!(partition.check().unwrap(), epoch, "nobody else was primary");

        // What is known here of the collection and the gate may be wrong, so it is not used any more.
        for numbers in [&numbers, &others] {
            let mut tx = state.begin();
            let error = numbers.set(&mut tx, "late".into(), 1).await.unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::NotPrimary { .. }), "{error}");
        }
        let mut tx = state.begin();
        let error = jobs.enqueue(&mut tx, 1).await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::NotPrimary { .. }), "{error}");

        // Whoever opens it again finds what is true, while the old handles are around.
        let state = StateManager::open(partition.clone()).await.unwrap();
        let names: Vec<String> = state.collections().unwrap().into_iter().map(|info| info.name).collect();
        let numbers: Dictionary<String, u64> = state.collection("numbers").await.unwrap();
        let mut tx = state.begin();
        numbers.set(&mut tx, "kept".into(), 1).await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!(value(&state, &numbers, "kept").await, Some(1));
        assert!(names.iter().any(|name| name == "others"), "{names:?}");
        state.gates().switch_on("new").await.unwrap();
        assert!(state.gates().is_on("new"));
    }
    cluster.stop().await;
}

#[tokio::test]
async fn what_expires_is_removed_after_the_same_primary_was_away() {
    let cluster = Cluster::start_led_by_the_first().await;
    let partition = cluster.partition(0, Level::Volatile);
    until(&partition, Role::Primary).await;
    let state = StateManager::open(partition.clone()).await.unwrap();
    let numbers: Dictionary<String, u64> = state.collection("numbers").await.unwrap();
    // With the lease it is shorter than the time for which the others wait for the first node.
    let ttl = Duration::from_secs(2);
    let mut tx = state.begin();
    numbers.set_with_ttl(&mut tx, "a".into(), 1, ttl).await.unwrap();
    tx.commit().await.unwrap();
    // By the first byte of its key.
    let stored = || partition.snapshot().unwrap().scan(KeyRange::prefix(&[0x10]), Order::Ascending).unwrap().count();
    assert_eq!(stored(), 1);
    cluster.cut_off(0);
    until(&partition, Role::Secondary).await;
    // Its time comes while nobody can remove it.
    time::sleep(ttl).await;
    cluster.network.heal();
    until(&partition, Role::Primary).await;
    let removed = async {
        while stored() > 0 {
            time::sleep(Duration::from_millis(20)).await;
        }
    };
    time::timeout(Duration::from_secs(60), removed).await.expect("it is removed within a minute");
    drop((state, numbers));
    cluster.stop().await;
}

type Commit = Pin<Box<dyn Future<Output = Result<SequenceNumber>> + Send>>;

/// Lets a commit, which cannot end, be begun and dropped somewhere, and returns what a reader of the same key is told then.
async fn begun_and_dropped<F: Future<Output = ()>>(home: Scope, somewhere: impl FnOnce(Commit) -> F) -> ErrorKind {
    let cluster = Cluster::start_led_by_the_first().await;
    let partition = cluster.partition(0, Level::Volatile);
    until(&partition, Role::Primary).await;
    let state = home.enter(StateManager::open(partition.clone())).await.unwrap();
    let numbers: Dictionary<String, u64> = state.collection("numbers").await.unwrap();
    // So it cannot end before it is dropped.
    cluster.cut_off(0);
    let mut tx = state.begin();
    numbers.set(&mut tx, "a".into(), 1).await.unwrap();
    somewhere(Box::pin(tx.commit())).await;
    let told = numbers.get(state.begin().within(Duration::ZERO), "a").await.unwrap_err();
    // Nobody hears of its outcome but the state.
    state.closed().await;
    cluster.network.heal();
    cluster.stop().await;
    told.kind()
}

fn begin(commit: &mut Commit) {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(commit.as_mut().poll(&mut context).is_pending());
}

/// Runs something on a thread that is of no runtime.
fn apart(work: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().spawn(work).unwrap().join().unwrap();
}

#[tokio::test]
async fn a_commit_that_is_dropped_where_no_runtime_is_keeps_its_locks_until_it_has_ended() {
    let dropped = begun_and_dropped(Scope::new(), async |mut commit| {
        begin(&mut commit);
        apart(move || drop(commit));
    });
    assert_eq!(dropped.await, ErrorKind::Timeout);
}

#[tokio::test]
async fn a_commit_that_was_begun_where_no_runtime_is_keeps_its_locks_when_it_is_dropped() {
    let dropped = begun_and_dropped(Scope::new(), async |mut commit| {
        apart(move || begin(&mut commit));
    });
    assert_eq!(dropped.await, ErrorKind::Timeout);
}

#[tokio::test]
async fn a_commit_keeps_its_locks_when_the_runtime_ends_that_it_was_begun_on() {
    let dropped = begun_and_dropped(Scope::new(), async |mut commit| {
        apart(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async { begin(&mut commit) });
            drop(runtime);
        });
    });
    assert_eq!(dropped.await, ErrorKind::Timeout);
}

#[tokio::test]
async fn a_commit_keeps_its_locks_when_the_task_is_stopped_that_waits_for_it() {
    let dropped = begun_and_dropped(Scope::new(), async |mut commit| {
        let scope = Scope::new();
        let (begun, has_begun) = tokio::sync::oneshot::channel();
        drop(scope.spawn(async move {
            begin(&mut commit);
            begun.send(()).unwrap();
            commit.await
        }));
        has_begun.await.unwrap();
        scope.stop();
        scope.ended().await;
    });
    assert_eq!(dropped.await, ErrorKind::Timeout);
}

#[tokio::test]
async fn a_commit_that_nobody_can_wait_for_closes_the_state_before_its_locks_are_released() {
    let home = Scope::new();
    let dropped = begun_and_dropped(home.clone(), async |mut commit| {
        begin(&mut commit);
        home.stop();
        drop(commit);
        home.ended().await;
    });
    let told = dropped.await;
    assert!(matches!(told, ErrorKind::NotPrimary { .. }), "{told:?}");
}
