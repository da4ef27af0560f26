use std::any::Any;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

/// A value that its writer keeps as more than bytes, so that reading it back costs no decoding.
///
/// A store in memory that is given one keeps it in the place of a copy of its bytes; what is read as bytes, enumerated or
/// exported is the same in both cases.
///
/// To be correct: [`bytes`](Object::bytes) never changes.
pub trait Object: Any + Send + Sync {
    /// The value as it is stored.
    fn bytes(&self) -> &[u8];
}

/// What a store in memory holds for a key.
#[derive(Clone)]
pub enum Held {
    /// Bytes.
    Bytes(Bytes),
    /// What the writer gave.
    Object(Arc<dyn Object>),
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, bytes) = match self {
            Held::Bytes(bytes) => ("Bytes", &bytes[..]),
            Held::Object(object) => ("Object", object.bytes()),
        };
        write!(f, "{kind}(\"{}\")", bytes.escape_ascii())
    }
}
