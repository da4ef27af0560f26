//! How collections come, are named and typed, and go.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use mainstay_core::{ErrorKind, Level, Result};
use mainstay_state::{Collection, CollectionKind, Dictionary, NAME_BYTES_MAX, StateManager, Transaction};
use serde::{Deserialize, Serialize};
use support::{LEVELS, TestNode, on_every_level, stored_keys};

type Ages = Dictionary<String, u32>;

#[derive(Debug, Clone, Serialize, Deserialize)]
struct User {
    name: String,
}

async fn open(state: &StateManager, tx: &mut Transaction, name: &str) -> Result<Ages> {
    Ages::open(state, tx, name).await
}

fn names(state: &StateManager) -> Vec<String> {
    state.collections().unwrap().into_iter().map(|info| info.name).collect()
}

#[tokio::test]
async fn what_a_transaction_creates_it_can_use_at_once() {
    on_every_level(async |state| {
        let mut tx = state.begin();
        let ages = open(&state, &mut tx, "ages").await.unwrap();
        ages.set(&mut tx, "anna".into(), 41).await.unwrap();
        // Opened twice in one transaction it is one collection.
        let again = open(&state, &mut tx, "ages").await.unwrap();
        assert_eq!(again.get(&mut tx, "anna").await.unwrap().as_deref(), Some(&41));
        let others = open(&state, &mut tx, "others").await.unwrap();
        assert_eq!(others.len(&mut tx).await.unwrap(), 0);
        assert!(names(&state).is_empty(), "nobody else sees it");
        tx.commit().await.unwrap();

        assert_eq!(names(&state), ["ages", "others"]);
        let info = &state.collections().unwrap()[0];
        assert_eq!(
            (info.kind, info.key.as_deref(), info.value.as_str()),
            (CollectionKind::Dictionary, Some("string"), "u32")
        );
        // The handle goes on, and so do others.
        assert_eq!(ages.get(&mut state.begin(), "anna").await.unwrap().as_deref(), Some(&41));
        let ages: Ages = state.collection("ages").await.unwrap();
        assert_eq!(ages.len(&mut state.begin()).await.unwrap(), 1);
    })
    .await;
}

#[tokio::test]
async fn others_wait_until_it_is_known_whether_it_comes_to_be() {
    on_every_level(async |state| {
        for (name, commit) in [("kept", true), ("undone", false)] {
            let mut creator = state.begin();
            let ages = open(&state, &mut creator, name).await.unwrap();
            ages.set(&mut creator, "anna".into(), 41).await.unwrap();

            let (mut one, mut two, mut three) = (state.begin(), state.begin(), state.begin());
            let mut opened = Box::pin(open(&state, &mut one, name));
            let mut read = Box::pin(ages.get(&mut two, "bert"));
            let mut counted = Box::pin(ages.len(&mut three));
            assert!(futures_util::poll!(&mut opened).is_pending(), "who opens it waits");
            assert!(futures_util::poll!(&mut read).is_pending(), "who has the handle waits");
            assert!(futures_util::poll!(&mut counted).is_pending());
            match commit {
                true => drop(creator.commit().await.unwrap()),
                false => creator.abort(),
            }
            let (opened, read, counted) = (opened.await, read.await, counted.await);
            let theirs = opened.unwrap();
            if commit {
                assert_eq!(read.unwrap(), None);
                assert_eq!(counted.unwrap(), 1);
            } else {
                for error in [read.unwrap_err(), counted.unwrap_err()] {
                    assert_eq!(error.kind(), ErrorKind::NotFound);
                    let text =
                        r#"dictionary "undone" does not exist: it was dropped, or never committed; open it again"#;
                    assert_eq!(error.to_string(), text);
                }
                // Who waited to open it has created it.
                theirs.set(&mut one, "carl".into(), 1).await.unwrap();
                one.commit().await.unwrap();
                assert!(ages.get(&mut state.begin(), "carl").await.is_err(), "the first handle is of another");
            }
        }
        assert_eq!(names(&state), ["kept", "undone"]);
    })
    .await;
}

#[tokio::test]
async fn what_is_undone_leaves_nothing_behind() {
    for level in LEVELS {
        let node = TestNode::start_small().await;
        let state = node.state(level).await;
        let partition = node.partition(level, 7).await;
        let mut tx = state.begin();
        let ages = open(&state, &mut tx, "ages").await.unwrap();
        ages.set(&mut tx, "anna".into(), 41).await.unwrap();
        drop(tx);
        assert!(stored_keys(&partition).is_empty());
        // The next one has nothing of the first.
        let mut tx = state.begin();
        let users: Dictionary<String, User> = Dictionary::open(&state, &mut tx, "users").await.unwrap();
        assert!(users.get(&mut tx, "anna").await.unwrap().is_none());
        assert_eq!(ages.get(&mut tx, "anna").await.unwrap_err().kind(), ErrorKind::NotFound);
        tx.commit().await.unwrap();
        node.replicas.stop().await;
    }
}

#[tokio::test]
async fn another_type_than_it_was_created_with_is_refused_and_both_are_named() {
    on_every_level(async |state| {
        state.collection::<Ages>("ages").await.unwrap();
        let errors = [
            (state.collection::<Dictionary<String, u64>>("ages").await.unwrap_err(), "from string to u64"),
            (state.collection::<Dictionary<u64, u32>>("ages").await.unwrap_err(), "from u64 to u32"),
            (state.collection::<Dictionary<String, User>>("ages").await.unwrap_err(), "from string to User"),
            (state.collection::<Dictionary<String, Vec<u32>>>("ages").await.unwrap_err(), "from string to list of u32"),
        ];
        for (error, opened) in errors {
            assert_eq!(error.kind(), ErrorKind::Conflict);
            let text = format!(
                r#"collection "ages" is a dictionary from string to u32, and was opened as a dictionary {opened}: open it as what it is"#
            );
            assert!(error.to_string().starts_with(&text), "{error}");
        }
        // In the transaction that creates it, too.
        let mut tx = state.begin();
        open(&state, &mut tx, "new").await.unwrap();
        let error = Dictionary::<String, u64>::open(&state, &mut tx, "new").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict);
        // And the right one goes on.
        open(&state, &mut tx, "new").await.unwrap();
        tx.commit().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn names_that_cannot_be_are_refused() {
    on_every_level(async |state| {
        let long = "n".repeat(NAME_BYTES_MAX + 1);
        let cases = [
            ("", ErrorKind::Invalid, "is empty"),
            ("a\u{0}b", ErrorKind::Invalid, r#""a\0b" has a control character '\0'"#),
            ("a\nb", ErrorKind::Invalid, r"control character '\n'"),
            (&long, ErrorKind::TooLarge, "has 257 bytes, and NAME_BYTES_MAX is 256"),
        ];
        for (name, kind, part) in cases {
            let mut tx = state.begin();
            let errors = [
                state.collection::<Ages>(name).await.unwrap_err(),
                state.drop_collection(&mut tx, name).await.unwrap_err(),
            ];
            for error in errors {
                assert_eq!(error.kind(), kind, "{error}");
                assert!(error.to_string().contains(part), "{error}");
            }
        }
        for name in [&long[1..], "ages of ünïcödé 人", " ", "a/b", "\"", "a.b"] {
            state.collection::<Ages>(name).await.unwrap();
            assert!(names(&state).contains(&name.to_owned()), "{name}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_drop_frees_all_that_it_held_and_its_handles_refuse() {
    for level in LEVELS {
        let node = TestNode::start_small().await;
        let state = node.state(level).await;
        let partition = node.partition(level, 7).await;
        let kept: Ages = state.collection("kept").await.unwrap();
        let mut tx = state.begin();
        kept.set(&mut tx, "anna".into(), 1).await.unwrap();
        tx.commit().await.unwrap();
        let before = stored_keys(&partition).len();

        let ages: Ages = state.collection("ages").await.unwrap();
        let mut tx = state.begin();
        for number in 0..50 {
            ages.set(&mut tx, number.to_string(), number).await.unwrap();
            ages.set_with_ttl(&mut tx, format!("short {number}"), number, std::time::Duration::from_secs(900))
                .await
                .unwrap();
        }
        tx.commit().await.unwrap();
        assert!(stored_keys(&partition).len() >= before + 150, "entries, and places of those that expire");

        let mut tx = state.begin();
        state.drop_collection(&mut tx, "ages").await.unwrap();
        assert_eq!(
            ages.get(&mut tx, "1").await.unwrap_err().kind(),
            ErrorKind::NotFound,
            "who drops it is refused, too"
        );
        assert_eq!(ages.set(&mut tx, "new".into(), 1).await.unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(state.drop_collection(&mut tx, "ages").await.unwrap_err().kind(), ErrorKind::NotFound);
        tx.commit().await.unwrap();

        assert_eq!(stored_keys(&partition).len(), before, "{:?}", stored_keys(&partition));
        let error = ages.get(&mut state.begin(), "1").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(error.to_string().contains(r#"dictionary "ages" does not exist"#), "{error}");
        assert_eq!(kept.get(&mut state.begin(), "anna").await.unwrap().as_deref(), Some(&1));

        // The name is free, for another type, which has nothing of the first.
        let users: Dictionary<u64, User> = state.collection("ages").await.unwrap();
        let mut tx = state.begin();
        assert!(users.is_empty(&mut tx).await.unwrap());
        users.set(&mut tx, 1, User { name: "anna".into() }).await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!(ages.len(&mut state.begin()).await.unwrap_err().kind(), ErrorKind::NotFound);
        let error = state.drop_collection(&mut state.begin(), "never").await.unwrap_err();
        assert_eq!(error.to_string(), r#"there is no collection "never" to drop"#);
        node.replicas.stop().await;
    }
}

#[tokio::test]
async fn a_drop_that_is_undone_has_never_been() {
    on_every_level(async |state| {
        let ages: Ages = state.collection("ages").await.unwrap();
        let mut tx = state.begin();
        ages.set(&mut tx, "anna".into(), 41).await.unwrap();
        tx.commit().await.unwrap();
        let mut tx = state.begin();
        state.drop_collection(&mut tx, "ages").await.unwrap();
        let mut other = state.begin();
        let mut waiting = Box::pin(ages.get(&mut other, "anna"));
        assert!(futures_util::poll!(&mut waiting).is_pending(), "who uses it waits for who drops it");
        drop(tx);
        assert_eq!(waiting.await.unwrap().as_deref(), Some(&41));
        assert_eq!(names(&state), ["ages"]);
    })
    .await;
}

#[tokio::test]
async fn a_collection_can_be_dropped_and_created_in_one_transaction() {
    on_every_level(async |state| {
        let ages: Ages = state.collection("ages").await.unwrap();
        let mut tx = state.begin();
        ages.set(&mut tx, "anna".into(), 41).await.unwrap();
        tx.commit().await.unwrap();
        let mut tx = state.begin();
        state.drop_collection(&mut tx, "ages").await.unwrap();
        let users: Dictionary<String, User> = Dictionary::open(&state, &mut tx, "ages").await.unwrap();
        assert!(users.get(&mut tx, "anna").await.unwrap().is_none());
        users.set(&mut tx, "bert".into(), User { name: "bert".into() }).await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!(users.len(&mut state.begin()).await.unwrap(), 1);
        assert!(ages.get(&mut state.begin(), "anna").await.is_err());
    })
    .await;
}

#[tokio::test]
async fn what_one_transaction_creates_and_drops_has_never_been() {
    for commit in [true, false] {
        on_every_level(async |state| {
            let mut tx = state.begin();
            let ages = open(&state, &mut tx, "ages").await.unwrap();
            ages.set(&mut tx, "anna".into(), 41).await.unwrap();
            state.drop_collection(&mut tx, "ages").await.unwrap();
            match commit {
                true => drop(tx.commit().await.unwrap()),
                false => tx.abort(),
            }
            assert!(names(&state).is_empty());
            let error = ages.set(&mut state.begin(), "bert".into(), 1).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
            assert!(state.collection::<Dictionary<u64, u64>>("ages").await.is_ok());
        })
        .await;
    }
}

#[tokio::test]
async fn a_restart_keeps_what_was_created_and_what_was_dropped() {
    let mut node = TestNode::start().await;
    let state = node.state(Level::Persisted).await;
    for name in ["ages", "dropped", "others"] {
        let ages: Ages = state.collection(name).await.unwrap();
        let mut tx = state.begin();
        ages.set(&mut tx, name.into(), 7).await.unwrap();
        tx.commit().await.unwrap();
    }
    let mut tx = state.begin();
    state.drop_collection(&mut tx, "dropped").await.unwrap();
    tx.commit().await.unwrap();
    let before = state.collections().unwrap();
    drop(state);
    node = node.restart().await;
    let state = node.state(Level::Persisted).await;
    assert_eq!(state.collections().unwrap(), before);
    assert_eq!(names(&state), ["ages", "others"]);
    let error = state.collection::<Dictionary<String, User>>("ages").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    for name in ["ages", "others"] {
        let ages: Ages = state.collection(name).await.unwrap();
        assert_eq!(ages.get(&mut state.begin(), name).await.unwrap().as_deref(), Some(&7));
        assert_eq!(ages.len(&mut state.begin()).await.unwrap(), 1);
    }
    // A new one has nothing of those before it.
    let new: Ages = state.collection("dropped").await.unwrap();
    assert_eq!(new.len(&mut state.begin()).await.unwrap(), 0);
    assert_eq!(new.get(&mut state.begin(), "dropped").await.unwrap(), None);
    drop((new, state));
    node.replicas.stop().await;
}

#[tokio::test]
async fn two_who_create_the_same_at_once_get_the_same() {
    on_every_level(async |state| {
        let (one, two) = tokio::join!(state.collection::<Ages>("ages"), state.collection::<Ages>("ages"));
        let (one, two) = (one.unwrap(), two.unwrap());
        let mut tx = state.begin();
        one.set(&mut tx, "anna".into(), 41).await.unwrap();
        assert_eq!(two.get(&mut tx, "anna").await.unwrap().as_deref(), Some(&41));
        tx.commit().await.unwrap();
        assert_eq!(names(&state), ["ages"]);
    })
    .await;
}

#[tokio::test]
async fn two_who_create_the_same_wait_for_each_other() {
    on_every_level(async |state| {
        let create = async |mut tx: Transaction| {
            let ages = open(&state, &mut tx, "ages").await?;
            let number = ages.len(&mut tx).await?;
            ages.set(&mut tx, number.to_string(), 1).await?;
            tx.commit().await
        };
        let mut first = state.begin();
        open(&state, &mut first, "ages").await.unwrap();
        let (mut second, mut third) = (Box::pin(create(state.begin())), Box::pin(create(state.begin())));
        assert!(futures_util::poll!(&mut second).is_pending());
        assert!(futures_util::poll!(&mut third).is_pending());
        // Both of them go on at the same moment, and find that it is not there.
        drop(first);
        let (second, third) = tokio::join!(second, third);
        second.unwrap();
        third.unwrap();
        let mut tx = state.begin();
        let ages = open(&state, &mut tx, "ages").await.unwrap();
        assert_eq!(ages.len(&mut tx).await.unwrap(), 2);
    })
    .await;
}
