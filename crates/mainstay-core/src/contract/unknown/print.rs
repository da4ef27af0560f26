use std::hash::{DefaultHasher, Hash, Hasher};

use crate::contract::fault::Fault;
use crate::contract::limits::Limits;
use crate::contract::wire::{Head, Reader};

/// What two encoded values are compared by: a few bytes instead of a copy of each.
///
/// Equal values have equal prints, whatever heads they are written with and in whatever order their map entries stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Print {
    exact: u64,
    /// Shared by values that differ in no more than what a type changes by reading and writing them: the order of a
    /// list (it may be a hash set), the width of a number, text that became bytes.
    pub(super) loose: u64,
}

impl Print {
    /// The print of the value at `at`, without the entries whose values start at one of the offsets `without` (in
    /// rising order).
    pub(super) fn of(bytes: &[u8], at: usize, without: &[usize]) -> Result<Self, Fault> {
        Self::read(&mut Reader::new(bytes, at), without)
    }

    fn read(reader: &mut Reader<'_>, without: &[usize]) -> Result<Self, Fault> {
        let start = reader.at;
        Ok(match reader.head()? {
            Head::Nil => Self::both(hashed(0, ())),
            Head::Bool(value) => Self::both(hashed(1, value)),
            Head::Unsigned(value) => Self::both(hashed(2, value)),
            Head::Signed(value) => Self::both(hashed(3, value)),
            Head::F32(value) => Self { exact: hashed(4, value.to_bits()), loose: loose_number(f64::from(value)) },
            Head::F64(value) => Self { exact: hashed(5, value.to_bits()), loose: loose_number(value) },
            Head::Text(text) => Self::both(hashed(6, text)),
            Head::Binary(bytes) => Self { exact: hashed(7, bytes), loose: hashed(6, bytes) },
            Head::Extension(..) => Self::both(hashed(8, &reader.bytes[start..reader.at])),
            Head::Array(count) => {
                let mut ordered = DefaultHasher::new();
                let mut sum = 0u64;
                for _ in 0..count {
                    let element = Self::read(reader, without)?;
                    element.exact.hash(&mut ordered);
                    sum = sum.wrapping_add(hashed(9, element.loose));
                }
                Self { exact: hashed(10, (count, ordered.finish())), loose: hashed(11, (count, sum)) }
            }
            Head::Map(count) => {
                // A sum does not depend on the order.
                let (mut left, mut exact, mut loose) = (0usize, 0u64, 0u64);
                for _ in 0..count {
                    let key = Self::read(reader, without)?;
                    if without.binary_search(&reader.at).is_ok() {
                        reader.skip(Limits::DEPTH_CEILING)?;
                        continue;
                    }
                    let value = Self::read(reader, without)?;
                    left += 1;
                    exact = exact.wrapping_add(hashed(12, (key.exact, value.exact)));
                    loose = loose.wrapping_add(hashed(13, (key.loose, value.loose)));
                }
                Self { exact: hashed(14, (left, exact)), loose: hashed(15, (left, loose)) }
            }
        })
    }

    fn both(hash: u64) -> Self {
        Self { exact: hash, loose: hash }
    }
}

/// The hash of one kind of thing. Its seed is fixed, so that equal values are equal in every run.
fn hashed(kind: u8, what: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    kind.hash(&mut hasher);
    what.hash(&mut hasher);
    hasher.finish()
}

/// A type that reads a whole number may write it as a floating point one.
fn loose_number(number: f64) -> u64 {
    // Casts saturate, so that a number which is no integer, or too large for one, is not equal to what comes back.
    match (number as u64, number as i64) {
        (unsigned, _) if unsigned as f64 == number && unsigned < u64::MAX => hashed(2, unsigned),
        (_, signed) if signed as f64 == number && signed < 0 => hashed(3, signed),
        _ => hashed(5, number.to_bits()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn print(bytes: &[u8]) -> Print {
        Print::of(bytes, 0, &[]).unwrap()
    }

    #[test]
    fn equal_values_share_one_print_whatever_their_bytes_are() {
        // {"a": 1, "b": [-1]} with short heads, and with long ones in the other order.
        let short = [0x82, 0xa1, b'a', 0x01, 0xa1, b'b', 0x91, 0xff];
        let long = [
            0xdf, 0, 0, 0, 2, 0xd9, 1, b'b', 0xdd, 0, 0, 0, 1, 0xd3, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
            0xda, 0, 1, b'a', 0xd2, 0, 0, 0, 1,
        ];
        assert_eq!(print(&short), print(&long));
        assert_eq!(Print::of(&short, 0, &[6]).unwrap(), print(&[0x81, 0xa1, b'a', 0x01]));
        assert_ne!(print(&short), print(&[0x82, 0xa1, b'b', 0x01, 0xa1, b'a', 0x91, 0xff]));
    }

    #[test]
    fn what_a_type_may_change_is_only_loosely_equal() {
        let one = 1f64.to_be_bytes();
        let float = [&[0xcb][..], &one].concat();
        for (a, b) in [
            (&[0x92, 1, 2][..], &[0x92, 2, 1][..]),
            (&[0x01], &float),
            (&[0xca, 0x3f, 0x80, 0, 0], &float),
            (&[0xa1, b'x'], &[0xc4, 1, b'x']),
        ] {
            assert_ne!(print(a), print(b));
            assert_eq!(print(a).loose, print(b).loose);
        }
        assert_ne!(print(&[0x92, 1, 2]).loose, print(&[0x92, 1, 1]).loose);
        assert_ne!(print(&[0xff]).loose, print(&[0xcf, 255, 255, 255, 255, 255, 255, 255, 255]).loose);
    }
}
