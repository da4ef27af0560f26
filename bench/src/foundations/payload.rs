/// The size of what is written.
pub(super) const VALUE_BYTES: usize = 100;

/// How many keys a writer goes round: enough that no page is hot, few enough that a run does not measure growth.
const KEYS_PER_WRITER: u64 = 4096;

/// The key of a writer's turn; writers never share one.
pub(super) fn key(writer: usize, turn: u64) -> [u8; 8] {
    ((writer as u64) << 32 | (turn % KEYS_PER_WRITER)).to_be_bytes()
}

/// A value that differs from turn to turn and does not compress to nothing.
pub(super) fn value(writer: usize, turn: u64) -> [u8; VALUE_BYTES] {
    let mut state = (writer as u64) << 40 | turn | 1 << 63;
    let mut value = [0; VALUE_BYTES];
    for chunk in value.chunks_mut(8) {
        // The constants of a xorshift generator: cheap, and good enough to look like data.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        chunk.copy_from_slice(&state.to_le_bytes()[..chunk.len()]);
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writers_never_share_a_key() {
        assert_ne!(key(0, 1), key(1, 1));
        assert_ne!(key(0, 1), key(0, 2));
        assert_eq!(key(3, 5), key(3, 5 + KEYS_PER_WRITER));
    }

    #[test]
    fn values_differ() {
        assert_ne!(value(0, 0), value(0, 1));
        assert_ne!(value(0, 1), value(1, 1));
    }
}
