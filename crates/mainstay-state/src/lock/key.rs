use std::fmt;

use bytes::Bytes;

const WORD_BYTES: usize = size_of::<u64>();
const WORDS: usize = 4;

/// The most bytes of a key that are kept in place. Longer keys are shared with the caller's buffer.
///
/// It makes [`LockKey`] 40 bytes large, and has room for a collection's number and a uuid or a word.
pub(super) const INLINE_BYTES_MAX: usize = WORDS * WORD_BYTES;

/// The exact key of a lock.
///
/// A short key is copied: that is cheaper than to count one more reference to a buffer, twice per lock. It is kept in
/// words and not in bytes, because it is copied and compared more often than anything else here.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) enum LockKey {
    /// Filled up with zeroes; the length tells them from those of the key.
    Short { words: [u64; WORDS], len: u8 },
    /// Never as short as a short one, so that equal keys are equal.
    Long(Bytes),
}

impl LockKey {
    #[inline]
    pub(crate) fn new(key: &Bytes) -> Self {
        if key.len() > INLINE_BYTES_MAX {
            return Self::Long(key.clone());
        }
        let mut words = [0; WORDS];
        let (whole, rest) = key.as_chunks::<WORD_BYTES>();
        for (word, bytes) in words.iter_mut().zip(whole) {
            *word = u64::from_le_bytes(*bytes);
        }
        if let Some(word) = words.get_mut(whole.len()) {
            *word = rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        }
        // At most INLINE_BYTES_MAX, which a byte holds.
        Self::Short { words, len: key.len() as u8 }
    }

    /// How many bytes it has.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Short { len, .. } => usize::from(*len),
            Self::Long(bytes) => bytes.len(),
        }
    }

    /// Its first bytes, up to eight.
    pub(crate) fn start(&self) -> ([u8; WORD_BYTES], usize) {
        let mut start = [0; WORD_BYTES];
        let len = self.len().min(WORD_BYTES);
        match self {
            Self::Short { words, .. } => start = words[0].to_le_bytes(),
            Self::Long(bytes) => start.copy_from_slice(&bytes[..WORD_BYTES]),
        }
        (start, len)
    }
}

impl fmt::Debug for LockKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short { words, len } => {
                let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).take((*len).into()).collect();
                write!(f, "\"{}\"", bytes.escape_ascii())
            }
            Self::Long(bytes) => write!(f, "\"{}\"", bytes.escape_ascii()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_equal_if_and_only_if_their_bytes_are() {
        let mut keys: Vec<Vec<u8>> = Vec::new();
        for len in 0..=2 * INLINE_BYTES_MAX {
            keys.push(vec![0; len]);
            keys.push((1..=len as u8).collect());
            for n in 0..len {
                let mut key = vec![0; len];
                key[n] = 7;
                keys.push(key);
            }
        }
        for one in &keys {
            for other in &keys {
                // The empty key is there twice.
                let equal = LockKey::new(&Bytes::from(one.clone())) == LockKey::new(&Bytes::from(other.clone()));
                assert_eq!(equal, one == other, "{one:?} and {other:?}");
            }
        }
    }

    #[test]
    fn a_key_shows_its_bytes() {
        for bytes in ["", "apple \0", "twelve bytes", &"long".repeat(20)] {
            let shown = format!("\"{}\"", bytes.as_bytes().escape_ascii());
            assert_eq!(format!("{:?}", LockKey::new(&Bytes::copy_from_slice(bytes.as_bytes()))), shown);
        }
        assert_eq!(size_of::<LockKey>(), 40);
    }
}
