//! No answer without a lease: what has no commit behind it leaves only while no other node can be primary.

use mainstay::prelude::*;
use mainstay_core::task;
use mainstay_core::time::{self, Duration};
use mainstay_runtime::ServiceType;

use crate::harness::{Cluster, PATIENCE, Process};

/// Longer than an election takes, and shorter than a turn may take that is under way when its node loses the role.
const ELECTION: Duration = Duration::from_millis(4_500);

#[interface]
trait Register {
    async fn set(&mut self, value: u64) -> Result<u64>;
    async fn get(&self) -> Result<u64>;
    async fn look(&mut self) -> Result<u64>;
    async fn refuse(&mut self) -> Result<()>;
    async fn get_after(&self, pause: Duration) -> Result<u64>;
    async fn look_after(&mut self, pause: Duration) -> Result<u64>;
    async fn refuse_after(&mut self, pause: Duration) -> Result<()>;
    async fn promise_after(&mut self, pause: Duration) -> Result<Deferred<u64>>;
    async fn ask_then_wait(&self, other: String, pause: Duration) -> Result<u64>;
}

#[derive(Actor)]
#[actor(implements(Register), partitions = 1)]
struct RegisterActor {
    value: State<u64>,
    context: Context,
}

impl RegisterActor {
    fn refusal(&self) -> Error {
        Error::invalid(format!("the value is {}", *self.value))
    }
}

impl Register for RegisterActor {
    async fn set(&mut self, value: u64) -> Result<u64> {
        *self.value = value;
        Ok(value)
    }

    async fn get(&self) -> Result<u64> {
        Ok(*self.value)
    }

    async fn look(&mut self) -> Result<u64> {
        Ok(*self.value)
    }

    async fn refuse(&mut self) -> Result<()> {
        Err(self.refusal())
    }

    async fn get_after(&self, pause: Duration) -> Result<u64> {
        time::sleep(pause).await;
        Ok(*self.value)
    }

    async fn look_after(&mut self, pause: Duration) -> Result<u64> {
        time::sleep(pause).await;
        Ok(*self.value)
    }

    async fn refuse_after(&mut self, pause: Duration) -> Result<()> {
        time::sleep(pause).await;
        Err(self.refusal())
    }

    async fn promise_after(&mut self, pause: Duration) -> Result<Deferred<u64>> {
        let (promise, responder) = mainstay::actor::deferred();
        let value = *self.value;
        task::spawn(async move {
            time::sleep(pause).await;
            responder.respond(Ok(value));
        });
        Ok(promise)
    }

    async fn ask_then_wait(&self, other: String, pause: Duration) -> Result<u64> {
        self.context.actor::<RegisterRef>(other)?.get().await?;
        time::sleep(pause).await;
        Ok(*self.value)
    }
}

#[interface]
trait Table {
    async fn put(&self, value: u64) -> Result<u64>;
    async fn read(&self) -> Result<u64>;
    async fn read_after(&self, pause: Duration) -> Result<u64>;
    async fn put_then_wait(&self, value: u64, pause: Duration) -> Result<u64>;
}

#[derive(Service)]
#[service(implements(Table), partitions = singleton)]
struct TableService {
    numbers: Dictionary<String, u64>,
    state: StateManager,
}

impl Table for TableService {
    async fn put(&self, value: u64) -> Result<u64> {
        self.state.transact(async |mut tx| self.numbers.set(&mut tx, "value".to_owned(), value).await).await?;
        Ok(value)
    }

    async fn read(&self) -> Result<u64> {
        let read = self.state.transact(async |mut tx| self.numbers.get(&mut tx, "value").await).await?;
        Ok(read.map_or(0, |value| *value))
    }

    async fn read_after(&self, pause: Duration) -> Result<u64> {
        let value = self.read().await?;
        time::sleep(pause).await;
        Ok(value)
    }

    async fn put_then_wait(&self, value: u64, pause: Duration) -> Result<u64> {
        self.put(value).await?;
        time::sleep(pause).await;
        Ok(value)
    }
}

fn types() -> Vec<ServiceType> {
    vec![ServiceType::of_actor::<RegisterActor>().unwrap(), ServiceType::of::<TableService>().unwrap()]
}

fn register(process: &Process, id: &str) -> RegisterRef {
    process.services.actor(id).unwrap()
}

fn table(process: &Process) -> TableRef {
    process.services.service(()).unwrap()
}

#[track_caller]
fn assert_not_primary<T: std::fmt::Debug>(answer: Result<T>) {
    let error = answer.expect_err("an answer without a lease");
    assert!(matches!(error.kind(), ErrorKind::NotPrimary { .. }), "{error}");
}

/// Waits until a call is answered again.
async fn until_ok<T, F: Future<Output = Result<T>>>(mut call: impl FnMut() -> F) -> T {
    let answered = async {
        loop {
            match call().await {
                Ok(answer) => return answer,
                Err(error) => assert!(matches!(error.kind(), ErrorKind::NotPrimary { .. }), "{error}"),
            }
            time::sleep(Duration::from_millis(10)).await;
        }
    };
    time::timeout(PATIENCE, answered).await.expect("an answer in time")
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_outlasts_the_lease_answers_nothing_from_memory() {
    let cluster = Cluster::start(3, types).await;
    let old = cluster.primary().await;
    for id in ["shared", "exclusive", "refusing", "promising", "asking", "asked"] {
        assert_eq!(register(old, id).set(1).await.unwrap(), 1);
    }
    assert_eq!(table(old).put(1).await.unwrap(), 1);
    cluster.isolate(old.node);

    let calls = async {
        let [shared, exclusive, refusing, promising, asking] =
            ["shared", "exclusive", "refusing", "promising", "asking"].map(|id| register(old, id));
        let table = table(old);
        tokio::join!(
            shared.get_after(ELECTION),
            exclusive.look_after(ELECTION),
            refusing.refuse_after(ELECTION),
            promising.promise_after(ELECTION),
            asking.ask_then_wait("asked".to_owned(), ELECTION),
            table.read_after(ELECTION),
        )
    };
    let others = async {
        let new = cluster.primary_except(&[old.node]).await;
        for id in ["shared", "exclusive", "refusing", "promising"] {
            assert_eq!(register(new, id).set(2).await.unwrap(), 2);
        }
        assert_eq!(table(new).put(2).await.unwrap(), 2);
        time::now()
    };
    let begun = time::now();
    let (answers, written) = tokio::join!(calls, others);
    assert!(written < begun + ELECTION, "the others have written before the calls end: {:?}", written - begun);

    let (shared, exclusive, refusing, promising, asking, read) = answers;
    assert_not_primary(shared);
    assert_not_primary(exclusive);
    assert_not_primary(refusing);
    assert_not_primary(promising);
    assert_not_primary(read);
    // It has called another, so that repeating it may do something twice.
    assert_eq!(asking.unwrap_err().kind(), ErrorKind::OutcomeUnknown);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_service_call_that_has_committed_is_not_to_be_repeated_blindly() {
    let cluster = Cluster::start(3, types).await;
    let old = cluster.primary().await;
    let table = table(old);
    let call = async { table.put_then_wait(1, ELECTION).await };
    let cut = async {
        while table.read().await.unwrap() == 0 {
            time::sleep(Duration::from_millis(1)).await;
        }
        cluster.isolate(old.node);
    };
    let (answer, ()) = tokio::join!(call, cut);
    assert_eq!(answer.unwrap_err().kind(), ErrorKind::OutcomeUnknown);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_was_suspended_answers_nothing_from_memory() {
    let cluster = Cluster::start(3, types).await;
    let primary = cluster.primary().await;
    let (register, table) = (register(primary, "a"), table(primary));
    register.set(1).await.unwrap();
    table.put(1).await.unwrap();
    assert_eq!((register.get().await.unwrap(), register.look().await.unwrap()), (1, 1));
    assert_eq!(table.read().await.unwrap(), 1);
    // A state that is kept in memory, beside the services.
    let state = StateManager::open(primary.partition()).await.unwrap();
    let numbers: Dictionary<String, u64> = state.collection("numbers").await.unwrap();
    state.transact(async |mut tx| numbers.set(&mut tx, "a".to_owned(), 1).await).await.unwrap();
    let read = || async {
        let mut tx = state.begin();
        numbers.get(&mut tx, "a").await.map(|value| value.map(|value| *value))
    };
    assert_eq!(read().await.unwrap(), Some(1));

    // Others may have elected a primary by the time this machine is awake again.
    let suspend = || time::suspend_thread(Duration::from_secs(60));
    suspend();
    assert_not_primary(register.get().await);
    assert_not_primary(register.look().await);
    assert_not_primary(register.refuse().await);
    assert_not_primary(table.read().await);
    assert_not_primary(read().await);
    assert_not_primary(primary.partition().get(b"a"));
    assert_not_primary(primary.partition().read());

    // No other has: a quorum says so again.
    assert_eq!(until_ok(|| register.get()).await, 1);
    assert_eq!(until_ok(|| register.look()).await, 1);
    assert_eq!(until_ok(|| table.read()).await, 1);
    assert_eq!(until_ok(&read).await, Some(1));
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_alone_answers_after_a_suspension() {
    let cluster = Cluster::start(1, types).await;
    let primary = cluster.primary().await;
    let (register, table) = (register(primary, "a"), table(primary));
    register.set(1).await.unwrap();
    table.put(1).await.unwrap();
    time::suspend_thread(Duration::from_secs(60));
    assert_eq!((register.get().await.unwrap(), register.look().await.unwrap()), (1, 1));
    assert_eq!(table.read().await.unwrap(), 1);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_no_longer_alone_has_a_lease_that_ends() {
    let cluster = Cluster::start(2, types).await;
    let primary = cluster.primary().await;
    let register = register(primary, "a");
    register.set(1).await.unwrap();
    assert_eq!(register.get().await.unwrap(), 1);
    time::suspend_thread(Duration::from_secs(60));
    assert_not_primary(register.get().await);
    assert_eq!(until_ok(|| register.get()).await, 1);
    cluster.stop().await;
}
