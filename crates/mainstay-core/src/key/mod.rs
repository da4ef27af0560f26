//! Keys: an encoding whose byte order is the order of the values.
//!
//! [`encode`] takes any serde type made of booleans, integers, characters, strings, bytes, uuids, options, tuples,
//! arrays, structs, lists and enums. If `a < b` by the type's derived `Ord`, then the bytes of `a` are less than those
//! of `b`; equal values have equal bytes, and no bytes but those are read back as the value. Integers take one to
//! seventeen bytes whatever their type, so a key's type may widen; a tuple is its elements one after the other, so the
//! first elements of a tuple are a prefix of it ([`prefix`]).
//!
//! Floating point numbers are refused (NaN has no place in the order, and `0.0 == -0.0` would be two keys), and so are
//! maps (they have no agreed order) and types that must see the data to know what they are (untagged and internally
//! tagged enums, flattened fields).
//!
//! Variants of enums are counted in the order of their declaration and fields of structs go without names: in a type
//! whose keys are stored, add variants at the end only, and leave the fields alone. Discriminants (`Top = 2`) are not
//! seen: where there are some, they must rise in the order of declaration, or `Ord` differs from the order of the keys.
//! Variants with `#[serde(skip)]` must stand at the end: serde counts them when it writes and not when it reads, and a key
//! behind one is refused when it is read. [`Reverse`](std::cmp::Reverse) is nothing to serde: its keys sort as without it.
//!
//! ```
//! use mainstay_core::key;
//!
//! let early = key::encode(&("orders", 2, Some("a")))?;
//! let late = key::encode(&("orders", 10, None::<&str>))?;
//! assert!(early < late);
//! assert_eq!(key::decode::<(String, u64, Option<String>)>(&early)?, ("orders".into(), 2, Some("a".into())));
//!
//! let all_twos = key::prefix(&("orders", 2))?;
//! assert!(all_twos.contains(&early) && !all_twos.contains(&late));
//! # Ok::<(), mainstay_core::Error>(())
//! ```

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{Error, ErrorKind, Result};

mod encode;

mod decode;

mod display;

mod fault;
mod range;
mod tag;

pub use display::{KeyDisplay, display};
pub use range::KeyRange;

#[cfg(test)]
mod tests;

/// The most bytes of an encoded key. Stores keep keys in pages and in memory, where one of more than a page of 4 KiB
/// pushes out many others; what is longer is a value.
pub const KEY_BYTES_MAX: usize = 4096;

/// The most options, enums, tuples, structs and lists inside each other in a key. More than a person writes, and little
/// enough for any stack.
pub const KEY_DEPTH_MAX: u16 = 32;

/// Encodes a key.
///
/// # Errors
/// `Invalid` if the type cannot be a key (the message says why), `TooLarge` above [`KEY_BYTES_MAX`] or
/// [`KEY_DEPTH_MAX`].
pub fn encode<K: ?Sized + Serialize>(key: &K) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    encode_into(&mut out, key)?;
    Ok(out)
}

/// Encodes a key at the end of a buffer, for example behind the name of a collection. The buffer is left as it was if
/// that fails.
///
/// # Errors
/// As [`encode`].
pub fn encode_into<K: ?Sized + Serialize>(out: &mut Vec<u8>, key: &K) -> Result<()> {
    let start = out.len();
    key.serialize(&mut encode::Encoder::new(out)).map_err(|fault| {
        out.truncate(start);
        fault.named::<K>("encoding")
    })
}

/// Decodes a key.
///
/// # Errors
/// `Invalid` if the bytes hold a key of another type (the message names the element, what was expected and what was
/// found) or if the type would write another key for what it has read, `Corrupt` if no key is encoded like that,
/// `TooLarge` above [`KEY_BYTES_MAX`] or [`KEY_DEPTH_MAX`].
pub fn decode<K: Serialize + DeserializeOwned>(bytes: &[u8]) -> Result<K> {
    if bytes.len() > KEY_BYTES_MAX {
        return Err(Error::new(
            ErrorKind::TooLarge,
            format!("key of {} bytes exceeds KEY_BYTES_MAX of {KEY_BYTES_MAX}", bytes.len()),
        ));
    }
    let mut decoder = decode::Decoder::new(bytes);
    let result = match K::deserialize(&mut decoder) {
        Ok(key) => decoder.finish().map(|has_variant| (key, has_variant)),
        Err(fault) => Err(fault),
    };
    let (key, has_variant) = result.map_err(|fault| fault.named::<K>("decoding"))?;
    // Everything else has one reading only, but the number of a variant means what the type makes of it.
    if has_variant && encode(&key)? != bytes {
        let what = "the type numbers its variants differently when it writes and when it reads: move those with \
                    #[serde(skip)] to the end";
        return Err(fault::Fault::invalid(what).named::<K>("decoding"));
    }
    Ok(key)
}

/// The range of all keys whose first elements are those of `elements`: a tuple, or one value as the first element. The
/// empty tuple `()` is the start of every key.
///
/// # Errors
/// As [`encode`].
pub fn prefix<P: ?Sized + Serialize>(elements: &P) -> Result<KeyRange> {
    Ok(KeyRange::starting_with(encode(elements)?))
}

/// The range of all keys whose first elements are those of `elements` (`()` for none) and whose next element is a
/// string that starts with `text`.
///
/// ```
/// use mainstay_core::key;
///
/// let range = key::text_prefix(&("users",), "an")?;
/// assert!(range.contains(&key::encode(&("users", "anna"))?));
/// assert!(!range.contains(&key::encode(&("users", "bert"))?));
/// # Ok::<(), mainstay_core::Error>(())
/// ```
///
/// # Errors
/// As [`encode`].
pub fn text_prefix<P: ?Sized + Serialize>(elements: &P, text: &str) -> Result<KeyRange> {
    let mut start = encode(&(elements, text))?;
    // The terminator is what makes the string end here.
    start.pop();
    Ok(KeyRange::starting_with(start))
}
