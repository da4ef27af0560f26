//! Types with a form for people and one for machines: they are written in the one that serde's buffer reads back.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::contract::{decode, encode};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Login {
    ip: IpAddr,
    from: SocketAddr,
    id: Uuid,
}

fn login() -> Login {
    Login {
        ip: IpAddr::V6(Ipv6Addr::LOCALHOST),
        from: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 80),
        id: Uuid::from_u128(7),
    }
}

#[track_caller]
fn comes_back<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(value: &T) {
    assert_eq!(decode::<T>(&encode(value).unwrap()).unwrap(), *value);
}

#[test]
fn addresses_and_ids_come_back_wherever_they_stand() {
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    #[serde(tag = "kind")]
    enum Internal {
        Login(Login),
    }
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    #[serde(tag = "t", content = "c")]
    enum Adjacent {
        Login(Login),
    }
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    #[serde(untagged)]
    enum Untagged {
        Number(u8),
        Login(Login),
    }
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Flat {
        n: u8,
        #[serde(flatten)]
        login: Login,
    }
    comes_back(&login());
    comes_back(&Internal::Login(login()));
    comes_back(&Adjacent::Login(login()));
    comes_back(&Untagged::Login(login()));
    comes_back(&Flat { n: 1, login: login() });
    comes_back(&std::collections::BTreeMap::from([(login().ip, login().id)]));
}

#[test]
fn they_are_texts() {
    assert_eq!(decode::<String>(&encode(&login().from).unwrap()).unwrap(), "127.0.0.1:80");
    assert_eq!(decode::<String>(&encode(&login().id).unwrap()).unwrap(), "00000000-0000-0000-0000-000000000007");
}

#[test]
fn ids_that_were_written_as_bytes_are_read() {
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    #[serde(untagged)]
    enum Buffered {
        Id(Uuid),
    }
    let id = Uuid::from_u128(u128::MAX / 3);
    let bytes = encode(&bytes::Bytes::copy_from_slice(id.as_bytes())).unwrap();
    assert_eq!(decode::<Uuid>(&bytes).unwrap(), id);
    assert_eq!(decode::<Buffered>(&bytes).unwrap(), Buffered::Id(id));
}
