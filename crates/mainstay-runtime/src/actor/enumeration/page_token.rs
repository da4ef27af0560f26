use std::fmt::{self, Write as _};
use std::str::FromStr;

use mainstay_core::format::Format;
use mainstay_core::{Error, Result, contract};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What a continuation consists of.
const PAGE_TOKEN: Format = Format::new("page token", 1..=1);

/// The longest text that is a continuation: it names an actor and a reminder, in hexadecimal digits.
const TEXT_BYTES_MAX: usize = 16 << 10;

/// Where a listing goes on: a text that can be stored and sent, and that says nothing to its holder.
///
/// It stays good over restarts and moves of partitions, and when what it was made from is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageToken {
    /// A version byte, the kind of the listing, and the rest as a data contract.
    bytes: Vec<u8>,
}

#[derive(Serialize, Deserialize)]
struct Position<M> {
    service: String,
    partition: usize,
    after: M,
}

impl PageToken {
    pub(super) fn new<M: Serialize>(listing: u8, service: &str, partition: usize, after: M) -> Result<Self> {
        let mut bytes = vec![PAGE_TOKEN.written(), listing];
        contract::encode_into(&mut bytes, &Position { service: service.to_owned(), partition, after })?;
        Ok(Self { bytes })
    }

    /// The partition that it is in, and after what in it.
    pub(super) fn read<M: DeserializeOwned>(&self, listing: u8, service: &str) -> Result<(usize, M)> {
        let other = || Error::invalid(format!("this continuation is of another listing than this of {service}"));
        let [version, kind, position @ ..] = &*self.bytes else { return Err(unreadable()) };
        PAGE_TOKEN.check_of(*version, "this page token")?;
        if *kind != listing {
            return Err(other());
        }
        let position: Position<M> = contract::decode(position).map_err(|error| unreadable().with_source(error))?;
        if position.service != service {
            return Err(other());
        }
        Ok((position.partition, position.after))
    }
}

fn unreadable() -> Error {
    Error::invalid("this is no continuation of a listing: give one as it was received, or begin again")
}

impl fmt::Display for PageToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for PageToken {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if text.len() > TEXT_BYTES_MAX || !text.len().is_multiple_of(2) {
            return Err(unreadable());
        }
        let digit = |digit: u8| (digit as char).to_digit(16).map(|digit| digit as u8);
        let byte = |pair: &[u8]| Some(digit(pair[0])? << 4 | digit(pair[1])?);
        let bytes: Option<Vec<u8>> = text.as_bytes().chunks_exact(2).map(byte).collect();
        Ok(Self { bytes: bytes.ok_or_else(unreadable)? })
    }
}

impl Serialize for PageToken {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut text = String::with_capacity(self.bytes.len() * 2);
        // Writing to a string does not fail.
        let _ = write!(text, "{self}");
        serializer.serialize_str(&text)
    }
}

impl<'de> Deserialize<'de> for PageToken {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use mainstay_core::format::golden::Golden;
    use mainstay_core::{ActorId, ErrorKind};

    use super::*;

    fn sample() -> PageToken {
        PageToken::new(1, "Counter", 7, ActorId::from("alice")).unwrap()
    }

    #[test]
    fn it_survives_as_text_and_as_contract() {
        let text = sample().to_string();
        assert_eq!(text.parse::<PageToken>().unwrap(), sample());
        let bytes = contract::encode(&sample()).unwrap();
        assert_eq!(contract::decode::<PageToken>(&bytes).unwrap(), sample());
        assert_eq!(sample().read::<ActorId>(1, "Counter").unwrap(), (7, ActorId::from("alice")));
    }

    #[test]
    fn golden_token_is_what_is_written() {
        let golden = Golden::of(env!("CARGO_MANIFEST_DIR"));
        golden.check("page-token", &PAGE_TOKEN, sample().to_string().as_bytes());
    }

    #[test]
    fn one_of_something_else_is_refused() {
        let kind = |result: Result<(usize, ActorId)>| result.unwrap_err().kind();
        assert_eq!(kind(sample().read(2, "Counter")), ErrorKind::Invalid);
        assert_eq!(kind(sample().read(1, "Other")), ErrorKind::Invalid);
        let newer: PageToken = sample().to_string().replacen("01", "02", 1).parse().unwrap();
        assert_eq!(kind(newer.read(1, "Counter")), ErrorKind::UnknownVersion);
        for text in ["", "0", "zz", "01", "0101", "010183a7"] {
            let result = text.parse::<PageToken>().and_then(|given| given.read::<ActorId>(1, "Counter"));
            assert_eq!(kind(result), ErrorKind::Invalid, "{text:?}");
        }
        assert!("01".repeat(TEXT_BYTES_MAX).parse::<PageToken>().is_err());
    }
}
