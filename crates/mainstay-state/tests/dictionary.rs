//! Every operation of a dictionary, on every level.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::sync::Arc;
use std::task::Poll;

use futures_util::{StreamExt, TryStreamExt};
use mainstay_core::ErrorKind;
use mainstay_state::{Dictionary, StateManager, VALUE_BYTES_MAX};
use support::on_every_level;

type Ages = Dictionary<String, u32>;

async fn ages(state: &StateManager) -> Ages {
    state.collection("ages").await.unwrap()
}

#[tokio::test]
async fn what_is_added_is_there_and_cannot_be_added_again() {
    on_every_level(async |state| {
        let ages = ages(&state).await;
        let mut tx = state.begin();
        assert!(!ages.contains(&mut tx, "anna").await.unwrap());
        assert_eq!(ages.get(&mut tx, "anna").await.unwrap(), None);
        ages.add(&mut tx, "anna".into(), 41).await.unwrap();
        // Its own writes are read at once.
        assert_eq!(ages.get(&mut tx, "anna").await.unwrap().as_deref(), Some(&41));
        let error = ages.add(&mut tx, "anna".into(), 42).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict);
        assert_eq!(error.to_string(), r#"dictionary "ages", key "anna" exists: use `set` to replace it"#);
        assert!(!ages.try_add(&mut tx, "anna".into(), 43).await.unwrap());
        assert!(ages.try_add(&mut tx, "bert".into(), 17).await.unwrap());
        tx.commit().await.unwrap();

        let mut tx = state.begin();
        assert!(ages.contains(&mut tx, "anna").await.unwrap());
        assert_eq!(ages.get_for_update(&mut tx, "anna").await.unwrap().as_deref(), Some(&41));
        assert_eq!(ages.get(&mut tx, "bert").await.unwrap().as_deref(), Some(&17));
    })
    .await;
}

#[tokio::test]
async fn values_are_set_changed_and_compared() {
    on_every_level(async |state| {
        let ages = ages(&state).await;
        let mut tx = state.begin();
        ages.set(&mut tx, "anna".into(), 1).await.unwrap();
        ages.set(&mut tx, "anna".into(), 2).await.unwrap();
        assert_eq!(ages.update(&mut tx, "anna", |age| *age += 1).await.unwrap().as_deref(), Some(&3));
        assert_eq!(ages.update(&mut tx, "bert", |age| *age += 1).await.unwrap(), None);
        tx.commit().await.unwrap();

        let mut tx = state.begin();
        assert_eq!(*ages.add_or_update(&mut tx, "anna".into(), 7, |age| *age *= 2).await.unwrap(), 6);
        assert_eq!(*ages.add_or_update(&mut tx, "bert".into(), 7, |age| *age *= 2).await.unwrap(), 7);
        assert_eq!(*ages.get_or_add(&mut tx, "anna".into(), || panic!("it is there")).await.unwrap(), 6);
        assert_eq!(*ages.get_or_add(&mut tx, "carl".into(), || 9).await.unwrap(), 9);
        assert!(!ages.compare_and_set(&mut tx, "anna".into(), &5, 50).await.unwrap());
        assert!(ages.compare_and_set(&mut tx, "anna".into(), &6, 60).await.unwrap());
        assert!(!ages.compare_and_set(&mut tx, "dora".into(), &0, 1).await.unwrap());
        tx.commit().await.unwrap();

        let mut tx = state.begin();
        let all = ages.multi_get(&mut tx, ["carl", "dora", "anna", "bert", "anna"]).await.unwrap();
        let all: Vec<Option<u32>> = all.iter().map(|age| age.as_deref().copied()).collect();
        assert_eq!(all, [Some(9), None, Some(60), Some(7), Some(60)]);
    })
    .await;
}

#[tokio::test]
async fn removing_tells_whether_there_was_something() {
    on_every_level(async |state| {
        let ages = ages(&state).await;
        let mut tx = state.begin();
        for (name, age) in [("anna", 1), ("bert", 2), ("carl", 3)] {
            ages.add(&mut tx, name.into(), age).await.unwrap();
        }
        tx.commit().await.unwrap();

        let mut tx = state.begin();
        ages.remove(&mut tx, "anna").await.unwrap();
        let error = ages.remove(&mut tx, "anna").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert_eq!(error.to_string(), r#"dictionary "ages", key "anna" does not exist"#);
        assert_eq!(ages.try_remove(&mut tx, "bert").await.unwrap().as_deref(), Some(&2));
        assert_eq!(ages.try_remove(&mut tx, "bert").await.unwrap(), None);
        // What was removed can be added, in the same transaction.
        ages.add(&mut tx, "bert".into(), 20).await.unwrap();
        assert_eq!(ages.len(&mut tx).await.unwrap(), 2);
        tx.commit().await.unwrap();

        let mut tx = state.begin();
        let all: Vec<(String, Arc<u32>)> = ages.all().entries(&mut tx).await.unwrap().collect().await.unwrap();
        assert_eq!(all, [("bert".into(), 20.into()), ("carl".into(), 3.into())]);
        assert_eq!(ages.len(&mut tx).await.unwrap(), 2);
    })
    .await;
}

#[tokio::test]
async fn a_clear_is_part_of_its_transaction() {
    on_every_level(async |state| {
        let ages = ages(&state).await;
        let other: Ages = state.collection("others").await.unwrap();
        let mut tx = state.begin();
        for name in ["anna", "bert", "carl"] {
            ages.add(&mut tx, name.into(), 1).await.unwrap();
            other.add(&mut tx, name.into(), 1).await.unwrap();
        }
        tx.commit().await.unwrap();

        // Undone.
        let mut tx = state.begin();
        ages.set(&mut tx, "dora".into(), 1).await.unwrap();
        ages.clear(&mut tx).await.unwrap();
        assert_eq!(ages.get(&mut tx, "anna").await.unwrap(), None);
        assert_eq!(ages.get(&mut tx, "dora").await.unwrap(), None);
        assert!(ages.is_empty(&mut tx).await.unwrap());
        ages.add(&mut tx, "bert".into(), 5).await.unwrap();
        assert_eq!(ages.len(&mut tx).await.unwrap(), 1);
        tx.abort();
        let mut tx = state.begin();
        assert_eq!(ages.len(&mut tx).await.unwrap(), 3);
        assert_eq!(ages.get(&mut tx, "bert").await.unwrap().as_deref(), Some(&1));
        drop(tx);

        // Committed, with something added behind it.
        let mut tx = state.begin();
        ages.clear(&mut tx).await.unwrap();
        ages.add(&mut tx, "bert".into(), 5).await.unwrap();
        tx.commit().await.unwrap();
        let mut tx = state.begin();
        let keys: Vec<String> = ages.all().keys(&mut tx).await.unwrap().collect().await.unwrap();
        assert_eq!(keys, ["bert"]);
        assert_eq!(ages.len(&mut tx).await.unwrap(), 1);
        assert_eq!(ages.get(&mut tx, "bert").await.unwrap().as_deref(), Some(&5));
        assert_eq!(ages.get(&mut tx, "anna").await.unwrap(), None);
        assert_eq!(other.len(&mut tx).await.unwrap(), 3);
    })
    .await;
}

#[tokio::test]
async fn ranges_go_both_ways_between_bounds_and_by_prefix() {
    on_every_level(async |state| {
        let prices: Dictionary<(String, i64), u8> = state.collection("prices").await.unwrap();
        let mut tx = state.begin();
        for (place, number) in [("eu", -3), ("eu", 4), ("eu", 300), ("us", 1)] {
            prices.add(&mut tx, (place.into(), number), 0).await.unwrap();
        }
        tx.commit().await.unwrap();
        let mut tx = state.begin();
        // What the transaction has changed itself is merged in.
        prices.remove(&mut tx, &("eu".to_owned(), 4)).await.unwrap();
        prices.add(&mut tx, ("eu".into(), 5), 0).await.unwrap();
        prices.add(&mut tx, ("af".into(), 9), 0).await.unwrap();

        let mut read = async |range: mainstay_state::Range<(String, i64), u8>| {
            let keys: Vec<(String, i64)> = range.keys(&mut tx).await.unwrap().collect().await.unwrap();
            keys.into_iter().map(|(place, number)| format!("{place}{number}")).collect::<Vec<_>>()
        };
        assert_eq!(read(prices.all()).await, ["af9", "eu-3", "eu5", "eu300", "us1"]);
        assert_eq!(read(prices.all().reversed()).await, ["us1", "eu300", "eu5", "eu-3", "af9"]);
        assert_eq!(read(prices.prefix(&("eu",))).await, ["eu-3", "eu5", "eu300"]);
        assert_eq!(read(prices.prefix(&("eu",)).reversed()).await, ["eu300", "eu5", "eu-3"]);
        assert_eq!(read(prices.range(("eu", 5)..("us", 1))).await, ["eu5", "eu300"]);
        assert_eq!(read(prices.range(("eu", 5)..=("us", 1))).await, ["eu5", "eu300", "us1"]);
        assert_eq!(read(prices.range(("eu", 6)..)).await, ["eu300", "us1"]);
        assert_eq!(read(prices.range(..("eu", 5))).await, ["af9", "eu-3"]);
        assert!(read(prices.range(("us", 1)..("eu", 5))).await.is_empty(), "the wrong way round");

        let names: Ages = state.collection("names").await.unwrap();
        for name in ["an", "anna", "anton", "bert"] {
            names.add(&mut tx, name.into(), 0).await.unwrap();
        }
        let keys: Vec<String> = names.starting_with("an").keys(&mut tx).await.unwrap().collect().await.unwrap();
        assert_eq!(keys, ["an", "anna", "anton"]);
        let error = names.range(3..7).keys(&mut tx).await.err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert_eq!(error.to_string(), r#"the bound of a range of dictionary "names" is not one of its keys"#);
    })
    .await;
}

#[tokio::test]
async fn keys_and_values_above_their_limits_are_refused_by_name() {
    on_every_level(async |state| {
        let blobs: Dictionary<String, serde_bytes_of::Blob> = state.collection("blobs").await.unwrap();
        let mut tx = state.begin();
        let error = blobs.set(&mut tx, "k".repeat(5000), serde_bytes_of::Blob(vec![])).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TooLarge);
        assert!(error.to_string().contains("KEY_BYTES_MAX"), "{error}");
        let big = serde_bytes_of::Blob(vec![7; VALUE_BYTES_MAX]);
        let error = blobs.set(&mut tx, "big".into(), big).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TooLarge);
        assert!(error.to_string().contains(r#"dictionary "blobs", key "big""#), "{error}");
        assert!(error.to_string().contains(&VALUE_BYTES_MAX.to_string()), "{error}");
        for number in 0..3 {
            let blob = serde_bytes_of::Blob(vec![7; VALUE_BYTES_MAX - 100]);
            blobs.set(&mut tx, number.to_string(), blob).await.unwrap();
        }
        let blob = serde_bytes_of::Blob(vec![7; VALUE_BYTES_MAX - 100]);
        let error = blobs.set(&mut tx, "one more".into(), blob).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TooLarge);
        assert!(error.to_string().contains("TRANSACTION_BYTES_MAX"), "{error}");
        // What was refused has changed nothing: the rest can be committed.
        tx.commit().await.unwrap();
        let mut tx = state.begin();
        assert_eq!(blobs.len(&mut tx).await.unwrap(), 3);
    })
    .await;
}

/// Bytes as bytes, not as a list of numbers.
mod serde_bytes_of {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) struct Blob(pub(crate) Vec<u8>);

    impl Serialize for Blob {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.serialize_bytes(&self.0)
        }
    }

    impl<'de> Deserialize<'de> for Blob {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            bytes::Bytes::deserialize(deserializer).map(|bytes| Blob(bytes.to_vec()))
        }
    }
}

#[tokio::test]
async fn entries_and_keys_are_streams() {
    on_every_level(async |state| {
        let ages = ages(&state).await;
        let mut tx = state.begin();
        for age in 0..40 {
            ages.set(&mut tx, format!("{age:02}"), age).await.unwrap();
        }
        tx.commit().await.unwrap();
        let mut tx = state.begin();
        let entries = ages.all().entries(&mut tx).await.unwrap();
        let adults: Vec<u32> = entries.map_ok(|(_, age)| *age).skip(18).try_collect().await.unwrap();
        assert_eq!(adults, (18..40).collect::<Vec<_>>());
        let mut keys = ages.all().reversed().keys(&mut tx).await.unwrap();
        assert_eq!(StreamExt::next(&mut keys).await.unwrap().unwrap(), "39");
        // The one and the other go on where either was.
        assert_eq!(keys.next().await.unwrap().unwrap(), "38");
        assert_eq!(StreamExt::collect::<Vec<_>>(keys).await.len(), 38);
    })
    .await;
}

#[tokio::test]
async fn a_long_enumeration_is_interrupted_and_goes_on_where_it_was() {
    on_every_level(async |state| {
        let ages = ages(&state).await;
        let mut tx = state.begin();
        for age in 0..40 {
            ages.set(&mut tx, format!("{age:02}"), age).await.unwrap();
        }
        let mut entries = ages.all().entries(&mut tx).await.unwrap();
        let (mut seen, mut breaks) = (Vec::new(), 0);
        while seen.len() < 40 {
            // The future is dropped each time.
            match futures_util::poll!(Box::pin(entries.next())) {
                Poll::Ready(entry) => seen.push(*entry.unwrap().unwrap().1),
                Poll::Pending => breaks += 1,
            }
        }
        assert_eq!((seen, breaks), ((0..40).collect(), 2), "a break after each 16 entries");
    })
    .await;
}
