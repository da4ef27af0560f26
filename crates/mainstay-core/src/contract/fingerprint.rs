use std::fmt;

use serde::Serialize;
use xxhash_rust::xxh64::xxh64;

use super::fault::Fault;
use super::limits::Limits;
use super::wire::{Head, Reader};
use super::{Error, ErrorKind, Result};

/// How many bytes a [`Fingerprint`] has.
pub const FINGERPRINT_BYTES: usize = 16;

/// The seeds of its two halves. Fixed for good: what was stored with them is compared with what is made today.
const SEEDS: [u64; 2] = [0, 0x9e37_79b9_7f4a_7c15];

/// Tells values apart by a hash of their encoding, the same in every process and on every node.
///
/// The entries of maps count in whatever order they come, so that a `HashMap` is equal to its copy in another process. Those
/// of lists count in their order, and sets are lists in an encoding. A value whose type is seen to be made of `HashSet`s is
/// compared without the order of its lists; a `HashSet` within a struct is not seen: use a `BTreeSet` there.
///
/// It is for accidents, not against those who look for two values with the same hash.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint([u8; FINGERPRINT_BYTES]);

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Fingerprint {
    /// The fingerprint that these bytes are.
    pub fn from_bytes(bytes: [u8; FINGERPRINT_BYTES]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    pub fn to_bytes(self) -> [u8; FINGERPRINT_BYTES] {
        self.0
    }
}

/// Makes the [`Fingerprint`] of several values, in their order.
///
/// ```
/// use mainstay_core::contract::Fingerprinter;
///
/// let of = |amount: u32, text: &str| {
///     let mut fingerprinter = Fingerprinter::default();
///     fingerprinter.add(&amount)?;
///     fingerprinter.add(text)?;
///     Ok::<_, mainstay_core::Error>(fingerprinter.finish())
/// };
/// assert_eq!(of(5, "chair")?, of(5, "chair")?);
/// assert_ne!(of(5, "chair")?, of(6, "chair")?);
/// # Ok::<(), mainstay_core::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct Fingerprinter {
    bytes: Vec<u8>,
}

impl Fingerprinter {
    /// Adds a value.
    ///
    /// # Errors
    /// As [`Limits::encode_into`], with the default limits.
    pub fn add<T: ?Sized + Serialize>(&mut self, value: &T) -> Result<()> {
        let encoded = Limits::DEFAULT.encode(value)?;
        let lists = match std::any::type_name::<T>().contains("HashSet<") {
            true => Lists::Unordered,
            false => Lists::Ordered,
        };
        // The order of entries does not change how long the value is.
        self.bytes.extend_from_slice(&(encoded.len() as u64).to_be_bytes());
        canonical(&mut self.bytes, &mut Reader::new(&encoded, 0), lists)
            .map_err(|_| Error::new(ErrorKind::Fatal, "a value that was just encoded cannot be read: this is a defect"))
    }

    /// The fingerprint of what was added.
    pub fn finish(self) -> Fingerprint {
        let mut bytes = [0; FINGERPRINT_BYTES];
        for (half, seed) in bytes.chunks_exact_mut(FINGERPRINT_BYTES / 2).zip(SEEDS) {
            half.copy_from_slice(&xxh64(&self.bytes, seed).to_be_bytes());
        }
        Fingerprint(bytes)
    }
}

/// Whether the order of the elements of lists counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lists {
    Ordered,
    Unordered,
}

/// Writes one value with its unordered parts in the order of their bytes. It is no deeper than what can be encoded.
fn canonical(out: &mut Vec<u8>, reader: &mut Reader<'_>, lists: Lists) -> Result<(), Fault> {
    let start = reader.at;
    let head = reader.head()?;
    out.extend_from_slice(reader.bytes.get(start..reader.at).unwrap_or_default());
    let (count, values_each) = match head {
        Head::Array(count) if lists == Lists::Ordered => {
            return (0..count).try_for_each(|_| canonical(out, reader, lists));
        }
        Head::Array(count) => (count, 1),
        Head::Map(count) => (count, 2),
        _ => return Ok(()),
    };
    let mut elements = Vec::with_capacity(count);
    for _ in 0..count {
        let mut element = Vec::new();
        (0..values_each).try_for_each(|_| canonical(&mut element, reader, lists))?;
        elements.push(element);
    }
    elements.sort_unstable();
    elements.iter().for_each(|element| out.extend_from_slice(element));
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashMap, HashSet};

    use super::*;

    fn of<T: Serialize>(value: &T) -> Fingerprint {
        let mut fingerprinter = Fingerprinter::default();
        fingerprinter.add(value).unwrap();
        fingerprinter.finish()
    }

    #[test]
    fn it_is_the_one_that_is_stored() {
        // Of the bytes 00…01 05: the length of the value, and the value.
        let bytes = [0, 0, 0, 0, 0, 0, 0, 1, 5];
        let expected = [xxh64(&bytes, 0).to_be_bytes(), xxh64(&bytes, SEEDS[1]).to_be_bytes()].concat();
        assert_eq!(of(&5_u8).to_bytes().to_vec(), expected);
        assert_eq!(format!("{:?}", of(&5_u8)), STORED, "what an earlier build has stored is still found");
    }

    const STORED: &str = "e47a640aaa203694e5d571620589955f";

    #[test]
    fn other_values_have_others_and_the_order_of_lists_counts() {
        assert_ne!(of(&(1, 2)), of(&(2, 1)));
        assert_ne!(of(&vec![1, 2]), of(&vec![2, 1]));
        assert_ne!(of(&Some(0)), of(&None::<u8>));
        assert_ne!(of(&"1"), of(&1));
        let (mut apart, mut together) = (Fingerprinter::default(), Fingerprinter::default());
        ["ab", "c"].iter().for_each(|text| apart.add(text).unwrap());
        ["a", "bc"].iter().for_each(|text| together.add(text).unwrap());
        assert_ne!(apart.finish(), together.finish());
    }

    #[test]
    fn the_order_of_hash_maps_and_hash_sets_does_not_count() {
        let numbers = || 0..100_u32;
        let map = || numbers().map(|number| (number, number.to_string())).collect::<HashMap<_, _>>();
        assert_eq!(of(&map()), of(&map()), "each has an order of its own");
        assert_eq!(of(&map()), of(&map().into_iter().collect::<BTreeMap<_, _>>()));
        assert_ne!(of(&map()), of(&numbers().map(|number| (number, String::new())).collect::<HashMap<_, _>>()));
        let set = || numbers().collect::<HashSet<_>>();
        assert_eq!(of(&Some(set())), of(&Some(set())));
        assert_ne!(of(&set()), of(&numbers().skip(1).collect::<HashSet<_>>()));
    }
}
