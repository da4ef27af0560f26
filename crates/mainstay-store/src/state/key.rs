use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

/// How long a key may be to be kept in place.
const SHORT_BYTES_MAX: usize = 38;

/// A key in memory: in a map, in a list of writes, of a lock.
///
/// A short key stands where it is used, so that looking for it follows no pointer per comparison, which is most of the time of
/// a lookup in a large map, and so that making it takes no allocation. A long one is an allocation that all clones share.
#[derive(Clone)]
pub struct Key {
    kept: Kept,
}

#[derive(Clone)]
enum Kept {
    /// Filled up with zeroes; the length tells them from those of the key.
    Short { len: u8, bytes: [u8; SHORT_BYTES_MAX] },
    /// Never as short as a short one, so that equal keys are kept alike.
    Long(Arc<[u8]>),
}

impl From<&[u8]> for Key {
    #[inline]
    fn from(key: &[u8]) -> Self {
        if key.len() > SHORT_BYTES_MAX {
            return Self { kept: Kept::Long(Arc::from(key)) };
        }
        Key::concat(&[key])
    }
}

impl Default for Key {
    fn default() -> Self {
        Self { kept: Kept::Short { len: 0, bytes: [0; SHORT_BYTES_MAX] } }
    }
}

impl Key {
    /// The key that several parts make together.
    #[inline]
    pub fn concat(parts: &[&[u8]]) -> Self {
        let len = parts.iter().map(|part| part.len()).sum::<usize>();
        if len > SHORT_BYTES_MAX {
            return Self { kept: Kept::Long(Arc::from(parts.concat())) };
        }
        let mut bytes = [0; SHORT_BYTES_MAX];
        let mut at = 0;
        for part in parts {
            bytes[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        // At most SHORT_BYTES_MAX.
        Self { kept: Kept::Short { len: len as u8, bytes } }
    }
}

impl Deref for Key {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.kept {
            Kept::Short { len, bytes } => &bytes[..usize::from(*len)],
            Kept::Long(bytes) => bytes,
        }
    }
}

impl Borrow<[u8]> for Key {
    fn borrow(&self) -> &[u8] {
        self
    }
}

// A map is searched with slices, so keys compare and hash as their bytes do, however they are kept.
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
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        match (&self.kept, &other.kept) {
            // All of them at once: as many as are compared without a call.
            (Kept::Short { len, bytes }, Kept::Short { len: other_len, bytes: other }) => {
                len == other_len && bytes == other
            }
            (Kept::Long(bytes), Kept::Long(other)) => bytes == other,
            _ => false,
        }
    }
}

impl Eq for Key {}

impl Hash for Key {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.escape_ascii())
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

    #[test]
    fn keys_of_zeroes_are_equal_only_if_they_are_as_long() {
        let keys: Vec<Key> = (0..2 * SHORT_BYTES_MAX).map(|len| Key::from(&vec![0; len][..])).collect();
        for (one, key) in keys.iter().enumerate() {
            assert_eq!(keys.iter().position(|other| other == key), Some(one));
        }
        assert_eq!(size_of::<Key>(), 40);
        assert_eq!(format!("{:?}", Key::from(&b"apple \0"[..])), "\"apple \\x00\"");
    }
}
