//! What the actors of a partition store, on every level.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use bytes::Bytes;
use futures_util::FutureExt as _;
use mainstay_core::contract::Fingerprint;
use mainstay_core::time::{Duration, WallTime};
use mainstay_core::{ACTOR_ID_BYTES_MAX, ActorId, ErrorKind, Level};
use mainstay_replica::Partition;
use mainstay_state::actor::{
    ActorStore, ActorWrites, Answer, CatchUp, CronSchedule, IDEMPOTENCY_KEY_BYTES_MAX, REMINDER_NAME_BYTES_MAX,
    REMINDER_PAYLOAD_BYTES_MAX, Reminder, STATE_NAME_BYTES_MAX, Schedule,
};
use mainstay_state::{Dictionary, StateManager, VALUE_BYTES_MAX};
use support::{LEVELS, TestNode, stored_keys};
use uuid::Uuid;

fn at(millis: u64) -> WallTime {
    WallTime::from_millis(millis)
}

fn reminder(name: &str, due: u64) -> Reminder {
    Reminder::new(name, Bytes::from_static(b"payload"), Schedule::Every(Duration::from_secs(1)), at(due)).unwrap()
}

fn answer(reply: &'static str, expires: u64) -> Answer {
    Answer {
        interface: Some("Account".into()),
        method: "pay".into(),
        arguments: Some(Fingerprint::from_bytes([7; 16])),
        reply: Bytes::from_static(reply.as_bytes()),
        expires: at(expires),
    }
}

fn writes(id: impl Into<ActorId>) -> ActorWrites {
    ActorWrites::new(id.into())
}

async fn raw(partition: &Partition, change: impl FnOnce(&mut mainstay_replica::Batch)) {
    let mut batch = partition.batch();
    change(&mut batch);
    partition.commit(batch).await.unwrap();
}

/// The names and due times of what is due.
fn due(store: &ActorStore, until: u64, limit: usize) -> Vec<(String, u64)> {
    let due = store.due(at(until), limit).unwrap();
    due.into_iter().map(|(_, reminder)| (reminder.name, reminder.due.as_millis())).collect()
}

#[tokio::test]
async fn what_is_committed_is_read_on_every_level() {
    let node = TestNode::start_small().await;
    for level in LEVELS {
        let store = ActorStore::open(node.partition(level, 1).await).await.unwrap();
        let id = ActorId::from("alice");
        assert!(!store.is_known(&id).unwrap());
        assert_eq!((store.next_due().unwrap(), store.state(&id, "balance").unwrap()), (None, None));

        let mut changes = writes(&id);
        changes.mark_known();
        changes.put_state("balance", Bytes::from_static(b"100")).unwrap();
        changes.put_state("", Bytes::new()).unwrap();
        changes.put_reminder(reminder("report", 5000)).unwrap();
        let cron = Schedule::Cron(CronSchedule::parse("@daily").unwrap());
        let daily = Reminder::new("daily", Bytes::new(), cron, at(4000)).unwrap().with_catch_up(CatchUp::Skip);
        changes.put_reminder(daily.clone()).unwrap();
        changes.put_answer("key", answer("paid", 7000)).unwrap();
        let first = store.commit(&changes).await.unwrap();

        assert!(store.is_known(&id).unwrap());
        assert_eq!(store.state(&id, "balance").unwrap().as_deref(), Some(&b"100"[..]));
        assert_eq!(store.state(&id, "").unwrap().as_deref(), Some(&b""[..]));
        assert_eq!(store.state_names(&id).unwrap(), ["", "balance"]);
        assert_eq!(store.reminder(&id, "report").unwrap(), Some(reminder("report", 5000)));
        assert_eq!(store.reminders(&id).unwrap(), [daily.clone(), reminder("report", 5000)]);
        assert_eq!(store.answer(&id, "key").unwrap(), Some(answer("paid", 7000)));
        assert_eq!(store.next_due().unwrap(), Some(at(4000)));
        assert_eq!(due(&store, 3999, 9), []);
        assert_eq!(due(&store, 4000, 9), [("daily".to_owned(), 4000)]);
        assert_eq!(store.expired_answers(at(6999), 9).unwrap(), []);
        assert_eq!(store.expired_answers(at(7000), 9).unwrap(), [(id.clone(), "key".to_owned())]);
        assert_eq!(store.actors(None, 9).unwrap(), vec![id.clone()]);
        // Nothing of another actor, of whatever kind its id is.
        for other in [ActorId::from("alic"), ActorId::from("alice\0"), ActorId::from(7)] {
            assert_eq!((store.is_known(&other).unwrap(), store.state_names(&other).unwrap().len()), (false, 0));
            assert_eq!((store.state(&other, "balance").unwrap(), store.reminders(&other).unwrap().len()), (None, 0));
        }

        let mut changes = writes(&id);
        changes.remove_state("balance");
        changes.remove_reminder("daily");
        changes.remove_answer("key");
        assert!(store.commit(&changes).await.unwrap() > first);
        assert_eq!((store.state(&id, "balance").unwrap(), store.answer(&id, "key").unwrap()), (None, None));
        assert_eq!((store.next_due().unwrap(), store.reminders(&id).unwrap().len()), (Some(at(5000)), 1));
        assert_eq!(store.expired_answers(WallTime::MAX, 9).unwrap(), []);

        // Nothing to commit is no mistake.
        store.commit(&writes(&id)).await.unwrap();
    }
    node.replicas.stop().await;
}

#[tokio::test]
async fn a_deleted_actor_leaves_nothing_and_what_is_set_afterwards_stays() {
    let node = TestNode::start_small().await;
    for level in LEVELS {
        let store = ActorStore::open(node.partition(level, 1).await).await.unwrap();
        let empty = stored_keys(store.partition());
        let id = ActorId::from(7);
        let mut filled = writes(&id);
        filled.mark_known();
        for name in ["a", "b"] {
            filled.put_state(name, Bytes::from_static(b"1")).unwrap();
            filled.put_reminder(reminder(name, 5)).unwrap();
            filled.put_answer(name, answer("r", 6)).unwrap();
        }
        let mut neighbour = writes(8);
        neighbour.mark_known();
        neighbour.put_reminder(reminder("a", 5)).unwrap();
        store.commit(&neighbour).await.unwrap();
        let others = stored_keys(store.partition());

        store.commit(&filled).await.unwrap();
        let mut delete = writes(&id);
        delete.delete_actor();
        store.commit(&delete).await.unwrap();
        assert_eq!(stored_keys(store.partition()), others);
        assert!(!store.is_known(&id).unwrap());

        // In one commit: one of the reminders again at its old time, one at another.
        store.commit(&filled).await.unwrap();
        delete.mark_known();
        delete.put_reminder(reminder("a", 5)).unwrap();
        delete.put_reminder(reminder("b", 9)).unwrap();
        delete.put_state("b", Bytes::from_static(b"2")).unwrap();
        store.commit(&delete).await.unwrap();
        assert_eq!((store.is_known(&id).unwrap(), store.state_names(&id).unwrap()), (true, vec!["b".to_owned()]));
        assert_eq!(due(&store, 9, 9), [("a".to_owned(), 5), ("a".to_owned(), 5), ("b".to_owned(), 9)]);
        assert_eq!(stored_keys(store.partition()).len(), others.len() + 1 + 1 + 2 * 2);

        for id in [7, 8] {
            let mut delete = writes(id);
            delete.delete_actor();
            store.commit(&delete).await.unwrap();
        }
        assert_eq!(stored_keys(store.partition()), empty);
    }
    node.replicas.stop().await;
}

#[tokio::test]
async fn on_level_none_a_commit_is_done_at_its_first_poll() {
    let node = TestNode::start_small().await;
    let store = ActorStore::open(node.partition(Level::None, 1).await).now_or_never().expect("done").unwrap();
    let mut changes = writes(7);
    changes.delete_actor();
    changes.put_state("a", Bytes::from_static(b"1")).unwrap();
    changes.put_reminder(reminder("a", 5)).unwrap();
    store.commit(&changes).now_or_never().expect("done").unwrap();
    assert_eq!(store.next_due().unwrap(), Some(at(5)));
    node.replicas.stop().await;
}

/// More than there is to be found.
const PAGED_MAX: usize = 1000;

#[tokio::test]
async fn pages_follow_each_other_without_gap_or_overlap() {
    let node = TestNode::start_small().await;
    let store = ActorStore::open(node.partition(Level::None, 1).await).await.unwrap();
    let mut ids: Vec<ActorId> = [-3, 0, 9].map(ActorId::from).to_vec();
    ids.extend([1, 2].map(|uuid| ActorId::from(Uuid::from_u128(uuid))));
    ids.extend(["", "\0", "a", "a\0", "b"].map(ActorId::from));
    for (number, id) in ids.iter().enumerate() {
        let mut changes = writes(id);
        changes.mark_known();
        // Some at the same time.
        for name in ["x", "y"] {
            changes.put_reminder(reminder(name, number as u64 / 3)).unwrap();
        }
        store.commit(&changes).await.unwrap();
    }
    for limit in 1..=7 {
        let mut seen: Vec<ActorId> = Vec::new();
        loop {
            let page = store.actors(seen.last(), limit).unwrap();
            assert!(page.len() <= limit);
            if page.is_empty() {
                break;
            }
            seen.extend(page);
            assert!(seen.len() <= PAGED_MAX, "pages that never end");
        }
        assert_eq!(seen, ids, "in the order of ids");

        let expected: Vec<(ActorId, &str)> = ids.iter().flat_map(|id| [(id.clone(), "x"), (id.clone(), "y")]).collect();
        let mut seen: Vec<(ActorId, Reminder)> = Vec::new();
        loop {
            let after = seen.last().map(|(id, reminder)| (id, reminder.name.as_str()));
            let page = store.all_reminders(after, limit).unwrap();
            if page.is_empty() {
                break;
            }
            seen.extend(page);
            assert!(seen.len() <= PAGED_MAX, "pages that never end");
        }
        let names: Vec<(ActorId, &str)> = seen.iter().map(|(id, found)| (id.clone(), found.name.as_str())).collect();
        assert_eq!(names, expected);

        let mut seen: Vec<(ActorId, Reminder)> = Vec::new();
        loop {
            let after = seen.last().map(|(id, reminder)| (reminder.due, id, reminder.name.as_str()));
            let page = store.due_after(at(2), after, limit).unwrap();
            if page.is_empty() {
                break;
            }
            seen.extend(page);
            assert!(seen.len() <= PAGED_MAX, "pages that never end");
        }
        // In the order of time, which is the one of ids here.
        let names: Vec<(ActorId, &str)> = seen.iter().map(|(id, found)| (id.clone(), found.name.as_str())).collect();
        assert_eq!(names, expected[..2 * 9]);
    }
    assert_eq!((store.actors(None, 0).unwrap().len(), store.due(at(9), 0).unwrap().len()), (0, 0));
    node.replicas.stop().await;
}

#[tokio::test]
async fn the_largest_of_everything_is_stored_on_every_level() {
    let node = TestNode::start_small().await;
    for level in LEVELS {
        let store = ActorStore::open(node.partition(level, 1).await).await.unwrap();
        // Each of its bytes takes two in a key.
        let id = ActorId::from("\0".repeat(ACTOR_ID_BYTES_MAX));
        let mut changes = writes(&id);
        changes.mark_known();
        let name = "n".repeat(STATE_NAME_BYTES_MAX);
        changes.put_state(&name, vec![1; VALUE_BYTES_MAX].into()).unwrap();
        let largest = Reminder {
            payload: vec![2; REMINDER_PAYLOAD_BYTES_MAX].into(),
            ..reminder(&"r".repeat(REMINDER_NAME_BYTES_MAX), u64::MAX)
        };
        changes.put_reminder(largest.clone()).unwrap();
        let key = "k".repeat(IDEMPOTENCY_KEY_BYTES_MAX);
        let reply = Answer { reply: vec![3; VALUE_BYTES_MAX].into(), ..answer("", u64::MAX) };
        changes.put_answer(&key, reply.clone()).unwrap();
        store.commit(&changes).await.unwrap();
        assert_eq!(store.state(&id, &name).unwrap().unwrap().len(), VALUE_BYTES_MAX);
        assert_eq!(store.due(WallTime::MAX, 9).unwrap(), [(id.clone(), largest)]);
        assert_eq!(store.answer(&id, &key).unwrap(), Some(reply));
        assert_eq!(store.actors(None, 9).unwrap(), vec![id.clone()]);

        let error = store.commit(&writes("x".repeat(ACTOR_ID_BYTES_MAX + 1))).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TooLarge);
    }
    node.replicas.stop().await;
}

#[tokio::test]
async fn a_place_in_the_order_of_time_without_its_entry_is_passed_over() {
    let node = TestNode::start_small().await;
    for level in LEVELS {
        let store = ActorStore::open(node.partition(level, 1).await).await.unwrap();
        let id = ActorId::from(7);
        let mut changes = writes(&id);
        changes.put_reminder(reminder("a", 50)).unwrap();
        changes.put_answer("a", answer("r", 50)).unwrap();
        store.commit(&changes).await.unwrap();
        // Of an entry that has another time, and of one that is not there.
        raw(store.partition(), |batch| {
            for area in [0x45_u8, 0x46] {
                for (time, name) in [(10_u64, b"a"), (60, b"a"), (20, b"b")] {
                    let id = b"\x01\x80\0\0\0\0\0\0\x07";
                    batch.put_parts(&[&[area], &time.to_be_bytes(), id, name], &[]);
                }
            }
        })
        .await;
        assert_eq!(store.next_due().unwrap(), Some(at(50)));
        assert_eq!(due(&store, 100, 9), [("a".to_owned(), 50)]);
        assert_eq!(due(&store, 100, 1), [("a".to_owned(), 50)]);
        assert_eq!(store.expired_answers(at(100), 9).unwrap(), [(id.clone(), "a".to_owned())]);
        assert_eq!(store.expired_answers(at(49), 9).unwrap(), []);
        // It is taken over where the entry gets its time.
        let mut changes = writes(&id);
        changes.put_reminder(reminder("a", 10)).unwrap();
        store.commit(&changes).await.unwrap();
        assert_eq!((store.next_due().unwrap(), due(&store, 100, 9).len()), (Some(at(10)), 1));
    }
    node.replicas.stop().await;
}

#[tokio::test]
async fn no_reminder_is_lost_even_if_two_commits_of_an_actor_are_in_flight() {
    let node = TestNode::start_small().await;
    for level in [Level::Persisted, Level::Volatile] {
        let store = ActorStore::open(node.partition(level, 1).await).await.unwrap();
        let id = ActorId::from(7);
        for round in 0..8_u64 {
            let changes = |due: u64| {
                let mut changes = writes(&id);
                changes.put_reminder(reminder("a", due)).unwrap();
                changes
            };
            // All of them replace the same, as far as they can see. One of them goes back to it.
            let [first, second, third] = [round + 10, round + 20, round].map(changes);
            let (a, b, c) = tokio::join!(store.commit(&first), store.commit(&second), store.commit(&third));
            assert!(a.unwrap() < b.as_ref().copied().unwrap() && b.unwrap() < c.unwrap());
            assert_eq!(due(&store, 1000, 9), [("a".to_owned(), round)]);
            assert_eq!(store.next_due().unwrap(), Some(at(round)));
        }
    }
    node.replicas.stop().await;
}

#[tokio::test]
async fn a_partition_is_open_once_and_holds_either_actors_or_collections() {
    let node = TestNode::start_small().await;
    for level in LEVELS {
        let partition = node.partition(level, 1).await;
        let store = ActorStore::open(partition.clone()).await.unwrap();
        assert_eq!((store.epoch(), store.partition().id()), (partition.check().unwrap(), partition.id()));
        assert_eq!(ActorStore::open(partition.clone()).await.unwrap_err().kind(), ErrorKind::Conflict);
        drop(store);
        let error = StateManager::open(partition.clone()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        // The second time it is there already.
        drop(ActorStore::open(partition).await.unwrap());

        let collections = node.partition(level, 2).await;
        let state = StateManager::open(collections.clone()).await.unwrap();
        let _: Dictionary<u32, u32> = state.collection("numbers").await.unwrap();
        drop(state);
        let error = ActorStore::open(collections).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains("reliable collections"), "{error}");
    }
    node.replicas.stop().await;
}

#[tokio::test]
async fn an_unknown_layout_is_refused() {
    let node = TestNode::start_small().await;
    for (number, (key, value, expected)) in [
        (&b"\x40"[..], &b"\x02"[..], ErrorKind::UnknownVersion),
        (b"\x40", b"", ErrorKind::Corrupt),
        (b"\x42\x01\x80\0\0\0\0\0\0\x07n", b"\x01", ErrorKind::Corrupt),
    ]
    .into_iter()
    .enumerate()
    {
        let partition = node.partition(Level::None, number as u64).await;
        raw(&partition, |batch| _ = batch.put(key, value)).await;
        assert_eq!(ActorStore::open(partition.clone()).await.unwrap_err().kind(), expected);
        // Who is refused does not keep the partition from others.
        raw(&partition, |batch| _ = batch.delete(key)).await;
        ActorStore::open(partition).await.unwrap();
    }
    node.replicas.stop().await;
}

#[tokio::test]
async fn an_answer_that_an_earlier_build_has_kept_is_read_and_expires() {
    let node = TestNode::start_small().await;
    let store = ActorStore::open(node.partition(Level::None, 1).await).await.unwrap();
    let id = ActorId::from(7);
    let encoded = b"\x01\x80\0\0\0\0\0\0\x07";
    let stored = b"\x01\0\0\0\0\0\0\0\x32\0\x03paypaid";
    raw(store.partition(), |batch| {
        batch.put_parts(&[b"\x44", encoded, b"key"], &[stored]);
        batch.put_parts(&[b"\x46", &50_u64.to_be_bytes(), encoded, b"key"], &[]);
    })
    .await;
    let old = Answer {
        interface: None,
        method: "pay".into(),
        arguments: None,
        reply: Bytes::from_static(b"paid"),
        expires: at(50),
    };
    assert_eq!(store.answer(&id, "key").unwrap(), Some(old));
    assert_eq!(store.expired_answers(at(50), 9).unwrap(), [(id.clone(), "key".to_owned())]);
    let mut changes = writes(&id);
    changes.remove_answer("key");
    store.commit(&changes).await.unwrap();
    assert_eq!(store.next_expiry().unwrap(), None);
    node.replicas.stop().await;
}

/// What a later program wrote of one actor keeps nothing of the others from happening.
#[tokio::test]
async fn records_of_a_later_program_are_passed_over_in_the_order_of_time() {
    let node = TestNode::start_small().await;
    let store = ActorStore::open(node.partition(Level::None, 1).await).await.unwrap();
    let ids = [ActorId::from(7), ActorId::from(8)];
    for id in &ids {
        let mut changes = writes(id);
        changes.put_reminder(reminder("r", 20)).unwrap();
        changes.put_answer("k", answer("ok", 30)).unwrap();
        store.commit(&changes).await.unwrap();
    }
    // Both of actor 7 come first, and only a later program knows what they are.
    let encoded = b"\x01\x80\0\0\0\0\0\0\x07";
    for (area, name, time_area, time) in [(0x43_u8, "r", 0x45_u8, 20_u64), (0x44, "k", 0x46, 30)] {
        raw(store.partition(), |batch| {
            batch.put_parts(&[&[area], encoded, name.as_bytes()], &[b"\x09later"]);
            batch.put_parts(&[&[time_area], &time.to_be_bytes(), encoded, name.as_bytes()], &[]);
        })
        .await;
    }
    assert_eq!(store.next_due().unwrap(), Some(at(20)));
    assert_eq!(store.next_expiry().unwrap(), Some(at(30)));
    let due: Vec<ActorId> = store.due(at(99), 9).unwrap().into_iter().map(|(id, _)| id).collect();
    assert_eq!(due, ids[1..]);
    assert_eq!(store.due(at(99), 1).unwrap().len(), 1, "it takes no place of a page");
    assert_eq!(store.expired_answers(at(99), 9).unwrap(), [(ids[1].clone(), "k".to_owned())]);
    let error = store.reminder(&ids[0], "r").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnknownVersion);
    assert!(error.to_string().starts_with("reminder \"r\" of actor 7 has format version 9"), "{error}");
    node.replicas.stop().await;
}

#[tokio::test]
async fn damaged_entries_are_refused_by_name() {
    let node = TestNode::start_small().await;
    let store = ActorStore::open(node.partition(Level::None, 1).await).await.unwrap();
    let id = ActorId::from(7);
    let encoded = b"\x01\x80\0\0\0\0\0\0\x07";
    for (area, name) in [(0x41_u8, ""), (0x42, "s"), (0x43, "r"), (0x44, "k")] {
        raw(store.partition(), |batch| _ = batch.put_parts(&[&[area], encoded, name.as_bytes()], &[&[9]])).await;
    }
    for (error, what) in [
        (store.is_known(&id).unwrap_err(), "actor 7"),
        (store.state(&id, "s").unwrap_err(), "state \"s\" of actor 7"),
        (store.reminder(&id, "r").unwrap_err(), "reminder \"r\" of actor 7"),
        (store.reminders(&id).unwrap_err(), "reminder \"r\" of actor 7"),
        (store.all_reminders(None, 9).unwrap_err(), "reminder \"r\" of actor 7"),
        (store.answer(&id, "k").unwrap_err(), "answer \"k\" of actor 7"),
    ] {
        assert_eq!(error.kind(), ErrorKind::UnknownVersion);
        assert!(error.to_string().contains(what), "{error}");
    }
    assert_eq!(store.actors(None, 9).unwrap(), std::slice::from_ref(&id), "it is there, whatever is said of it");
    // What another build wrote is not thrown away either.
    let mut changes = writes(&id);
    changes.remove_reminder("r");
    assert_eq!(store.commit(&changes).await.unwrap_err().kind(), ErrorKind::UnknownVersion);
    changes.delete_actor();
    assert_eq!(store.commit(&changes).await.unwrap_err().kind(), ErrorKind::UnknownVersion);

    for key in [&b"\x41\x09"[..], b"\x45\0\0"] {
        raw(store.partition(), |batch| _ = batch.put(key, b"\x01")).await;
    }
    assert_eq!(store.next_due().unwrap_err().kind(), ErrorKind::Corrupt);
    assert_eq!(store.due(at(1), 9).unwrap_err().kind(), ErrorKind::Corrupt);
    assert_eq!(store.actors(Some(&id), 9).unwrap_err().kind(), ErrorKind::Corrupt);
    node.replicas.stop().await;
}

#[tokio::test]
async fn a_commit_that_is_given_up_on_its_way_closes_what_is_known_here() {
    let node = TestNode::start_small().await;
    for level in [Level::Persisted, Level::Volatile] {
        let partition = node.partition(level, 9).await;
        let store = ActorStore::open(partition.clone()).await.unwrap();
        let id = ActorId::from("alice");
        let mut given_up = 0;
        let mut rounds = 0;
        let store = loop {
            rounds += 1;
            assert!(rounds < 1000, "every commit is over before it can be given up");
            let mut changes = writes(&id);
            changes.put_state("balance", Bytes::from(format!("{rounds}"))).unwrap();
            if store.commit(&changes).now_or_never().is_some() {
                continue;
            }
            given_up += 1;
            // Nobody reads what it is about to replace, and nobody commits on top of it.
            assert!(store.closed().now_or_never().is_some());
            let refused = store.state(&id, "balance").unwrap_err();
            assert!(matches!(refused.kind(), ErrorKind::NotPrimary { .. }), "{refused}");
            let refused = store.commit(&writes(&id)).await.unwrap_err();
            assert!(matches!(refused.kind(), ErrorKind::NotPrimary { .. }), "{refused}");
            // Whoever opens it again sees what became of it.
            store.close().await;
            break ActorStore::open(partition.clone()).await.unwrap();
        };
        let stored = store.state(&id, "balance").unwrap();
        assert_eq!((stored, given_up), (Some(Bytes::from(format!("{rounds}"))), 1));
        store.close().await;
    }
}
