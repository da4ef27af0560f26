use proptest::prelude::*;
use uuid::Uuid;

use super::*;
use crate::{Error, ErrorKind, contract};

/// As in docs/internals/partitioning.md. They never change: stored data is found by them.
const VECTORS: &[(&str, u64, u32)] = &[
    ("", 0xef46_db37_51d8_e999, 4),
    ("a", 0xd24e_c4f1_a98c_6e5b, 3),
    ("alice", 0x73a3_ea48_5f2e_6049, 9),
    ("Zoë", 0x577d_d6be_c83c_a1d1, 8),
    ("0123456789abcdef0123456789abcdef", 0x642a_9495_8e71_e6c5, 8),
    ("customer/4711/orders/2026-01-31/which is longer than one stripe of 32 bytes", 0xdd18_ba41_889f_6c9d, 3),
];

#[test]
fn the_hash_and_the_place_are_the_documented_ones() {
    let ten = Partitioning::uniform(10);
    for (text, number, partition) in VECTORS {
        assert_eq!(hash(text.as_bytes()).cast_unsigned(), *number, "{text:?}");
        assert_eq!(ten.partition_of(&PartitionKey::from(*text)).unwrap(), *partition, "{text:?}");
    }
    let uuid = Uuid::from_u128(0x0011_2233_4455_6677_8899_aabb_ccdd_eeff);
    assert_eq!(hash(uuid.as_bytes()), 0x13c6_635f_7150_0f92);
    assert_eq!(ten.partition_of(&PartitionKey::from(uuid)).unwrap(), 5);
}

#[test]
fn every_number_that_fits_is_the_same_key() {
    assert_eq!(PartitionKey::from(7_i32), PartitionKey::from(7_i64));
    assert_eq!(PartitionKey::from(u32::MAX), PartitionKey::from(4_294_967_295_i64));
    assert_eq!(PartitionKey::try_from(7_u64).unwrap(), PartitionKey::from(7_i64));
    assert_eq!(PartitionKey::try_from(u64::MAX).unwrap_err().kind(), ErrorKind::Invalid);
}

#[test]
fn similar_texts_spread_evenly() {
    const PARTITIONS: usize = 10;
    const KEYS: usize = 10_000;
    let ten = Partitioning::uniform(PARTITIONS as u32);
    let mut counts = [0_usize; PARTITIONS];
    for number in 0..KEYS {
        counts[ten.partition_of(&PartitionKey::from(format!("user{number}"))).unwrap() as usize] += 1;
    }
    // Binomial with a deviation of 30: five of them.
    assert!(counts.iter().all(|count| count.abs_diff(KEYS / PARTITIONS) < 150), "{counts:?}");
}

fn refusal(partitioning: &Partitioning, key: impl Into<PartitionKey>) -> String {
    let error: Error = partitioning.partition_of(&key.into()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    error.to_string()
}

#[test]
fn a_key_of_the_wrong_kind_is_told_what_to_give() {
    let (ten, narrow) = (Partitioning::uniform(10), Partitioning::uniform_between(4, 0, 99));
    let (named, singleton) = (Partitioning::named(["eu", "us"]), Partitioning::singleton());
    assert_eq!(refusal(&ten, ()), "singleton is no key for uniform(10): give an i64, a text or a uuid");
    assert_eq!(
        refusal(&ten, PartitionKey::named("eu")),
        "name \"eu\" is no key for uniform(10): give an i64, a text or a uuid"
    );
    assert_eq!(refusal(&narrow, "alice"), "text \"alice\" is no key for uniform(4, 0..=99): give an i64 from 0 to 99");
    assert_eq!(refusal(&narrow, 100), "key 100 is outside of uniform(4, 0..=99): give a number from 0 to 99");
    assert_eq!(
        refusal(&named, "eu"),
        "text \"eu\" is no key for named(\"eu\", \"us\"): give PartitionKey::named(..) with one of \"eu\", \"us\""
    );
    assert_eq!(
        refusal(&named, PartitionKey::named("asia")),
        "there is no partition of name \"asia\": the names are \"eu\", \"us\""
    );
    assert_eq!(refusal(&singleton, 1), "number 1 is no key for singleton: give () or PartitionKey::singleton()");
    assert_eq!(singleton.partition_of(&().into()).unwrap(), 0);
    assert_eq!(named.partition_of(&PartitionKey::named("us")).unwrap(), 1);
    let long = PartitionKey::from("ä".repeat(PARTITION_KEY_BYTES_MAX));
    let error = ten.partition_of(&long).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    assert!(error.to_string().contains("131072 bytes") && error.to_string().len() < 400, "{error}");
}

#[test]
fn a_partitioning_that_cannot_be_is_refused() {
    let many: Vec<String> = (0..=PARTITIONS_MAX).map(|number| number.to_string()).collect();
    let wrong = [
        (Partitioning::uniform(0), "has no partition"),
        (Partitioning::uniform(PARTITIONS_MAX + 1), "PARTITIONS_MAX"),
        (Partitioning::uniform_between(1, 5, 4), "lower end"),
        (Partitioning::uniform_between(3, 5, 6), "more partitions than keys"),
        (Partitioning::named(Vec::<String>::new()), "has no partition"),
        (Partitioning::named(many), "PARTITIONS_MAX"),
        (Partitioning::named([""]), "1 to 256"),
        (Partitioning::named(["x".repeat(PARTITION_NAME_BYTES_MAX + 1)]), "1 to 256"),
        (Partitioning::named(["a", "b", "a"]), "twice"),
    ];
    for (partitioning, why) in wrong {
        let error = partitioning.check().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains(why), "{error}");
    }
    let fine =
        [Partitioning::uniform(PARTITIONS_MAX), Partitioning::uniform_between(2, 5, 6), Partitioning::singleton()];
    fine.iter().for_each(|partitioning| partitioning.check().unwrap());
}

#[test]
fn a_partitioning_is_stored_by_name() {
    for partitioning in [Partitioning::uniform(7), Partitioning::named(["a"]), Partitioning::singleton()] {
        let bytes = contract::encode(&partitioning).unwrap();
        assert_eq!(contract::decode::<Partitioning>(&bytes).unwrap(), partitioning);
    }
    let singleton = contract::encode(&Partitioning::Singleton).unwrap();
    assert_eq!(singleton, contract::encode("singleton").unwrap());
}

#[test]
fn a_share_says_what_a_partition_holds() {
    let two = Partitioning::uniform(2);
    assert_eq!(two.share(0), Some(Share::Range { low: i64::MIN, high: -1 }));
    assert_eq!(two.share(1), Some(Share::Range { low: 0, high: i64::MAX }));
    assert_eq!(two.share(2), None);
    assert_eq!(Partitioning::named(["eu"]).share(0), Some(Share::Name("eu".into())));
    assert_eq!(Partitioning::singleton().share(0), Some(Share::Whole));
    assert_eq!(Partitioning::singleton().share(1), None);
}

fn ranges() -> impl Strategy<Value = (i64, i64)> {
    prop_oneof![Just((i64::MIN, i64::MAX)), (any::<i64>(), any::<i64>()).prop_map(|(a, b)| (a.min(b), a.max(b)))]
}

proptest! {
    #[test]
    fn shares_cover_the_range_without_gap_and_evenly(
        (low, high) in ranges(), count in 1..200_u32, keys in prop::collection::vec(any::<i64>(), 1..20)
    ) {
        let partitioning = Partitioning::uniform_between(count, low, high);
        prop_assume!(partitioning.check().is_ok());
        let mut next = i128::from(low);
        let mut lengths = Vec::new();
        for partition in 0..count {
            let Some(Share::Range { low, high }) = partitioning.share(partition) else { panic!("a range") };
            prop_assert_eq!(i128::from(low), next);
            prop_assert_eq!(partitioning.partition_of(&low.into()).unwrap(), partition);
            prop_assert_eq!(partitioning.partition_of(&high.into()).unwrap(), partition);
            lengths.push(i128::from(high) - i128::from(low));
            next = i128::from(high) + 1;
        }
        prop_assert_eq!(next, i128::from(high) + 1);
        prop_assert!(lengths.iter().max().unwrap() - lengths.iter().min().unwrap() <= 1);
        for key in keys {
            prop_assert_eq!(partitioning.partition_of(&key.into()).is_ok(), (low..=high).contains(&key));
        }
    }

    #[test]
    fn the_quick_way_over_all_keys_agrees_with_the_general_one(count in 1..PARTITIONS_MAX, text in ".{0,40}") {
        let all = Partitioning::uniform(count);
        let number = PartitionKey::from(hash(text.as_bytes()));
        prop_assert_eq!(all.partition_of(&text.into()).unwrap(), all.partition_of(&number).unwrap());
    }
}
