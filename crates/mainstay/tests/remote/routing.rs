//! How calls find the primary, and go there when it moves.

use mainstay::prelude::*;
use mainstay::{NodeId, PartitionId};
use mainstay_core::time::{self, Duration};
use mainstay_runtime::{Redirect, ServiceType};

use crate::harness::{FIRST, Fault, SECOND, TwoNodes};

#[interface]
trait Place {
    /// The node that it runs on, and how often it was asked.
    async fn place(&mut self) -> Result<(u64, u64)>;
}

#[derive(Actor)]
#[actor(implements(Place), partitions = 1)]
struct PlaceActor {
    asked: State<u64>,
    node: Provided<NodeId>,
}

impl Place for PlaceActor {
    async fn place(&mut self) -> Result<(u64, u64)> {
        *self.asked += 1;
        Ok((self.node.0, *self.asked))
    }
}

#[interface]
trait Shop {
    async fn sell(&self, n: u64) -> Result<u64>;
    #[method(repeatable)]
    async fn sold(&self) -> Result<u64>;
}

#[derive(Service)]
#[service(implements(Shop), partitions = singleton)]
struct ShopService {
    numbers: Dictionary<String, u64>,
    state: StateManager,
}

impl Shop for ShopService {
    async fn sell(&self, n: u64) -> Result<u64> {
        self.state
            .transact(async |mut tx| {
                let sum = self.numbers.get_for_update(&mut tx, "sold").await?.map_or(0, |sum| *sum) + n;
                self.numbers.set(&mut tx, "sold".to_owned(), sum).await?;
                Ok(sum)
            })
            .await
    }

    async fn sold(&self) -> Result<u64> {
        self.sell(0).await
    }
}

async fn cluster() -> TwoNodes {
    let place = ServiceType::of_actor::<PlaceActor>().unwrap();
    let shop = ServiceType::of::<ShopService>().unwrap();
    TwoNodes::start(vec![(place, FIRST), (shop, SECOND)]).await
}

#[tokio::test(start_paused = true)]
async fn a_hint_is_followed_at_once() {
    let cluster = cluster().await;
    let place: PlaceRef = cluster.client().actor("alice").unwrap();
    cluster.net.believe(PartitionId(0), Some(NodeId(2)));
    let begun = time::now();
    assert_eq!(place.place().await.unwrap(), (1, 1));
    let redirected = begun.elapsed();
    assert_eq!(cluster.net.requests(), 2);
    let redirects = cluster.net.redirects.lock().unwrap().clone();
    assert_eq!(redirects[0], Redirect::NotPrimary { from: NodeId(2), hint: Some(NodeId(1)) });
    assert!(matches!(redirects[1], Redirect::Answered { node: NodeId(1), .. }), "{redirects:?}");
    // What was learned stays.
    let begun = time::now();
    assert_eq!(place.place().await.unwrap(), (1, 2));
    assert_eq!(cluster.net.requests(), 3);
    // The shortest pause is 10 ms; a commit takes what it takes both times.
    let direct = begun.elapsed();
    assert!(redirected < direct + Duration::from_millis(8), "{redirected:?} and {direct:?}");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_call_waits_for_a_primary_that_nobody_knows() {
    let cluster = cluster().await;
    let place: PlaceRef = cluster.client().actor("alice").unwrap();
    cluster.net.believe(PartitionId(0), None);
    let call = tokio::spawn(async move { place.place().await });
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(!call.is_finished());
    cluster.net.believe(PartitionId(0), Some(NodeId(1)));
    assert_eq!(call.await.unwrap().unwrap(), (1, 1));
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn callers_follow_the_primary_from_node_to_node() {
    let cluster = cluster().await;
    let client: PlaceRef = cluster.client().actor("alice").unwrap();
    let first: PlaceRef = cluster.first().services.actor("alice").unwrap();
    let second: PlaceRef = cluster.second().services.actor("alice").unwrap();
    let mut asked = 0;
    for (from, to) in [(0, 1), (1, 0), (0, 1)] {
        for place in [&client, &first, &second] {
            asked += 1;
            assert_eq!(place.place().await.unwrap(), (from + 1, asked));
        }
        cluster.hand_over(FIRST, from as usize, to).await;
    }
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_call_to_a_service_is_not_repeated_unless_it_says_so() {
    let cluster = cluster().await;
    // The second node is primary of the shop.
    let shop: ShopRef = cluster.first().services.service(()).unwrap();
    assert_eq!(shop.sell(2).await.unwrap(), 2);
    cluster.net.plan([Fault::LoseReply]);
    assert_eq!(shop.sell(2).await.unwrap_err().kind(), ErrorKind::OutcomeUnknown);
    cluster.net.plan([Fault::LoseReply, Fault::LoseRequest, Fault::NotSent]);
    assert_eq!(shop.sold().await.unwrap(), 4);
    cluster.net.plan([Fault::NotSent, Fault::Full]);
    assert_eq!(shop.sell(1).await.unwrap(), 5);
    cluster.stop().await;
}
