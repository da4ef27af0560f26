use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// How long a key may be to stand in the map itself.
const SHORT_BYTES_MAX: usize = 38;

/// A key in a map in memory.
///
/// A short key stands in the node of the map, so that looking for it follows no pointer per comparison, which is most of
/// the time of a lookup in a large map. A long one is an allocation that all versions of the map share.
#[derive(Clone)]
pub(crate) enum Key {
    Short { len: u8, bytes: [u8; SHORT_BYTES_MAX] },
    Long(Arc<[u8]>),
}

impl From<&[u8]> for Key {
    fn from(key: &[u8]) -> Self {
        if key.len() > SHORT_BYTES_MAX {
            return Key::Long(Arc::from(key));
        }
        let mut bytes = [0; SHORT_BYTES_MAX];
        bytes[..key.len()].copy_from_slice(key);
        // At most SHORT_BYTES_MAX.
        Key::Short { len: key.len() as u8, bytes }
    }
}

impl Default for Key {
    fn default() -> Self {
        Key::Short { len: 0, bytes: [0; SHORT_BYTES_MAX] }
    }
}

impl Key {
    /// The key that several parts make together.
    pub(crate) fn concat(parts: &[&[u8]]) -> Self {
        let len = parts.iter().map(|part| part.len()).sum::<usize>();
        if len > SHORT_BYTES_MAX {
            return Key::Long(Arc::from(parts.concat()));
        }
        let mut bytes = [0; SHORT_BYTES_MAX];
        let mut at = 0;
        for part in parts {
            bytes[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        // At most SHORT_BYTES_MAX.
        Key::Short { len: len as u8, bytes }
    }
}

impl Deref for Key {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Key::Short { len, bytes } => &bytes[..usize::from(*len)],
            Key::Long(bytes) => bytes,
        }
    }
}

impl Borrow<[u8]> for Key {
    fn borrow(&self) -> &[u8] {
        self
    }
}

// A map is searched with slices, so keys compare as their bytes do, however they are kept.
impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        (**self).cmp(&**other)
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Key {}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn keys_are_ordered_as_their_bytes(
            a in proptest::collection::vec(0..3_u8, 0..80),
            b in proptest::collection::vec(0..3_u8, 0..80),
            shared in 0..60_usize,
        ) {
            let start = vec![1; shared];
            let (a, b) = ([&start[..], &a].concat(), [&start[..], &b].concat());
            prop_assert_eq!(&*Key::from(&a[..]), &a[..]);
            prop_assert_eq!(&*Key::concat(&[&start, &a, &b]), &[&start[..], &a, &b].concat()[..]);
            prop_assert_eq!(Key::from(&a[..]).cmp(&Key::from(&b[..])), a.cmp(&b));
            prop_assert_eq!(Key::from(&a[..]) == Key::from(&b[..]), a == b);
        }
    }
}
