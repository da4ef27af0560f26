use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use super::object::{Held, Object};

/// How long a value may be to stand in the map itself: with its length and what kind it is, 24 bytes.
const SHORT_BYTES_MAX: usize = 22;

/// How long a value may be to be copied for a reader. A longer one is shared, which costs an allocation too, and counts
/// references where all readers meet.
const COPIED_BYTES_MAX: usize = 512;

/// What an object counts for beside its bytes, which it has twice: encoded and not.
const OBJECT_OVERHEAD_BYTES: u64 = 192;

/// A value in a map in memory.
#[derive(Clone)]
pub(crate) enum Value {
    Short { len: u8, bytes: [u8; SHORT_BYTES_MAX] },
    Long(Arc<[u8]>),
    Object(Arc<dyn Object>),
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

impl Value {
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Value::Short { len, bytes } => &bytes[..usize::from(*len)],
            Value::Long(bytes) => bytes,
            Value::Object(object) => object.bytes(),
        }
    }

    pub(crate) fn to_bytes(&self) -> Bytes {
        match self {
            Value::Long(bytes) if bytes.len() > COPIED_BYTES_MAX => Bytes::from_owner(bytes.clone()),
            Value::Object(object) if object.bytes().len() > COPIED_BYTES_MAX => {
                Bytes::from_owner(ObjectBytes(object.clone()))
            }
            _ => Bytes::copy_from_slice(self.bytes()),
        }
    }

    pub(crate) fn to_held(&self) -> Held {
        match self {
            Value::Object(object) => Held::Object(object.clone()),
            _ => Held::Bytes(self.to_bytes()),
        }
    }

    /// What it counts for among the objects that are held.
    pub(crate) fn object_bytes(&self) -> u64 {
        match self {
            Value::Object(object) => OBJECT_OVERHEAD_BYTES + 2 * object.bytes().len() as u64,
            Value::Short { .. } | Value::Long(_) => 0,
        }
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.bytes().escape_ascii())
    }
}

/// The bytes of an object, which they keep alive.
struct ObjectBytes(Arc<dyn Object>);

impl AsRef<[u8]> for ObjectBytes {
    fn as_ref(&self) -> &[u8] {
        self.0.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Text(Vec<u8>);

    impl Object for Text {
        fn bytes(&self) -> &[u8] {
            &self.0
        }
    }

    #[test]
    fn a_value_is_its_bytes_however_it_is_kept() {
        for len in [0, 1, SHORT_BYTES_MAX, SHORT_BYTES_MAX + 1, COPIED_BYTES_MAX, COPIED_BYTES_MAX + 1] {
            let bytes: Vec<u8> = (0..len).map(|n| n as u8).collect();
            for value in [Value::from(&bytes[..]), Value::Object(Arc::new(Text(bytes.clone())))] {
                assert_eq!((value.bytes(), value.clone().to_bytes().as_ref()), (&bytes[..], &bytes[..]));
                assert_eq!(matches!(value, Value::Object(_)), matches!(value.to_held(), Held::Object(_)));
                assert_eq!(matches!(value, Value::Object(_)), value.object_bytes() > 0);
            }
        }
        assert_eq!(size_of::<Value>(), 24);
    }
}
