use std::fmt;

use bytes::Bytes;

/// The most bytes of a key that are kept in place. Longer keys are shared with the caller's buffer.
///
/// It makes [`LockKey`] 40 bytes large, and has room for a collection's number and a uuid or a word.
pub(super) const INLINE_BYTES_MAX: usize = 38;

/// The exact key of a lock.
///
/// A short key is copied: that is cheaper than to count one more reference to a buffer, twice per lock.
#[derive(Clone)]
pub(super) enum LockKey {
    Short { len: u8, bytes: [u8; INLINE_BYTES_MAX] },
    Long(Bytes),
}

impl LockKey {
    #[inline]
    pub(super) fn new(key: &Bytes) -> Self {
        if key.len() > INLINE_BYTES_MAX {
            return Self::Long(key.clone());
        }
        let mut bytes = [0; INLINE_BYTES_MAX];
        bytes[..key.len()].copy_from_slice(key);
        // At most INLINE_BYTES_MAX, which a byte holds.
        Self::Short { len: key.len() as u8, bytes }
    }

    #[inline]
    pub(super) fn as_slice(&self) -> &[u8] {
        match self {
            Self::Short { len, bytes } => &bytes[..usize::from(*len)],
            Self::Long(bytes) => bytes,
        }
    }
}

impl PartialEq for LockKey {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for LockKey {}

impl fmt::Debug for LockKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.as_slice().escape_ascii())
    }
}
