//! A node that stops while it is busy.

use mainstay::partition::SimDisk;
use mainstay::prelude::*;
use mainstay_core::task;
use mainstay_core::time::{self, Duration};

use crate::harness::on;

#[interface]
trait Sleeper {
    async fn sleep(&self, seconds: u64) -> Result<u64>;
}

#[derive(Service)]
#[service(implements(Sleeper), partitions = "uniform(2)")]
struct SleeperService {
    slept: Dictionary<u64, u64>,
    state: StateManager,
}

impl Sleeper for SleeperService {
    async fn sleep(&self, seconds: u64) -> Result<u64> {
        time::sleep(Duration::from_secs(seconds)).await;
        let mut tx = self.state.begin();
        let times = self.slept.get_for_update(&mut tx, &seconds).await?.map_or(0, |times| *times) + 1;
        self.slept.set(&mut tx, seconds, times).await?;
        tx.commit().await?;
        Ok(times)
    }
}

async fn start(disk: &SimDisk) -> (Node, SleeperRef) {
    let node = on(disk).service::<SleeperService>().start().await.unwrap();
    let sleeper: SleeperRef = node.service("anybody").unwrap();
    sleeper.sleep(0).await.unwrap();
    (node, sleeper)
}

#[tokio::test(start_paused = true)]
async fn calls_under_way_end_within_the_grace_period_or_have_no_known_outcome() {
    let disk = SimDisk::new(1);
    let (node, sleeper) = start(&disk).await;
    let stopping = async {
        // Begun and not ended.
        time::sleep(Duration::from_millis(1)).await;
        let before = time::now();
        let (_, late) = tokio::join!(node.stop(), async {
            tokio::task::yield_now().await;
            sleeper.sleep(0).await.unwrap_err()
        });
        assert_eq!(late.kind(), ErrorKind::Fatal, "{late}");
        assert!(late.to_string().contains("its node has stopped"), "{late}");
        before.elapsed()
    };
    let (short, long, took) = tokio::join!(sleeper.sleep(2), sleeper.sleep(3600), stopping);
    assert_eq!(short.unwrap(), 1, "a commit in the grace period counts");
    let long = long.unwrap_err();
    assert_eq!(long.kind(), ErrorKind::OutcomeUnknown);
    assert!(long.to_string().contains("was cancelled"), "{long}");
    assert_eq!(took.as_secs(), 5);
    // Again is the same as once.
    node.stop().await;

    let (_node, sleeper) = start(&disk).await;
    assert_eq!(sleeper.sleep(2).await.unwrap(), 2);
    assert_eq!(sleeper.with_timeout(Duration::from_secs(7200)).sleep(3600).await.unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_stop_that_is_given_up_can_be_finished() {
    let disk = SimDisk::new(1);
    let (node, sleeper) = start(&disk).await;
    let call = task::spawn(async move { sleeper.sleep(3600).await });
    time::sleep(Duration::from_millis(1)).await;
    time::timeout(Duration::from_secs(1), node.stop()).await.unwrap_err();
    let other = node.clone();
    drop(node);
    other.stop().await;
    assert_eq!(call.await.unwrap().unwrap_err().kind(), ErrorKind::OutcomeUnknown);
    let (_node, sleeper) = start(&disk).await;
    assert_eq!(sleeper.sleep(0).await.unwrap(), 3, "the folder is free although a handle of the old node is there");
    drop(other);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_dropped_is_as_one_that_crashed() {
    let disk = SimDisk::new(1);
    let (node, sleeper) = start(&disk).await;
    let call = task::spawn({
        let sleeper = sleeper.clone();
        async move { sleeper.sleep(2).await }
    });
    time::sleep(Duration::from_millis(1)).await;
    drop(node);
    assert_eq!(call.await.unwrap().unwrap_err().kind(), ErrorKind::OutcomeUnknown);
    assert_eq!(sleeper.sleep(0).await.unwrap_err().kind(), ErrorKind::Fatal);
    disk.crash();
    let (_node, sleeper) = start(&disk).await;
    assert_eq!(sleeper.sleep(2).await.unwrap(), 1, "what was not committed has not happened");
}

#[interface]
trait Forgetful {
    async fn note(&self, text: String) -> Result<()>;
}

#[derive(Service)]
#[service(implements(Forgetful), partitions = "singleton")]
struct ForgetfulService {
    notes: Dictionary<String, u64>,
    state: StateManager,
}

impl Forgetful for ForgetfulService {
    async fn note(&self, text: String) -> Result<()> {
        let mut tx = self.state.begin();
        self.notes.set_with_ttl(&mut tx, text, 1, Duration::from_secs(3600)).await?;
        tx.commit().await.map(drop)
    }
}

#[tokio::test(start_paused = true)]
async fn what_waits_for_entries_to_expire_is_not_waited_for() {
    let node = on(&SimDisk::new(1)).service::<ForgetfulService>().start().await.unwrap();
    let forgetful: ForgetfulRef = node.service(()).unwrap();
    forgetful.note("in an hour".into()).await.unwrap();
    let before = time::now();
    node.stop().await;
    assert!(before.elapsed() < Duration::from_secs(1), "{:?}", before.elapsed());
}
