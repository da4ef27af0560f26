use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use mainstay_core::Result;
use mainstay_core::contract::Encodable;

use super::object::{Held, Object};

/// How long a value may be to stand in the map itself: with its length and what kind it is, 24 bytes.
const SHORT_BYTES_MAX: usize = 22;

/// How long a value may be to be copied for a reader. A longer one is shared, which costs an allocation too, and counts
/// references where all readers meet.
const COPIED_BYTES_MAX: usize = 512;

/// What an object counts for beside its bytes, which count twice: a value takes more room than what it is encoded to.
const OBJECT_OVERHEAD_BYTES: u64 = 192;

/// A value in a map in memory.
#[derive(Clone)]
pub(crate) enum Value {
    Short {
        len: u8,
        bytes: [u8; SHORT_BYTES_MAX],
    },
    Long(Arc<[u8]>),
    /// The parts of an [`Object`], which by itself would leave no room for what says that it is one.
    Object {
        head: u8,
        len: u32,
        value: Arc<dyn Encodable>,
    },
}

impl From<&[u8]> for Value {
    fn from(value: &[u8]) -> Self {
        if value.len() > SHORT_BYTES_MAX {
            return Value::Long(Arc::from(value));
        }
        let mut bytes = [0; SHORT_BYTES_MAX];
        bytes[..value.len()].copy_from_slice(value);
        // At most SHORT_BYTES_MAX.
        Value::Short { len: value.len() as u8, bytes }
    }
}

impl Default for Value {
    fn default() -> Self {
        Value::Short { len: 0, bytes: [0; SHORT_BYTES_MAX] }
    }
}

impl From<Object> for Value {
    #[inline]
    fn from(Object { value, head, len }: Object) -> Self {
        Value::Object { head, len, value }
    }
}

impl Value {
    /// How many bytes it is as it is stored.
    #[inline]
    pub(crate) fn len(&self) -> u64 {
        match self {
            Value::Short { len, .. } => u64::from(*len),
            Value::Long(bytes) => bytes.len() as u64,
            Value::Object { len, .. } => u64::from(*len),
        }
    }

    #[inline]
    pub(crate) fn to_held(&self) -> Held {
        Held::Bytes(match self {
            Value::Short { len, bytes } => Bytes::copy_from_slice(&bytes[..usize::from(*len)]),
            Value::Long(bytes) if bytes.len() > COPIED_BYTES_MAX => Bytes::from_owner(bytes.clone()),
            Value::Long(bytes) => Bytes::copy_from_slice(bytes),
            Value::Object { head, len, value } => {
                return Held::Object(Object { value: value.clone(), head: *head, len: *len });
            }
        })
    }

    pub(crate) fn to_bytes(&self) -> Result<Bytes> {
        self.to_held().into_bytes()
    }

    /// What it counts for among the objects that are held.
    #[inline]
    pub(crate) fn object_bytes(&self) -> u64 {
        match self {
            Value::Object { len, .. } => OBJECT_OVERHEAD_BYTES + 2 * u64::from(*len),
            Value::Short { .. } | Value::Long(_) => 0,
        }
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_held().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_its_bytes_however_it_is_kept() {
        for len in [0, 1, SHORT_BYTES_MAX, SHORT_BYTES_MAX + 1, COPIED_BYTES_MAX, COPIED_BYTES_MAX + 1] {
            let text = "x".repeat(len);
            let mut encoded = vec![7];
            text.encode_at_end(&mut encoded).unwrap();
            let object = Object { value: Arc::new(text), head: 7, len: encoded.len() as u32 };
            for value in [Value::from(&encoded[..]), Value::from(object)] {
                assert_eq!((value.len(), &value.to_bytes().unwrap()[..]), (encoded.len() as u64, &encoded[..]));
                let is_object = matches!(value, Value::Object { .. });
                assert_eq!(is_object, matches!(value.clone().to_held(), Held::Object(_)));
                assert_eq!(is_object, value.object_bytes() > 0);
            }
        }
        assert_eq!(size_of::<Value>(), 24);
    }
}
