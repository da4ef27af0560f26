use serde::{Deserialize, Serialize};

/// How many keys there are, unless a bench says otherwise.
pub(super) const KEYS: usize = 100_000;

/// The size of a value where it is kept as plain bytes.
pub(super) const VALUE_BYTES: usize = 100;

/// What is stored for a key: about 100 bytes in memory and encoded, with a number that every transaction changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) count: u64,
    pub(super) marks: [u64; 10],
}

impl Record {
    /// Of a key, with numbers that are as long encoded as in memory.
    pub(super) fn new(number: usize) -> Self {
        Self { count: 0, marks: std::array::from_fn(|mark| u64::MAX - (number * 16 + mark) as u64) }
    }
}

/// What an actor starts with: as long as any other.
impl Default for Record {
    fn default() -> Self {
        Self::new(0)
    }
}

/// A key of 16 letters.
pub(super) fn key(number: usize) -> String {
    format!("customer-{number:07}")
}

/// All keys, made before anything is measured.
pub(crate) fn keys(count: usize) -> Vec<String> {
    (0..count).map(key).collect()
}

/// The same as plain bytes, for those who store nothing else: a number in front, and something to carry along.
pub(super) fn plain(number: usize) -> [u8; VALUE_BYTES] {
    let mut value = [0x5a; VALUE_BYTES];
    value[8..16].copy_from_slice(&(number as u64).to_le_bytes());
    value[..8].copy_from_slice(&0_u64.to_le_bytes());
    value
}

/// Adds one to the number in front.
pub(super) fn change(value: &mut [u8]) {
    if let Some(count) = value.first_chunk_mut::<8>() {
        *count = (u64::from_le_bytes(*count) + 1).to_le_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_as_said() {
        assert_eq!(key(99_999).len(), 16);
        assert!((80..=120).contains(&size_of::<Record>()));
        let mut value = plain(7);
        change(&mut value);
        assert_eq!(value[0], 1);
        assert_eq!(value[8], 7);
    }
}
