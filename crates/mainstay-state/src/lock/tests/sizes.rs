//! What stays cheap with many locks and many holders, by structure and not by the clock.

use super::driver::{Owner, key, table};
use crate::lock::LockMode::{Exclusive, Shared, Update};
use crate::lock::TransactionId;

const MANY: u64 = 10_000;

#[tokio::test]
async fn ten_thousand_share_a_key_and_leave_in_any_order() {
    let table = table();
    let apple = key("apple");
    let mut sharers: Vec<Owner> = (0..MANY).map(|id| Owner::new(table.clone(), TransactionId(id))).collect();
    for sharer in &mut sharers {
        assert!(sharer.try_acquire(&apple, Shared));
    }
    assert_eq!(table.len(), 1);
    let (in_place, by_id) = table.holders_room(&apple);
    assert!(in_place <= 4 && by_id >= sharers.len() - in_place, "beyond a few, holders are found by their id");
    let mut writer = Owner::new(table.clone(), TransactionId(MANY));
    assert!(writer.try_acquire(&apple, Update));
    assert!(!writer.try_acquire(&apple, Exclusive));
    // From the middle, so that neither the first nor the last is special.
    while !sharers.is_empty() {
        assert!(!writer.try_acquire(&apple, Exclusive), "{} still share it", sharers.len());
        sharers.swap_remove(sharers.len() / 2);
        assert!(table.holders_room(&apple).1 <= (sharers.len() * 16).max(64 * 2), "memory follows the holders");
    }
    assert!(writer.try_acquire(&apple, Exclusive));
    drop(writer);
    assert_eq!(table.len(), 0);
}

#[tokio::test]
async fn an_owner_of_a_hundred_thousand_locks_finds_each_and_leaves_no_room_behind() {
    let table = table();
    let mut owner = Owner::new(table.clone(), TransactionId(1));
    let keys: Vec<_> = (0..10 * MANY).map(|n| key(&format!("key {n}"))).collect();
    for (n, key) in keys.iter().enumerate() {
        assert_eq!(owner.holds(key), None);
        assert!(owner.try_acquire(key, if n % 2 == 0 { Shared } else { Exclusive }));
    }
    for (n, key) in keys.iter().enumerate() {
        assert_eq!(owner.holds(key), Some(if n % 2 == 0 { Shared } else { Exclusive }));
        assert!(owner.try_acquire(key, Update));
        assert_eq!(owner.holds(key), Some(if n % 2 == 0 { Update } else { Exclusive }));
    }
    assert_eq!(table.len(), keys.len());
    assert!(table.room() >= keys.len());
    owner.release_all();
    assert_eq!((table.len(), owner.holds(&keys[7])), (0, None));
    assert!(table.room() <= 64 * 64, "room for {} keys is left", table.room());
    // It can be used again, from the beginning.
    assert!(owner.try_acquire(&keys[7], Shared));
    assert_eq!(owner.holds(&keys[7]), Some(Shared));
}
