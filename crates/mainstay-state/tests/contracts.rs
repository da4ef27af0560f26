//! Three versions of a type, each of which reads what every other wrote and loses nothing of it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(unreachable_pub, reason = "versions of a type look as they do in a program")]

mod support;

use std::collections::BTreeMap;

use mainstay_core::time::{self, Duration};
use mainstay_core::{ErrorKind, Level, contract};
use mainstay_state::{Dictionary, StateManager};
use serde::Serialize;
use serde::de::DeserializeOwned;
use support::{TestNode, on_every_level};

/// The first version.
mod v1 {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Serialize};

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub struct Order {
        pub customer: String,
        pub address: Address,
        pub lines: Vec<Line>,
        pub notes: BTreeMap<String, Note>,
    }

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub struct Address {
        pub city: String,
    }

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub struct Line {
        pub sku: String,
        pub count: u32,
    }

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub struct Note {
        pub text: String,
    }
}

/// The second version knows more: of orders, and of lines.
mod v2 {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Serialize};

    pub use super::v1::{Address, Note};

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub struct Order {
        pub customer: String,
        pub address: Address,
        pub lines: Vec<Line>,
        pub notes: BTreeMap<String, Note>,
        #[serde(default)]
        pub priority: Option<u8>,
    }

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub struct Line {
        pub sku: String,
        pub count: u32,
        #[serde(default)]
        pub price: u64,
    }
}

/// The third version knows more of everything.
mod v3 {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Serialize};

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub struct Order {
        #[serde(default)]
        pub channel: String,
        pub customer: String,
        pub address: Address,
        pub lines: Vec<Line>,
        pub notes: BTreeMap<String, Note>,
        #[serde(default)]
        pub priority: Option<u8>,
        #[serde(default)]
        pub tags: Vec<String>,
    }

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub struct Address {
        pub city: String,
        #[serde(default)]
        pub geo: Geo,
    }

    #[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
    pub struct Geo {
        pub north: i32,
        pub east: i32,
    }

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub struct Line {
        pub sku: String,
        pub count: u32,
        #[serde(default)]
        pub price: u64,
        #[serde(default)]
        pub discount: Option<u32>,
    }

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub struct Note {
        pub text: String,
        #[serde(default)]
        pub author: Option<String>,
    }
}

fn first() -> v1::Order {
    v1::Order {
        customer: "anna".into(),
        address: v1::Address { city: "oslo".into() },
        lines: vec![v1::Line { sku: "chair".into(), count: 4 }, v1::Line { sku: "table".into(), count: 1 }],
        notes: BTreeMap::from([("gift".into(), v1::Note { text: "wrap it".into() })]),
    }
}

fn second() -> v2::Order {
    let v1::Order { customer, address, lines, notes } = first();
    let lines = lines.into_iter().map(|line| v2::Line { sku: line.sku, count: line.count, price: 40 });
    v2::Order { customer, address, lines: lines.collect(), notes, priority: Some(2) }
}

fn third() -> v3::Order {
    let v2::Order { customer, lines, priority, .. } = second();
    let line = |line: v2::Line| v3::Line { sku: line.sku, count: line.count, price: line.price, discount: Some(5) };
    let note = v3::Note { text: "wrap it".into(), author: Some("bert".into()) };
    v3::Order {
        channel: "shop".into(),
        customer,
        address: v3::Address { city: "oslo".into(), geo: v3::Geo { north: 59, east: 10 } },
        lines: lines.into_iter().map(line).collect(),
        notes: BTreeMap::from([("gift".into(), note)]),
        priority,
        tags: vec!["new".into()],
    }
}

async fn open<V>(state: &StateManager) -> Dictionary<String, V>
where
    V: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    state.collection("orders").await.unwrap()
}

async fn write<V>(state: &StateManager, key: &str, value: V)
where
    V: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    let orders = open::<V>(state).await;
    let mut tx = state.begin();
    orders.set(&mut tx, key.into(), value).await.unwrap();
    tx.commit().await.unwrap();
}

async fn read<V>(state: &StateManager, key: &str) -> V
where
    V: Clone + Serialize + DeserializeOwned + Send + Sync + 'static,
{
    V::clone(&*open::<V>(state).await.get(&mut state.begin(), key).await.unwrap().unwrap())
}

#[tokio::test]
async fn every_version_reads_what_every_other_wrote() {
    on_every_level(async |state| {
        write(&state, "1", first()).await;
        write(&state, "2", second()).await;
        write(&state, "3", third()).await;
        for key in ["1", "2", "3"] {
            assert_eq!(read::<v1::Order>(&state, key).await, first());
            let order = read::<v2::Order>(&state, key).await;
            assert_eq!(
                (order.customer, order.lines[1].sku.as_str(), order.lines[1].count),
                ("anna".into(), "table", 1)
            );
            let order = read::<v3::Order>(&state, key).await;
            assert_eq!((order.address.city.as_str(), order.notes["gift"].text.as_str()), ("oslo", "wrap it"));
        }
        assert_eq!(read::<v2::Order>(&state, "1").await.priority, None);
        assert_eq!(read::<v2::Order>(&state, "3").await, second());
        assert_eq!(read::<v3::Order>(&state, "1").await.address.geo, v3::Geo::default());
        assert_eq!(read::<v3::Order>(&state, "2").await.lines[0].price, 40);
    })
    .await;
}

/// Every way in which a version changes a value.
#[derive(Debug, Clone, Copy)]
enum Way {
    Update,
    Set,
    AddOrUpdate,
    CompareAndSet,
    SetWithTtl,
}

async fn change<V>(state: &StateManager, way: Way, before: V, change: impl Fn(&mut V))
where
    V: Clone + PartialEq + Serialize + DeserializeOwned + Send + Sync + 'static,
{
    let orders = open::<V>(state).await;
    let mut tx = state.begin();
    let mut after = before.clone();
    change(&mut after);
    match way {
        Way::Update => drop(orders.update(&mut tx, "a", change).await.unwrap().unwrap()),
        Way::Set => orders.set(&mut tx, "a".into(), after).await.unwrap(),
        Way::AddOrUpdate => drop(orders.add_or_update(&mut tx, "a".into(), before, change).await.unwrap()),
        Way::CompareAndSet => assert!(orders.compare_and_set(&mut tx, "a".into(), &before, after).await.unwrap()),
        Way::SetWithTtl => {
            orders.set_with_ttl(&mut tx, "a".into(), after, Duration::from_secs(600)).await.unwrap();
        }
    }
    tx.commit().await.unwrap();
}

#[tokio::test]
async fn a_change_by_the_first_version_keeps_all_that_the_third_wrote() {
    on_every_level(async |state| {
        for way in [Way::Update, Way::Set, Way::AddOrUpdate, Way::CompareAndSet, Way::SetWithTtl] {
            write(&state, "a", third()).await;
            change::<v1::Order>(&state, way, first(), |order| {
                order.customer = "berta".into();
                order.address.city = "bergen".into();
                order.lines[0].count = 5;
                order.lines.push(v1::Line { sku: "lamp".into(), count: 2 });
                order.notes.get_mut("gift").unwrap().text = "no paper".into();
                order.notes.insert("door".into(), v1::Note { text: "ring twice".into() });
            })
            .await;
            let mut expected = third();
            expected.customer = "berta".into();
            expected.address.city = "bergen".into();
            expected.lines[0].count = 5;
            expected.lines.push(v3::Line { sku: "lamp".into(), count: 2, price: 0, discount: None });
            expected.notes.get_mut("gift").unwrap().text = "no paper".into();
            expected.notes.insert("door".into(), v3::Note { text: "ring twice".into(), author: None });
            let found = read::<v3::Order>(&state, "a").await;
            // Of a list that has changed and grown, elements are the same only where that is certain.
            let certain = |mut order: v3::Order| {
                order.lines[0].price = 0;
                order.lines[0].discount = None;
                order
            };
            assert_eq!(certain(found.clone()), certain(expected), "{way:?}");
            assert_eq!(found.lines[1], third().lines[1], "{way:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn elements_of_a_list_keep_what_is_unknown_if_they_are_changed_in_place() {
    on_every_level(async |state| {
        write(&state, "a", third()).await;
        change::<v1::Order>(&state, Way::Update, first(), |order| order.lines[0].count = 5).await;
        let mut expected = third();
        expected.lines[0].count = 5;
        assert_eq!(read::<v3::Order>(&state, "a").await, expected);
        // Through two older versions, one after the other, and several changes in one transaction.
        let orders = open::<v2::Order>(&state).await;
        let mut tx = state.begin();
        orders.update(&mut tx, "a", |order| order.lines[1].price = 70).await.unwrap();
        orders.update(&mut tx, "a", |order| order.priority = None).await.unwrap();
        open::<v1::Order>(&state).await.update(&mut tx, "a", |order| order.customer = "carl".into()).await.unwrap();
        tx.commit().await.unwrap();
        expected.lines[1].price = 70;
        expected.priority = None;
        expected.customer = "carl".into();
        assert_eq!(read::<v3::Order>(&state, "a").await, expected);
    })
    .await;
}

#[tokio::test]
async fn what_was_removed_leaves_nothing_to_the_next_value() {
    on_every_level(async |state| {
        write(&state, "a", third()).await;
        let orders = open::<v1::Order>(&state).await;
        let mut tx = state.begin();
        orders.remove(&mut tx, "a").await.unwrap();
        orders.add(&mut tx, "a".into(), first()).await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!(read::<v3::Order>(&state, "a").await.tags, Vec::<String>::new());
    })
    .await;
}

#[tokio::test]
async fn what_a_version_does_not_know_outlives_a_restart() {
    let mut node = TestNode::start().await;
    let state = node.state(Level::Persisted).await;
    write(&state, "a", third()).await;
    drop(state);
    node = node.restart().await;
    let state = node.state(Level::Persisted).await;
    change::<v1::Order>(&state, Way::Set, first(), |order| order.customer = "dora".into()).await;
    drop(state);
    node = node.restart().await;
    let state = node.state(Level::Persisted).await;
    assert_eq!(read::<v3::Order>(&state, "a").await, v3::Order { customer: "dora".into(), ..third() });
    drop(state);
    node.replicas.stop().await;
}

/// Versions that do not fit.
mod wrong {
    pub mod renamed {
        #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
        pub struct Order {
            pub buyer: String,
        }
    }

    pub mod retyped {
        #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
        pub struct Order {
            pub customer: u32,
        }
    }

    pub mod nested {
        #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
        pub struct Order {
            pub lines: Vec<Line>,
        }

        #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
        pub struct Line {
            pub sku: String,
            pub weight: f64,
        }
    }
}

/// What a version that does not fit is told, whatever it does with the value.
async fn refusals<V>(state: &StateManager, value: V) -> Vec<String>
where
    V: Clone + PartialEq + Serialize + DeserializeOwned + Send + Sync + 'static,
{
    let orders = open::<V>(state).await;
    let mut tx = state.begin();
    let tx = &mut tx;
    let mut errors = vec![orders.get(tx, "a").await.err(), orders.get_for_update(tx, "a").await.err()];
    errors.push(orders.multi_get(tx, ["a"]).await.err());
    errors.push(orders.update(tx, "a", |_| ()).await.err());
    errors.push(orders.set(tx, "a".into(), value.clone()).await.err());
    errors.push(orders.compare_and_set(tx, "a".into(), &value, value.clone()).await.err());
    errors.push(orders.try_remove(tx, "a").await.err());
    errors.push(orders.all().entries(tx).await.unwrap().next().await.err());
    assert_eq!(orders.len(tx).await.unwrap(), 1, "what was refused has changed nothing");
    let kinds: Vec<_> = errors.iter().flatten().map(mainstay_core::Error::kind).collect();
    assert_eq!(kinds, [ErrorKind::Invalid; 8]);
    errors.into_iter().flatten().map(|error| error.to_string()).collect()
}

#[tokio::test]
async fn a_version_that_does_not_fit_is_told_where_and_what() {
    on_every_level(async |state| {
        write(&state, "a", third()).await;
        let renamed = refusals(&state, wrong::renamed::Order { buyer: "x".into() }).await;
        let retyped = refusals(&state, wrong::retyped::Order { customer: 1 }).await;
        let nested = refusals(&state, wrong::nested::Order { lines: Vec::new() }).await;
        // The version that reads is named by its type, the one that wrote by what it wrote.
        let third = "written with the fields `channel`, `customer`, `address`, `lines`, `notes`, `priority`, `tags`";
        let third_line = "written with the fields `sku`, `count`, `price`, `discount`";
        let cases = [
            (renamed, vec!["missing field `buyer`", "wrong::renamed::Order", third]),
            (
                retyped,
                vec!["field `customer`", "expected u32", "found string \"anna\"", "wrong::retyped::Order", third],
            ),
            (nested, vec!["lines[0]", "missing field `weight`", "wrong::nested::Order", third_line]),
        ];
        for (errors, parts) in cases {
            for error in errors {
                println!("{error}");
                for part in [r#"dictionary "orders", key "a""#].iter().chain(&parts) {
                    assert!(error.contains(part), "{error} does not say {part}");
                }
            }
        }
        // What cannot be read can be removed, and then the key is free for the new form.
        let orders = open::<wrong::retyped::Order>(&state).await;
        let mut tx = state.begin();
        orders.remove(&mut tx, "a").await.unwrap();
        orders.add(&mut tx, "a".into(), wrong::retyped::Order { customer: 7 }).await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!(read::<wrong::retyped::Order>(&state, "a").await.customer, 7);
        assert_eq!(orders.len(&mut state.begin()).await.unwrap(), 1);
    })
    .await;
}

#[tokio::test]
async fn gates_are_off_until_switched_on_and_stay_on() {
    let mut node = TestNode::start().await;
    let state = node.state(Level::Persisted).await;
    let gates = state.gates();
    assert!(!gates.is_on("orders.v2"));
    assert_eq!(gates.list(), Vec::<String>::new());
    gates.switch_on("orders.v2").await.unwrap();
    gates.switch_on("orders.v2").await.unwrap();
    gates.switch_on("a").await.unwrap();
    assert!(gates.is_on("orders.v2") && !gates.is_on("orders.v3"));
    assert!(state.gates().is_on("orders.v2"), "every handle knows it at once");
    for (name, kind) in
        [("", ErrorKind::Invalid), ("a\nb", ErrorKind::Invalid), (&"g".repeat(257), ErrorKind::TooLarge)]
    {
        assert_eq!(gates.switch_on(name).await.unwrap_err().kind(), kind);
    }
    // Of one partition, not of another.
    let other = StateManager::open(node.partition(Level::Persisted, 8).await).await.unwrap();
    assert!(!other.gates().is_on("orders.v2"));
    drop((state, gates, other));
    node = node.restart().await;
    let state = node.state(Level::Persisted).await;
    assert_eq!(state.gates().list(), ["a", "orders.v2"]);
    assert!(state.collections().unwrap().is_empty(), "a gate is no collection");
    drop(state);
    node.replicas.stop().await;
}

#[tokio::test]
async fn a_gate_whose_switch_nobody_waited_for_is_on_as_soon_as_that_is_durable() {
    let node = TestNode::start_small().await;
    let state = node.state(Level::Persisted).await;
    let gates = state.gates();
    {
        // The commit is on its way to the disk.
        let mut switch = Box::pin(gates.switch_on("orders.v2"));
        _ = futures_util::poll!(&mut switch);
    }
    let is_on = async {
        while !gates.is_on("orders.v2") {
            time::sleep(Duration::from_millis(1)).await;
        }
    };
    time::timeout(Duration::from_secs(20), is_on).await.expect("it is never on");
    node.replicas.stop().await;
}

/// A service of the second version while the first still runs somewhere: it knows the new form and writes the old.
async fn price_of(state: &StateManager, sku: &str) -> u64 {
    read::<two_phases::v2::Price>(state, sku).await.cents()
}

async fn set_price(state: &StateManager, sku: &str, cents: u64) {
    let price = match state.gates().is_on("prices.v2") {
        true => two_phases::v2::Price { euros: None, cents: Some(cents) },
        false => two_phases::v2::Price { euros: Some(cents / 100), cents: None },
    };
    write(state, sku, price).await;
}

/// A change that the first version could not read: another unit in another field.
mod two_phases {
    pub mod v1 {
        #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
        pub struct Price {
            pub euros: u64,
        }
    }

    pub mod v2 {
        #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
        pub struct Price {
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub euros: Option<u64>,
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub cents: Option<u64>,
        }

        impl Price {
            pub fn cents(&self) -> u64 {
                self.cents.or(self.euros.map(|euros| euros * 100)).unwrap_or(0)
            }
        }
    }
}

#[tokio::test]
async fn an_upgrade_in_two_phases_never_shows_the_new_form_to_the_old_version() {
    on_every_level(async |state| {
        write(&state, "chair", two_phases::v1::Price { euros: 40 }).await;
        // The new version is rolled out. It reads what is there, and writes what the old version reads.
        assert_eq!(price_of(&state, "chair").await, 4000);
        set_price(&state, "table", 12_000).await;
        assert_eq!(read::<two_phases::v1::Price>(&state, "table").await.euros, 120);
        // The old version is gone: the gate is switched on, and the new form is written from now on.
        state.gates().switch_on("prices.v2").await.unwrap();
        set_price(&state, "chair", 4050).await;
        assert_eq!((price_of(&state, "chair").await, price_of(&state, "table").await), (4050, 12_000));
        let error = open::<two_phases::v1::Price>(&state).await.get(&mut state.begin(), "chair").await.unwrap_err();
        assert!(error.to_string().contains("missing field `euros`"), "{error}");
    })
    .await;
}

#[test]
fn all_versions_have_one_name() {
    let names =
        [contract::describe::<v1::Order>(), contract::describe::<v2::Order>(), contract::describe::<v3::Order>()];
    assert!(names.iter().all(|name| name.as_ref().unwrap().as_str() == "Order"));
}
