use mainstay_core::ErrorKind;
use proptest::prelude::*;

use super::*;

fn ids() -> impl Strategy<Value = ActorId> {
    prop_oneof![
        any::<i64>().prop_map(ActorId::Number),
        (-3..3_i64).prop_map(ActorId::Number),
        any::<u128>().prop_map(|uuid| ActorId::Uuid(Uuid::from_u128(uuid))),
        any::<String>().prop_map(ActorId::from),
        "[\\x00\\x01\\x02a]{0,4}".prop_map(ActorId::from),
    ]
}

const KINDS: [Kind; 4] = [Kind::State, Kind::Reminder, Kind::Answer, Kind::Event];

proptest! {
    #[test]
    fn keys_are_in_the_order_of_ids_and_no_id_is_the_beginning_of_another(left in ids(), right in ids()) {
        let (a, b) = (EncodedId::new(&left), EncodedId::new(&right));
        prop_assert_eq!(a.0.cmp(&b.0), left.cmp(&right));
        prop_assert_eq!(a.0.starts_with(&b.0), left == right);
    }

    #[test]
    fn what_a_key_stands_for_is_found_in_it(id in ids(), name in any::<String>(), millis in any::<u64>()) {
        let encoded = EncodedId::new(&id);
        prop_assert_eq!(parse_known(&encoded.known()).unwrap(), id.clone());
        for kind in KINDS {
            let key = encoded.entry(kind, name.as_bytes());
            prop_assert_eq!(parse_entry(kind, &key).unwrap(), (id.clone(), name.as_str()));
            prop_assert_eq!(parse_name(kind, &id, &encoded.entries(kind), &key).unwrap(), name.as_str());
            let at = WallTime::from_millis(millis);
            if let Some(place) = encoded.place(kind, at, name.as_bytes()) {
                let found = parse_place(kind, &place).unwrap();
                prop_assert_eq!((found.at, &found.id, found.name, &found.entry), (at, &id, name.as_str(), &key));
                prop_assert!(places(kind, at, None).unwrap().contains(&place));
                if let Some(earlier) = millis.checked_sub(1) {
                    prop_assert!(!places(kind, WallTime::from_millis(earlier), None).unwrap().contains(&place));
                }
                prop_assert!(!places(kind, at, Some(&place)).unwrap().contains(&place));
            }
        }
    }

    #[test]
    fn any_bytes_are_a_key_or_damaged(bytes in prop::collection::vec(any::<u8>(), 0..40), id in ids(), at in any::<prop::sample::Index>()) {
        let mut keys = vec![bytes];
        for key in [EncodedId::new(&id).known().to_vec(), EncodedId::new(&id).entry(Kind::State, b"name").to_vec()] {
            keys.push(key[..at.index(key.len())].to_vec());
        }
        for key in keys {
            for error in KINDS.map(|kind| parse_entry(kind, &key).err()).into_iter().flatten() {
                prop_assert_eq!(error.kind(), ErrorKind::Corrupt);
            }
            for error in KINDS.map(|kind| parse_place(kind, &key).err()).into_iter().flatten() {
                prop_assert_eq!(error.kind(), ErrorKind::Corrupt);
            }
            if let Ok(id) = parse_known(&key) {
                prop_assert_eq!(&EncodedId::new(&id).known()[..], &key[..], "one id has one form");
            }
        }
    }
}

#[test]
fn the_longest_key_is_one_that_stores_take() {
    let id = ActorId::from("\0".repeat(ACTOR_ID_BYTES_MAX));
    id.check().unwrap();
    let encoded = EncodedId::new(&id);
    assert_eq!(encoded.0.len(), ENCODED_ID_BYTES_MAX);
    let limits = [STATE_NAME_BYTES_MAX, REMINDER_NAME_BYTES_MAX, IDEMPOTENCY_KEY_BYTES_MAX, EVENT_NAME_BYTES_MAX];
    for (kind, bytes_max) in KINDS.into_iter().zip(limits) {
        let name = "x".repeat(bytes_max);
        kind.check(&name).unwrap();
        let key = encoded.place(kind, WallTime::MAX, name.as_bytes());
        assert!(key.unwrap_or_else(|| encoded.entry(kind, name.as_bytes())).len() <= STORED_KEY_BYTES_MAX);
    }
    const { assert!(STORED_KEY_BYTES_MAX <= KEY_BYTES_MAX) };
}

#[test]
fn keys_are_as_they_were_written_down() {
    let number = EncodedId::new(&ActorId::from(7));
    assert_eq!(&number.known()[..], b"\x41\x01\x80\0\0\0\0\0\0\x07");
    assert_eq!(&number.entry(Kind::State, b"n")[..], b"\x42\x01\x80\0\0\0\0\0\0\x07n");
    let uuid = EncodedId::new(&ActorId::from(Uuid::from_u128(0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10)));
    assert_eq!(
        &uuid.entry(Kind::Reminder, b"n")[..],
        b"\x43\x02\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10n"
    );
    let text = EncodedId::new(&ActorId::from("a\0b\x01"));
    assert_eq!(&text.entry(Kind::Answer, b"n")[..], b"\x44\x03a\x01\x01b\x01\x02\0n");
    let at = WallTime::from_millis(0x0102);
    assert_eq!(
        &text.place(Kind::Reminder, at, b"n").unwrap()[..],
        b"\x45\0\0\0\0\0\0\x01\x02\x03a\x01\x01b\x01\x02\0n"
    );
    assert_eq!(&text.place(Kind::Answer, at, b"n").unwrap()[..], b"\x46\0\0\0\0\0\0\x01\x02\x03a\x01\x01b\x01\x02\0n");
    assert!(text.place(Kind::State, at, b"n").is_none());
    assert_eq!(&number.entry(Kind::Event, b"n")[..], b"\x47\x01\x80\0\0\0\0\0\0\x07n");
    assert!(text.place(Kind::Event, at, b"n").is_none());
}
