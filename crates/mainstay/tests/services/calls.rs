//! Calls: typed, concurrent, with an outcome.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use mainstay::partition::SimDisk;
use mainstay::prelude::*;
use mainstay_core::time::{self, Duration};
use serde::{Deserialize, Serialize};
use tokio::sync::Barrier;

use crate::harness::on;

/// Keeps what is in stock.
#[interface]
pub(crate) trait Inventory {
    /// Adds to the stock of an article, and says how much there is.
    async fn add(&self, sku: String, n: u32) -> Result<u32>;

    /// Takes from the stock of an article; false if there is not enough.
    async fn reserve(&self, sku: String, n: u32) -> Result<bool>;
}

#[derive(Service)]
#[service(implements(Inventory), partitions = "uniform(10)", persistence = "persisted")]
pub(crate) struct InventoryService {
    stock: Dictionary<String, u32>,
    state: StateManager,
}

impl Inventory for InventoryService {
    async fn add(&self, sku: String, n: u32) -> Result<u32> {
        self.state
            .transact(async |mut tx| {
                let left = self.stock.get_for_update(&mut tx, &sku).await?.map_or(0, |left| *left) + n;
                self.stock.set(&mut tx, sku.clone(), left).await?;
                Ok(left)
            })
            .await
    }

    async fn reserve(&self, sku: String, n: u32) -> Result<bool> {
        self.state
            .transact(async |mut tx| {
                let Some(left) = self.stock.get_for_update(&mut tx, &sku).await? else { return Ok(false) };
                if *left < n {
                    return Ok(false);
                }
                self.stock.set(&mut tx, sku.clone(), *left - n).await?;
                Ok(true)
            })
            .await
    }
}

#[tokio::test(start_paused = true)]
async fn partitions_are_apart_and_a_restart_finds_their_data() {
    let disk = SimDisk::new(1);
    for round in 1..=3_u32 {
        let node = on(&disk).service::<InventoryService>().start().await.unwrap();
        for number in 0..40 {
            let customer = format!("customer {number}");
            let inventory: InventoryRef = node.service(&customer).unwrap();
            assert_eq!(inventory.add(customer.clone(), 2).await.unwrap(), 2 * round, "{customer}");
            assert!(!inventory.reserve("nothing".into(), 1).await.unwrap());
        }
        // The last key of one range and the first of the next are in two partitions, so each has a stock of its own.
        for key in [-1_i64, 0, i64::MIN, i64::MAX] {
            let inventory: InventoryRef = node.service(key).unwrap();
            let sku = format!("of {key}");
            assert_eq!(inventory.add(sku.clone(), 1).await.unwrap(), round);
            let elsewhere: InventoryRef = node.service(key.wrapping_add(i64::MAX / 3)).unwrap();
            assert!(!elsewhere.reserve(sku, 1).await.unwrap());
        }
        node.stop().await;
    }
}

/// Methods that show what the runtime does with them.
#[interface]
trait Probe {
    async fn meet(&self) -> Result<()>;
    async fn panics(&self, at_once: bool) -> Result<()>;
    async fn steps(&self) -> Result<()>;
    async fn refuses(&self, code: u16) -> Result<(), Refusal>;
    async fn deep(&self, depth: u32) -> Result<u32>;
    async fn forever(&self) -> Result<()>;
    async fn hesitates(&self, seconds: u64) -> Result<()>;
}

/// An error of the application's own.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum Refusal {
    Code(u16),
    Lost(String),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::Lost(error.to_string())
    }
}

#[derive(Service)]
#[service(implements(Probe), partitions = singleton, persistence = "none")]
struct ProbeService {
    barrier: Meeting,
    begun: Arc<AtomicUsize>,
    context: ServiceContext,
}

struct Meeting(Barrier);

impl Default for Meeting {
    fn default() -> Self {
        Self(Barrier::new(2))
    }
}

static STEPS: AtomicUsize = AtomicUsize::new(0);

/// How many seconds the second call of [`Probe::hesitates`] had.
static LEFT: AtomicU64 = AtomicU64::new(u64::MAX);

impl Probe for ProbeService {
    async fn meet(&self) -> Result<()> {
        self.barrier.0.wait().await;
        Ok(())
    }

    async fn panics(&self, at_once: bool) -> Result<()> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        if !at_once {
            tokio::task::yield_now().await;
        }
        panic!("the {}. time", self.begun.load(Ordering::SeqCst));
    }

    async fn steps(&self) -> Result<()> {
        STEPS.fetch_add(1, Ordering::SeqCst);
        self.barrier.0.wait().await;
        STEPS.fetch_add(1, Ordering::SeqCst);
        self.barrier.0.wait().await;
        Ok(())
    }

    async fn refuses(&self, code: u16) -> Result<(), Refusal> {
        Err(Refusal::Code(code))
    }

    async fn deep(&self, depth: u32) -> Result<u32> {
        if depth == 0 {
            return Ok(0);
        }
        let probe: ProbeRef = self.context.service(())?;
        Ok(probe.deep(depth - 1).await? + 1)
    }

    async fn forever(&self) -> Result<()> {
        std::future::pending().await
    }

    async fn hesitates(&self, seconds: u64) -> Result<()> {
        time::sleep(Duration::from_secs(seconds)).await;
        let (probe, begun): (ProbeRef, _) = (self.context.service(())?, time::now());
        let error = probe.forever().await;
        LEFT.store(begun.elapsed().as_secs(), Ordering::SeqCst);
        self.barrier.0.wait().await;
        error
    }
}

async fn probe(disk: &SimDisk) -> (Node, ProbeRef) {
    let node = on(disk).service::<ProbeService>().start().await.unwrap();
    let probe = node.service(()).unwrap();
    (node, probe)
}

#[tokio::test(start_paused = true)]
async fn two_calls_to_one_partition_are_in_flight_at_once() {
    let (_node, probe) = probe(&SimDisk::new(1)).await;
    // Each of the two returns only when the other is there too.
    let (one, two) = tokio::join!(probe.meet(), probe.meet());
    one.unwrap();
    two.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_panic_fails_its_own_call() {
    let (_node, probe) = probe(&SimDisk::new(1)).await;
    for (at_once, time) in [(true, 1), (false, 2)] {
        let error = probe.panics(at_once).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutcomeUnknown);
        assert!(error.to_string().contains("`panics` of service ProbeService"), "{error}");
        assert!(error.to_string().contains(&format!("panicked: the {time}. time")), "the object stays: {error}");
    }
    probe.deep(1).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_error_of_the_applications_own_type_arrives_as_it_is() {
    let (node, probe) = probe(&SimDisk::new(1)).await;
    assert_eq!(probe.refuses(7).await.unwrap_err(), Refusal::Code(7));
    node.stop().await;
    assert!(matches!(probe.refuses(7).await.unwrap_err(), Refusal::Lost(why) if why.contains("has stopped")));
}

#[tokio::test(start_paused = true)]
async fn a_call_runs_to_its_end_without_its_caller() {
    let (_node, probe) = probe(&SimDisk::new(1)).await;
    // The object is there: what follows is admitted at once.
    probe.deep(0).await.unwrap();
    let steps = STEPS.load(Ordering::SeqCst);
    let mut call = Box::pin(probe.steps());
    assert!(futures_poll(&mut call).await.is_none());
    drop(call);
    // Meets the call twice: it goes on although nobody waits for it.
    probe.meet().await.unwrap();
    probe.meet().await.unwrap();
    assert_eq!(STEPS.load(Ordering::SeqCst), steps + 2);
}

/// Polls once.
async fn futures_poll<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    std::future::poll_fn(|cx| {
        std::task::Poll::Ready(match std::pin::Pin::new(&mut *future).poll(cx) {
            std::task::Poll::Ready(output) => Some(output),
            std::task::Poll::Pending => None,
        })
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_under_way_at_its_time_limit_has_no_known_outcome() {
    let (_node, probe) = probe(&SimDisk::new(1)).await;
    let begun = time::now();
    let error = probe.with_timeout(Duration::from_secs(3)).forever().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
    assert!(error.to_string().contains("still running"), "{error}");
    assert_eq!(begun.elapsed().as_secs(), 3);
    let error = probe.forever().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
    assert_eq!(begun.elapsed().as_secs(), 63, "60 s unless told otherwise");
}

#[tokio::test(start_paused = true)]
async fn what_a_call_makes_has_what_it_has_left_and_not_its_whole_time_limit() {
    let (_node, probe) = probe(&SimDisk::new(1)).await;
    // The first call waits until the service is open, and is counted there.
    probe.deep(0).await.unwrap();
    let error = probe.with_timeout(Duration::from_secs(5)).hesitates(4).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
    probe.meet().await.unwrap();
    assert_eq!(LEFT.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn calls_nest_deeper_than_a_stack() {
    let (_node, probe) = probe(&SimDisk::new(1)).await;
    assert_eq!(probe.deep(10_000).await.unwrap(), 10_000);
}
