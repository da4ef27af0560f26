use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::ErrorKind;
use crate::contract::{decode, encode};

#[derive(Debug, Deserialize)]
#[allow(dead_code, reason = "only the failure to read it matters")]
struct Cart {
    orders: Vec<Order>,
    #[serde(default)]
    by_shop: BTreeMap<String, Order>,
    #[serde(default)]
    by_number: BTreeMap<i32, Order>,
    #[serde(default)]
    state: Option<State>,
}

#[derive(Debug, Deserialize)]
#[allow(dead_code, reason = "only the failure to read it matters")]
struct Order {
    price: u32,
}

#[derive(Debug, Deserialize)]
#[allow(dead_code, reason = "only the failure to read it matters")]
enum State {
    Open,
    Sent { on: u8 },
    Lost(Order),
}

#[derive(Serialize)]
struct Any<P> {
    price: P,
}

#[track_caller]
fn assert_fails<T: DeserializeOwned + std::fmt::Debug>(value: &impl Serialize, kind: ErrorKind, start: &str) {
    let error = decode::<T>(&encode(value).unwrap()).unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.to_string().starts_with(start), "{error}\ndoes not start with\n{start}");
    assert!(error.to_string().contains(std::any::type_name::<T>()), "{error}");
}

fn map<V>(key: &str, value: V) -> BTreeMap<String, V> {
    BTreeMap::from([(key.to_owned(), value)])
}

#[test]
fn a_mismatch_names_path_expected_and_found() {
    #[derive(Serialize)]
    #[serde(untagged)]
    enum Price {
        Right(u32),
        Wrong(&'static str),
    }
    let mut orders: Vec<_> = (0..3).map(|price| Any { price: Price::Right(price) }).collect();
    orders.push(Any { price: Price::Wrong("abc") });
    assert_fails::<Cart>(
        &map("orders", orders),
        ErrorKind::Invalid,
        "field `orders[3].price`: expected u32, found string \"abc\" (decoding ",
    );
}

#[test]
fn a_number_out_of_range_is_named() {
    let value = map("orders", vec![Any { price: 1u64 << 40 }]);
    assert_fails::<Cart>(
        &value,
        ErrorKind::Invalid,
        "field `orders[0].price`: expected u32, found integer `1099511627776`",
    );
    assert_fails::<u8>(&-1, ErrorKind::Invalid, "the value: expected u8, found integer `-1`");
}

#[test]
fn a_missing_field_is_named_with_its_parent_and_the_remedy() {
    let value = map("orders", vec![map("cost", 5)]);
    assert_fails::<Cart>(
        &value,
        ErrorKind::Invalid,
        "field `orders[0]`: missing field `price`: if older data lacks it, give it #[serde(default)]",
    );
    assert_fails::<Order>(&map("cost", 5), ErrorKind::Invalid, "the value: missing field `price`");
}

#[test]
fn what_was_written_is_named_by_its_fields() {
    let said = |bytes: Vec<u8>| decode::<Cart>(&bytes).unwrap_err().to_string();
    let of_cart = format!("(decoding {}; it was written with the fields", std::any::type_name::<Cart>());
    for (value, fields) in [
        (encode(&map("orders", vec![BTreeMap::from([("cost", 5), ("tax", 1)])])), " `cost`, `tax`)"),
        (encode(&map("orders", vec![Any { price: "5" }])), " `price`)"),
        (encode(&BTreeMap::from([("lines", 1), ("not plain", 2)])), " `lines`, `[\"not plain\"]`)"),
        (encode(&(0..20).map(|number| (format!("f{number:02}"), 1)).collect::<BTreeMap<_, _>>()), "`f15` and 4 more)"),
    ] {
        let said = said(value.unwrap());
        assert!(said.contains(&of_cart) && said.ends_with(fields), "{said}");
    }
    let said = said(encode(&7).unwrap());
    assert!(!said.contains("written"), "{said}");
}

#[test]
fn keys_of_maps_are_part_of_the_path() {
    #[derive(Serialize)]
    struct Maps {
        orders: [u8; 0],
        by_shop: BTreeMap<&'static str, Any<bool>>,
        by_number: BTreeMap<i64, Any<f64>>,
    }
    let by_shop = BTreeMap::from([("at the corner", Any { price: true })]);
    let maps = Maps { orders: [], by_shop, by_number: BTreeMap::new() };
    assert_fails::<Cart>(
        &maps,
        ErrorKind::Invalid,
        "field `by_shop[\"at the corner\"].price`: expected u32, found boolean `true`",
    );
    let maps = Maps { by_shop: BTreeMap::new(), by_number: BTreeMap::from([(-7, Any { price: 0.5 })]), ..maps };
    assert_fails::<Cart>(
        &maps,
        ErrorKind::Invalid,
        "field `by_number[-7].price`: expected u32, found floating point `0.5`",
    );
    let maps = Maps { by_number: BTreeMap::from([(1 << 40, Any { price: 0.5 })]), ..maps };
    assert_fails::<Cart>(
        &maps,
        ErrorKind::Invalid,
        "key of `by_number[1099511627776]`: expected i32, found integer `1099511627776`",
    );
}

#[test]
fn an_unknown_variant_is_named_with_the_known_ones() {
    #[derive(Serialize)]
    struct Stated<S> {
        orders: [u8; 0],
        state: S,
    }
    let fails = |state: &dyn Fn() -> Vec<u8>, start: &str| {
        let error = decode::<Cart>(&state()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().starts_with(start), "{error}");
    };
    fails(
        &|| encode(&Stated { orders: [], state: "Gone" }).unwrap(),
        "field `state`: expected one of `Open`, `Sent`, `Lost`, found unknown variant `Gone`",
    );
    fails(
        &|| encode(&Stated { orders: [], state: map("Gone", 1) }).unwrap(),
        "field `state`: expected one of `Open`, `Sent`, `Lost`, found unknown variant `Gone`",
    );
    fails(
        &|| encode(&Stated { orders: [], state: map("Sent", map("on", "today")) }).unwrap(),
        "field `state.Sent.on`: expected u8, found string \"today\"",
    );
    fails(
        &|| encode(&Stated { orders: [], state: map("Lost", 5) }).unwrap(),
        "field `state.Lost`: expected struct Order, found integer `5`",
    );
    fails(
        &|| encode(&Stated { orders: [], state: "Lost" }).unwrap(),
        "field `state`: expected newtype variant, found unit variant",
    );
    fails(
        &|| encode(&Stated { orders: [], state: true }).unwrap(),
        "field `state`: expected enum State (a variant's name, or a map from it to its content), found boolean `true`",
    );
}

#[test]
fn a_type_that_denies_unknown_fields_names_the_field() {
    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code, reason = "only the failure to read it matters")]
    struct Strict {
        price: u32,
    }
    #[derive(Serialize)]
    struct Wide {
        price: u32,
        colour: u8,
    }
    assert_fails::<Vec<Strict>>(
        &[Wide { price: 1, colour: 2 }],
        ErrorKind::Invalid,
        "key of `[0].colour`: expected field `price`, found unknown field `colour`",
    );
}

#[test]
fn a_wrong_number_of_elements_is_named() {
    assert_fails::<(u8, u8)>(&[1, 2, 3], ErrorKind::Invalid, "the value: expected 2 elements, found an array of 3");
    assert_fails::<(u8, u8)>(&[1], ErrorKind::Invalid, "the value: expected a tuple of size 2, found 1 elements");
    assert_fails::<[u8; 2]>(
        &bytes::Bytes::from_static(b"abc"),
        ErrorKind::Invalid,
        "the value: expected 2 elements in sequence, found 3 elements",
    );
    assert_fails::<u128>(
        &bytes::Bytes::from_static(b"abc"),
        ErrorKind::Invalid,
        "the value: expected an integer of 128 bits in 16 or 17 bytes, found 3 bytes",
    );
}

#[test]
fn long_values_are_cut_in_messages() {
    let error = decode::<u32>(&encode(&"x".repeat(1 << 20)).unwrap()).unwrap_err().to_string();
    assert!(error.len() < 400, "{} bytes", error.len());
    assert!(error.contains("xxx…"), "{error}");
    let error =
        decode::<BTreeMap<String, u8>>(&encode(&map(&"k".repeat(1 << 20), "v")).unwrap()).unwrap_err().to_string();
    assert!(error.len() < 600, "{} bytes", error.len());
}

#[test]
fn damage_is_told_from_a_value_that_does_not_fit() {
    let fails = |bytes: &[u8], kind: ErrorKind, part: &str| {
        let error = decode::<Vec<u32>>(bytes).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(part), "{error}");
    };
    fails(&[], ErrorKind::Corrupt, "the bytes end inside a value (at byte 0)");
    fails(&[0x92, 0x01], ErrorKind::Corrupt, "an array claims more elements than there are bytes");
    fails(&[0x91, 0xce, 0x01], ErrorKind::Corrupt, "the bytes end inside a value");
    fails(&[0x91, 0xc1], ErrorKind::Corrupt, "the byte 0xc1 has no meaning (at byte 1)");
    fails(&[0x92, 0xa1, 0xff, 0x00], ErrorKind::Corrupt, "a string is not UTF-8");
    // The first element does not fit, but what follows is no MessagePack either.
    fails(&[0x92, 0xc3, 0xc1], ErrorKind::Corrupt, "the byte 0xc1 has no meaning (at byte 2)");
    fails(&[0x92, 0xc3, 0x01, 0x01], ErrorKind::Corrupt, "more bytes follow the value (at byte 3)");
    fails(&[0x92, 0xc3, 0x01], ErrorKind::Invalid, "field `[0]`: expected u32, found boolean `true`");
    fails(&[0x91, 0xd4, 0x05, 0x00], ErrorKind::Invalid, "field `[0]`: expected u32, found extension 5 of 1 bytes");
}
