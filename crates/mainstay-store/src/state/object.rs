use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use mainstay_core::Result;
use mainstay_core::contract::Encodable;

/// A value that its writer keeps as it is in memory, and not as bytes: reading it back costs no decoding, and its bytes take
/// no room.
///
/// What is stored is one byte of the writer's choice, and behind it the encoded value. It is encoded when somebody reads it
/// as bytes, enumerates or exports it, so what it encodes to must not change.
#[derive(Clone)]
pub struct Object {
    /// The value.
    pub value: Arc<dyn Encodable>,
    /// What stands before the encoded value.
    pub head: u8,
    /// How many bytes it is as it is stored.
    pub len: u32,
}

impl Object {
    /// The value as it is stored.
    ///
    /// # Errors
    /// What encoding it fails with, although it could be encoded when it was written.
    pub fn to_bytes(&self) -> Result<Bytes> {
        let mut bytes = Vec::with_capacity(self.len as usize);
        bytes.push(self.head);
        self.value.encode_at_end(&mut bytes)?;
        Ok(bytes.into())
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Object({} bytes)", self.len)
    }
}

/// What a store in memory holds for a key.
#[derive(Clone)]
pub enum Held {
    /// Bytes.
    Bytes(Bytes),
    /// What the writer gave.
    Object(Object),
}

impl Held {
    /// The value as it is stored.
    ///
    /// # Errors
    /// As [`Object::to_bytes`].
    pub fn into_bytes(self) -> Result<Bytes> {
        match self {
            Held::Bytes(bytes) => Ok(bytes),
            Held::Object(object) => object.to_bytes(),
        }
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Held::Bytes(bytes) => write!(f, "Bytes(\"{}\")", bytes.escape_ascii()),
            Held::Object(object) => object.fmt(f),
        }
    }
}
