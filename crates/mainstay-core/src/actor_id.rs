use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::partitioning::{PartitionKey, hash};
use crate::{Error, ErrorKind, Result};

/// The longest text that can name an actor. It is part of the key of everything that the actor stores.
pub const ACTOR_ID_BYTES_MAX: usize = 1024;

/// What tells one actor from the others of its type. Cheap to clone.
///
/// The three kinds are apart: `7` and `"7"` are two actors.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ActorId {
    /// A number, which also is its place among the partitions: a caller can choose where an actor is.
    Number(i64),
    /// A uuid, placed by its hash.
    Uuid(Uuid),
    /// A text of up to [`ACTOR_ID_BYTES_MAX`] bytes, placed by its hash.
    Text(#[serde(with = "text")] Arc<str>),
}

impl ActorId {
    /// A number that nobody else will draw.
    pub fn random() -> Self {
        Self::Number(rand::Rng::next_u64(&mut crate::random::rng()).cast_signed())
    }

    /// Refuses what cannot name an actor.
    ///
    /// # Errors
    /// `TooLarge` for a text above [`ACTOR_ID_BYTES_MAX`].
    pub fn check(&self) -> Result<()> {
        match self {
            Self::Text(text) if text.len() > ACTOR_ID_BYTES_MAX => Err(Error::new(
                ErrorKind::TooLarge,
                format!(
                    "actor id of {} bytes exceeds ACTOR_ID_BYTES_MAX of {ACTOR_ID_BYTES_MAX}: use a hash of it",
                    text.len()
                ),
            )),
            _ => Ok(()),
        }
    }

    /// What places it among the partitions of its service.
    pub fn partition_key(&self) -> PartitionKey {
        PartitionKey::Number(self.place())
    }

    /// Its place among the keys that partitions share.
    pub fn place(&self) -> i64 {
        match self {
            Self::Number(number) => *number,
            Self::Uuid(uuid) => hash(uuid.as_bytes()),
            Self::Text(text) => hash(text.as_bytes()),
        }
    }

    /// The number, if it is one.
    pub fn as_number(&self) -> Option<i64> {
        match self {
            Self::Number(number) => Some(*number),
            _ => None,
        }
    }

    /// The uuid, if it is one.
    pub fn as_uuid(&self) -> Option<Uuid> {
        match self {
            Self::Uuid(uuid) => Some(*uuid),
            _ => None,
        }
    }

    /// The text, if it is one.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }
}

impl fmt::Display for ActorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Uuid(uuid) => write!(f, "{uuid}"),
            Self::Text(text) => write!(f, "{text:?}"),
        }
    }
}

impl From<i64> for ActorId {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

impl From<i32> for ActorId {
    fn from(number: i32) -> Self {
        Self::Number(number.into())
    }
}

impl From<u32> for ActorId {
    fn from(number: u32) -> Self {
        Self::Number(number.into())
    }
}

/// The upper half of all `u64` is no number of an actor, which is an `i64` and its place among the partitions.
impl TryFrom<u64> for ActorId {
    type Error = Error;

    fn try_from(number: u64) -> Result<Self> {
        number.try_into().map(Self::Number).map_err(|_| {
            Error::invalid(format!(
                "actor id {number} is above i64::MAX: use `number.cast_signed()` if every number may be one, or a text"
            ))
        })
    }
}

impl From<Uuid> for ActorId {
    fn from(uuid: Uuid) -> Self {
        Self::Uuid(uuid)
    }
}

impl From<&str> for ActorId {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl From<&String> for ActorId {
    fn from(text: &String) -> Self {
        Self::Text(text.as_str().into())
    }
}

impl From<String> for ActorId {
    fn from(text: String) -> Self {
        Self::Text(text.into())
    }
}

impl From<&ActorId> for ActorId {
    fn from(id: &ActorId) -> Self {
        id.clone()
    }
}

/// A shared text as any other text.
mod text {
    use std::sync::Arc;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(text: &Arc<str>, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(text)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<str>, D::Error> {
        String::deserialize(deserializer).map(Arc::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{contract, key};

    #[test]
    fn kinds_are_apart() {
        assert_ne!(ActorId::from(7), ActorId::from("7"));
        assert_ne!(key::encode(&ActorId::from(7)).unwrap(), key::encode(&ActorId::from("7")).unwrap());
    }

    #[test]
    fn an_id_survives_being_stored_and_sent() {
        for id in
            [ActorId::from(i64::MIN), ActorId::from(Uuid::from_u128(7)), ActorId::from("a_b\0c"), ActorId::from("")]
        {
            assert_eq!(key::decode::<ActorId>(&key::encode(&id).unwrap()).unwrap(), id);
            let mut sent = Vec::new();
            contract::encode_into(&mut sent, &id).unwrap();
            assert_eq!(contract::decode::<ActorId>(&sent).unwrap(), id);
        }
    }

    #[test]
    fn the_longest_text_is_accepted_and_one_more_byte_is_not() {
        ActorId::from("x".repeat(ACTOR_ID_BYTES_MAX)).check().unwrap();
        let error = ActorId::from("x".repeat(ACTOR_ID_BYTES_MAX + 1)).check().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TooLarge);
        assert!(error.to_string().contains("ACTOR_ID_BYTES_MAX"));
    }

    #[test]
    fn every_number_that_fits_is_the_same_id() {
        assert_eq!(ActorId::from(7_i32), ActorId::from(7_i64));
        assert_eq!(ActorId::from(u32::MAX), ActorId::from(4_294_967_295_i64));
        assert_eq!(ActorId::from(i32::MIN), ActorId::from(-2_147_483_648_i64));
        assert_eq!(ActorId::try_from(i64::MAX.cast_unsigned()).unwrap(), ActorId::from(i64::MAX));
        let error = ActorId::try_from(1_u64 << 63).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains("9223372036854775808") && error.to_string().contains("cast_signed"));
    }

    #[test]
    fn a_number_is_its_own_place() {
        assert_eq!(ActorId::from(-5).partition_key(), PartitionKey::Number(-5));
        assert_eq!(ActorId::from("alice").partition_key(), PartitionKey::Number(hash(b"alice")));
    }
}
