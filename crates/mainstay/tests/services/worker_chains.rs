//! Workers that call their own kind, themselves or by others: as far as there are places, and refused at once where nobody can
//! get one any more.

use mainstay::partition::SimDisk;
use mainstay::prelude::*;
use mainstay::worker::PoolOptions;
use mainstay_core::time::{self, Duration, sleep};

use crate::harness::on;

#[interface]
trait Relay {
    /// Waits for so long, calls the first of these with the others, and says how many calls that were.
    async fn relay(&mut self, millis: u64, to: Vec<String>) -> Result<u64>;
    /// The same, and does not wait for the first for long.
    async fn relay_in_haste(&mut self, to: Vec<String>) -> Result<u64>;
}

/// Calls whoever is next: a worker, or an actor whose name begins with `actor `.
async fn pass_on(services: &mainstay::service::Services, to: Vec<String>) -> Result<u64> {
    let Some((next, rest)) = to.split_first() else { return Ok(0) };
    let next: RelayRef = match next.strip_prefix("actor ") {
        Some(id) => services.actor(id)?,
        None => services.worker_named(next)?,
    };
    Ok(next.relay(0, rest.to_vec()).await? + 1)
}

macro_rules! relay {
    ($kind:ident, $attribute:ident, $name:ident, $context:ident, $($settings:tt)*) => {
        #[derive($kind)]
        #[$attribute(implements(Relay), $($settings)*)]
        struct $name {
            ctx: $context,
        }

        impl Relay for $name {
            async fn relay(&mut self, millis: u64, to: Vec<String>) -> Result<u64> {
                sleep(Duration::from_millis(millis)).await;
                pass_on(self.ctx.services(), to).await
            }

            async fn relay_in_haste(&mut self, to: Vec<String>) -> Result<u64> {
                let limit = Duration::from_millis(10);
                let first = time::timeout(limit, pass_on(self.ctx.services(), to)).await;
                assert!(first.is_err());
                sleep(2 * limit).await;
                Ok(0)
            }
        }
    };
}

relay!(Worker, worker, One, WorkerContext, max = 1);
relay!(Worker, worker, Other, WorkerContext, max = 1);
relay!(Worker, worker, Two, WorkerContext, max = 2);
relay!(Actor, actor, RelayActor, Context, partitions = 1, persistence = "none");

async fn start() -> Node {
    let node = on(&SimDisk::new(1)).worker::<One>().worker::<Other>().worker::<Two>();
    node.actor::<RelayActor>().start().await.unwrap()
}

fn to(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

async fn refused(node: &Node, first: &str, names: &[&str], chain: &str) {
    let begin = time::now();
    let error = node.worker_named::<RelayRef>(first).unwrap().relay(0, to(names)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert!(error.to_string().contains(chain), "{error}");
    assert_eq!(begin.elapsed(), Duration::ZERO, "it was refused, but not at once: {error}");
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_calls_its_own_kind_is_refused_at_once_where_there_is_no_place() {
    let node = start().await;
    refused(&node, "One", &["One"], "call cycle: worker One.relay → worker One.relay would wait for itself").await;
    let chain = "worker One.relay → worker Other.relay → worker One.relay would wait for itself";
    refused(&node, "One", &["Other", "One"], chain).await;
    let chain = "worker One.relay → RelayActor(\"a\").relay → worker One.relay would wait for itself";
    refused(&node, "One", &["actor a", "One"], chain).await;
    let chain = "worker Two.relay → worker Two.relay → worker Two.relay would wait for itself";
    refused(&node, "Two", &["Two", "Two"], chain).await;
    // And an actor that a worker has been called by.
    let relay: RelayRef = node.actor("a").unwrap();
    let error = relay.relay(0, to(&["One", "actor a"])).await.unwrap_err();
    let chain = "RelayActor(\"a\").relay → worker One.relay → RelayActor(\"a\").relay would wait for itself";
    assert!(error.to_string().contains(chain), "{error}");
    // The places are free again.
    for name in ["One", "Other", "Two"] {
        assert_eq!(node.worker_named::<RelayRef>(name).unwrap().relay(0, Vec::new()).await.unwrap(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn as_far_as_there_are_places_workers_call_their_own_kind() {
    let node = start().await;
    let two: RelayRef = node.worker_named("Two").unwrap();
    assert_eq!(two.relay(0, to(&["Two"])).await.unwrap(), 1);
    assert_eq!(two.relay(0, to(&["One", "Two", "Other"])).await.unwrap(), 3);
    // A place that somebody has who waits for nobody comes free.
    let busy = two.relay(50, Vec::new());
    let (busy, waits) = tokio::join!(busy, two.relay(10, to(&["Two"])));
    assert_eq!((busy.unwrap(), waits.unwrap()), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn of_several_chains_that_hold_all_places_only_the_last_is_refused() {
    let node = start().await;
    let two: RelayRef = node.worker_named("Two").unwrap();
    let begin = time::now();
    let (first, second) = tokio::join!(two.relay(10, to(&["Two"])), two.relay(20, to(&["Two"])));
    assert_eq!(first.unwrap(), 1);
    let error = second.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert!(error.to_string().contains("would wait for itself"), "{error}");
    assert!(begin.elapsed() < Duration::from_secs(1), "{:?}", begin.elapsed());
    // One chain holds a place and waits for an actor, another holds the actor and a place and waits for a place.
    let actor: RelayRef = node.actor("a").unwrap();
    let (first, second) = tokio::join!(two.relay(10, to(&["actor a"])), actor.relay(5, to(&["Two", "Two"])));
    assert!(first.is_ok() != second.is_ok(), "{first:?} {second:?}");
    assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_place_comes_free_when_its_call_gives_up_waiting() {
    let node = start().await;
    let one: RelayRef = node.worker_named("One").unwrap();
    // It calls an actor, gives it up, and the actor calls the one worker meanwhile.
    let actor: RelayRef = node.actor("a").unwrap();
    let slow: RelayRef = node.actor("b").unwrap();
    // So that both are in memory, and calls come to them in their order.
    assert_eq!(actor.relay(0, to(&["actor b"])).await.unwrap(), 1);
    let (held, hasty) =
        tokio::join!(slow.relay(15, Vec::new()), one.relay_in_haste(to(&["actor a", "actor b", "One"])));
    assert_eq!((hasty.unwrap(), held.unwrap()), (0, 0));
    assert_eq!(actor.relay(0, to(&["One"])).await.unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn many_who_call_their_own_kind_at_once_all_end() {
    let options = PoolOptions { max: 4, waiting_max: 1000, ..PoolOptions::default() };
    let node = on(&SimDisk::new(1)).worker_with::<Two>(options).start().await.unwrap();
    let two: RelayRef = node.worker_named("Two").unwrap();
    let begin = time::now();
    let calls = (0..100).map(|number| {
        let two = two.clone();
        async move { two.relay(number % 7, to(&["Two", "Two"])).await }
    });
    let ended = futures_util::future::join_all(calls).await;
    let done = ended.iter().filter(|ended| ended.is_ok()).count();
    assert!(done > 0);
    for error in ended.iter().filter_map(|ended| ended.as_ref().err()) {
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    }
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
}
