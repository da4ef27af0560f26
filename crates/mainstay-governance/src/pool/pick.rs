use mainstay::partitioning;
use serde::{Deserialize, Serialize};

/// How a caller picks a member of a pool. Members whose breaker is open, and those that rest, are passed over; what goes by a
/// key waits for its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Pick {
    /// One after the other.
    RoundRobin,
    /// The one that has the fewest jobs of this handle under way; one after the other among equals.
    LeastLoaded,
}

/// Which of `size` members has a key: always the same while the size is the same. When a pool grows, only keys of the
/// new members move, and when it shrinks, only those of the members that go.
///
/// This is rendezvous hashing: each member draws a number with the key, and the highest wins.
pub(crate) fn member_of(key: &str, size: usize) -> usize {
    let key = partitioning::hash(key.as_bytes()).cast_unsigned();
    (0..size).max_by_key(|index| mixed(key ^ mixed(*index as u64 + 1))).unwrap_or(0)
}

/// A number in which every bit depends on every bit: the finalizer of splitmix64.
fn mixed(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_spread_and_only_those_of_new_members_move() {
        let keys: Vec<String> = (0..4000).map(|number| format!("user {number}")).collect();
        for size in 1..20 {
            let mut counts = vec![0_usize; size];
            let mut moved = 0;
            for key in &keys {
                let (here, there) = (member_of(key, size), member_of(key, size + 1));
                counts[here] += 1;
                if here != there {
                    assert_eq!(there, size, "a key moves to the new member or not at all");
                    moved += 1;
                }
            }
            let fair = keys.len() / size;
            assert!(counts.iter().all(|count| *count > fair / 2 && *count < fair * 2), "{counts:?}");
            assert!(moved > 0 && moved < 2 * keys.len() / (size + 1), "{moved} of {size}");
        }
    }
}
