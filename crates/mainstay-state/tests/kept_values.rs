//! Values of level none are kept decoded in the store itself, up to a limit, and beyond it as on every level.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;

use mainstay_core::Level;
use mainstay_state::{Dictionary, StateOptions};
use proptest::prelude::*;
use support::TestNode;

type Texts = Dictionary<u8, String>;

#[derive(Debug, Clone)]
enum Step {
    Set(u8, usize),
    Remove(u8),
    Read(u8),
    Clear,
    /// Changes two keys and undoes that.
    Abort(u8, u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => (0..12_u8, 0..600_usize).prop_map(|(key, len)| Step::Set(key, len)),
        2 => (0..12_u8).prop_map(Step::Remove),
        6 => (0..12_u8).prop_map(Step::Read),
        1 => Just(Step::Clear),
        1 => (0..12_u8, 0..12_u8).prop_map(|(a, b)| Step::Abort(a, b)),
    ];
    proptest::collection::vec(step, 1..120)
}

/// Room for a few of the values: others come and go.
const FEW_BYTES: u64 = 4000;

async fn follow(steps: Vec<Step>) {
    let node = TestNode::start_small().await;
    let mut options = StateOptions::default();
    options.cache_bytes = FEW_BYTES;
    let state = node.state_with(Level::None, options).await;
    let texts: Texts = state.collection("texts").await.unwrap();
    let mut model: BTreeMap<u8, String> = BTreeMap::new();
    for (number, step) in steps.into_iter().enumerate() {
        let mut tx = state.begin();
        match step {
            Step::Set(key, len) => {
                let text = format!("{number:04}").repeat(len / 4);
                texts.set(&mut tx, key, text.clone()).await.unwrap();
                model.insert(key, text);
            }
            Step::Remove(key) => {
                assert_eq!(texts.try_remove(&mut tx, &key).await.unwrap().as_deref(), model.remove(&key).as_ref());
            }
            Step::Read(key) => {
                assert_eq!(texts.get(&mut tx, &key).await.unwrap().as_deref(), model.get(&key));
            }
            Step::Clear => {
                texts.clear(&mut tx).await.unwrap();
                model.clear();
            }
            Step::Abort(a, b) => {
                for key in [a, b] {
                    texts.set(&mut tx, key, "never".into()).await.unwrap();
                }
                tx.abort();
                continue;
            }
        }
        tx.commit().await.unwrap();
    }
    let mut tx = state.begin();
    for key in 0..12 {
        assert_eq!(texts.get(&mut tx, &key).await.unwrap().as_deref(), model.get(&key));
    }
    let mut entries = texts.all().entries(&mut tx).await.unwrap();
    let mut found = BTreeMap::new();
    while let Some((key, text)) = entries.next().await.unwrap() {
        found.insert(key, String::clone(&text));
    }
    assert_eq!(found, model);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn values_are_those_that_were_committed_whether_they_are_kept_or_not(steps in steps()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(follow(steps));
    }
}

#[tokio::test]
async fn what_was_written_is_read_without_decoding_it() {
    let node = TestNode::start_small().await;
    let state = node.state(Level::None).await;
    let texts: Texts = state.collection("texts").await.unwrap();
    let written =
        state.transact(async |mut tx| texts.add_or_update(&mut tx, 1, "one".into(), |_| ()).await).await.unwrap();
    let mut tx = state.begin();
    let read = texts.get(&mut tx, &1).await.unwrap().unwrap();
    assert!(Arc::ptr_eq(&read, &written));
}
