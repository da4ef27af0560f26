use std::fmt::{self, Write as _};

use mainstay::ActorId;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// How many bytes of a long name can still be read.
const READABLE_BYTES: usize = 200;

/// How many bytes of the hash of a long name are in it. Nobody can find two names that agree in these.
const HASH_BYTES: usize = 16;

/// Who has opened a thing outside: an actor, by its service and its id, such as `visit-queues("home")`.
///
/// A fencing token tells an owner from its predecessors. It says nothing of others, who count by themselves: an owner and a
/// queue, or two applications, that were given the same file by mistake. So what is outside remembers the holder beside
/// the token ([`Claim`](crate::owner::Claim)), and refuses another.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "String")]
pub struct Holder(String);

impl Holder {
    /// The most bytes of the text of a holder.
    pub const BYTES_MAX: usize = 256;

    /// An actor. A name that is too long keeps its beginning, and gets a hash of all of it.
    pub fn actor(service: &str, id: &ActorId) -> Self {
        Self::from(format!("{service}({id})"))
    }

    /// A program that opens something itself, without an actor. Nothing tells one such program from another.
    pub fn program() -> Self {
        Self("a program without an actor".to_owned())
    }

    /// Its text, to be stored: [`Holder::from`] reads it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<String> for Holder {
    fn from(mut text: String) -> Self {
        if text.len() <= Self::BYTES_MAX {
            return Self(text);
        }
        let hash = Sha256::digest(&text);
        let end = (0..=READABLE_BYTES).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
        text.truncate(end);
        text.push('…');
        for byte in &hash[..HASH_BYTES] {
            // Writing to a string does not fail.
            let _ = write!(text, "{byte:02x}");
        }
        Self(text)
    }
}

impl From<&str> for Holder {
    fn from(text: &str) -> Self {
        Self::from(text.to_owned())
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_actors_have_different_names_of_bounded_length() {
        let names = [
            Holder::actor("queues", &ActorId::from(5)),
            Holder::actor("queues", &ActorId::from("5")),
            Holder::actor("files", &ActorId::from("5")),
            Holder::program(),
            Holder::actor("queues", &ActorId::from(format!("{}1", "ä".repeat(500)).as_str())),
            Holder::actor("queues", &ActorId::from(format!("{}2", "ä".repeat(500)).as_str())),
        ];
        assert_eq!(names[1].as_str(), "queues(\"5\")");
        for (place, name) in names.iter().enumerate() {
            assert!(name.as_str().len() <= Holder::BYTES_MAX && !names[..place].contains(name), "{name}");
            assert_eq!(Holder::from(name.as_str()), *name, "read as it is stored");
        }
    }
}
