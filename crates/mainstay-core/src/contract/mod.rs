//! Data contracts: values as MessagePack with field names, kept whole by versions of a type that know less of them.
//!
//! [`encode`] and [`decode`] take any serde type. Fields go by name and may be added, left out (with
//! `#[serde(default)]`) and reordered from one version of a type to the next. [`decode_keeping`] and
//! [`encode_keeping`], or [`rewrite`] for both at once, carry the fields that an older version does not know through a
//! change that it makes, nested and inside lists and maps. [`Limits`] bounds what is read and written. [`describe`] names
//! a type, for the record of what a collection holds.
//!
//! ```
//! use mainstay_core::contract;
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Debug, PartialEq, Serialize, Deserialize)]
//! struct Order { sku: String, price: u32 }
//!
//! let bytes = contract::encode(&Order { sku: "chair".into(), price: 40 })?;
//! assert_eq!(contract::decode::<Order>(&bytes)?.price, 40);
//!
//! let error = contract::decode::<Vec<Order>>(&contract::encode(&[("chair", "abc")])?).unwrap_err();
//! assert!(error.to_string().starts_with("field `[0][1]`: expected u32, found string \"abc\""));
//! # Ok::<(), mainstay_core::Error>(())
//! ```
//!
//! # What does not survive
//!
//! MessagePack's nil stands for `None`, so `Some(x)` is read back as `None` for every `x` that is written as nil: `None`,
//! `()`, newtypes of these, unit variants of untagged enums. Inside flattened fields and enums without an outer tag, what
//! serde's buffer has no room for cannot stand: integers of 128 bits, and unit structs inside untagged enums (use a struct
//! without fields, `struct Nothing {}`).
//!
//! # Unknown fields
//!
//! A field is unknown if the type ignored it when the old value was read. It is put back into the same struct of the
//! new value, after the known fields, unless the type writes a field of that name. The same struct is found by the names
//! of fields, the keys of maps and the variants of enums on the way to it; under another key or variant there is
//! nothing to put back, and an entry that was removed from a map stays removed. In a list:
//!
//! 1. Elements that are equal, as far as the type knows them, are the same element, wherever they stand. Among several
//!    equal ones the order decides, if there are as many as before; if not, and if their unknown fields differ, this
//!    rule matches none of them.
//! 2. If the matched elements kept their order, elements between the same two matched neighbours (or ends of the list)
//!    are matched by place if there are as many of them as before. (Not in what is seen to be a set.)
//! 3. The unknown fields of all others are dropped: to attach them to the wrong element would be worse.
//!
//! The places of tuple structs and tuple variants have a meaning, so they match by place alone. Unknown fields inside the
//! *keys* of a map are dropped.
//!
//! Inside flattened fields and enums without an outer tag serde does not tell what was ignored. There a field is unknown
//! if the type does not write it, and writes the same value when it is left out. Nor does serde show every tag there:
//! a variant counts as another one if the names of its fields cannot belong to the same one, or if they differ and a text
//! that may be a tag has changed.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{Error, ErrorKind, Result};

mod limits;

mod decode;
mod encode;
mod wire;

mod fault;
mod path;

mod unknown;

mod describe;
mod encodable;
mod fingerprint;
mod record;

pub use describe::{TYPE_NAME_BYTES_MAX, TYPE_NAME_DEPTH_MAX, TypeName, describe};
pub use encodable::Encodable;
pub use fingerprint::{FINGERPRINT_BYTES, Fingerprint, Fingerprinter};
pub use limits::Limits;
pub use record::{RECORD_FIELDS_MAX, RecordReader, RecordWriter};
pub use unknown::Unknown;

#[cfg(test)]
mod tests;

/// Encodes a value. See [`Limits::encode`].
///
/// # Errors
/// As [`Limits::encode_into`].
pub fn encode<T: ?Sized + Serialize>(value: &T) -> Result<Vec<u8>> {
    Limits::DEFAULT.encode(value)
}

/// Encodes a value at the end of a buffer. See [`Limits::encode_into`].
///
/// # Errors
/// As [`Limits::encode_into`].
pub fn encode_into<T: ?Sized + Serialize>(out: &mut Vec<u8>, value: &T) -> Result<()> {
    Limits::DEFAULT.encode_into(out, value)
}

/// Decodes a value. See [`Limits::decode`].
///
/// # Errors
/// As [`Limits::decode`].
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    Limits::DEFAULT.decode(bytes)
}

/// Decodes a value and keeps what its type does not know. See [`Limits::decode_keeping`].
///
/// # Errors
/// As [`Limits::decode`].
pub fn decode_keeping<T: Serialize + DeserializeOwned>(bytes: &[u8]) -> Result<(T, Unknown)> {
    Limits::DEFAULT.decode_keeping(bytes)
}

/// Encodes a value with what its type does not know. See [`Limits::encode_keeping`].
///
/// # Errors
/// As [`Limits::encode_into`].
pub fn encode_keeping<T: ?Sized + Serialize>(value: &T, unknown: &Unknown) -> Result<(Vec<u8>, Unknown)> {
    Limits::DEFAULT.encode_keeping(value, unknown)
}

/// Encodes a value with what its type does not know at the end of a buffer. See [`Limits::encode_keeping_into`].
///
/// # Errors
/// As [`Limits::encode_into`].
pub fn encode_keeping_into<T: ?Sized + Serialize>(out: &mut Vec<u8>, value: &T, unknown: &Unknown) -> Result<Unknown> {
    Limits::DEFAULT.encode_keeping_into(out, value, unknown)
}

/// Encodes `new` in the place of `old`, with the fields of `old` that `T` does not know. See [`Limits::rewrite`].
///
/// # Errors
/// As [`Limits::decode`] for `old` and [`Limits::encode_into`] for `new`.
pub fn rewrite<T: Serialize + DeserializeOwned>(old: &[u8], new: &T) -> Result<Vec<u8>> {
    Limits::DEFAULT.rewrite(old, new)
}

impl Limits {
    /// Encodes a value.
    ///
    /// # Errors
    /// As [`encode_into`](Limits::encode_into).
    pub fn encode<T: ?Sized + Serialize>(&self, value: &T) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        self.encode_into(&mut out, value)?;
        Ok(out)
    }

    /// Encodes a value at the end of a buffer, which is worth keeping for the next value. The buffer is left as it was
    /// if that fails.
    ///
    /// # Errors
    /// `TooLarge` if the value exceeds a limit, `Invalid` if its own code refuses to be serialized.
    pub fn encode_into<T: ?Sized + Serialize>(&self, out: &mut Vec<u8>, value: &T) -> Result<()> {
        let start = out.len();
        let mut encoder = encode::Encoder::new(out, self);
        let result = match value.serialize(&mut encoder) {
            Ok(()) => encoder.finish(),
            Err(fault) => Err(fault),
        };
        result.map_err(|fault| {
            out.truncate(start);
            fault.while_encoding::<T>(self.bytes(), self.depth())
        })
    }

    /// Decodes a value.
    ///
    /// # Errors
    /// `Invalid` if the bytes hold something else than a `T` (the message names the path to it, what was expected and
    /// what was found), `Corrupt` if they are no MessagePack value or more than one, `TooLarge` if they exceed a limit.
    pub fn decode<T: DeserializeOwned>(&self, bytes: &[u8]) -> Result<T> {
        self.decode_noting(bytes).map(|(value, _)| value)
    }

    /// Decodes a value and keeps what its type does not know, to put it back when the value is written again.
    ///
    /// # Errors
    /// As [`decode`](Limits::decode).
    pub fn decode_keeping<T: Serialize + DeserializeOwned>(&self, bytes: &[u8]) -> Result<(T, Unknown)> {
        let (value, notes) = self.decode_noting(bytes)?;
        let unknown = unknown::collect(self, bytes, &value, &notes)
            .map_err(|fault| fault.while_decoding::<T>(bytes, self.depth()))?;
        Ok((value, unknown))
    }

    /// Encodes a value with what its type does not know, and gives what is unknown in the result: keep it for the next
    /// change if this one is stored, and the former if it is not.
    ///
    /// # Errors
    /// As [`encode_into`](Limits::encode_into).
    pub fn encode_keeping<T: ?Sized + Serialize>(&self, value: &T, unknown: &Unknown) -> Result<(Vec<u8>, Unknown)> {
        let mut out = Vec::new();
        let unknown = self.encode_keeping_into(&mut out, value, unknown)?;
        Ok((out, unknown))
    }

    /// [`encode_keeping`](Limits::encode_keeping) at the end of a buffer, which is left as it was if that fails.
    ///
    /// # Errors
    /// As [`encode_into`](Limits::encode_into).
    pub fn encode_keeping_into<T: ?Sized + Serialize>(
        &self,
        out: &mut Vec<u8>,
        value: &T,
        unknown: &Unknown,
    ) -> Result<Unknown> {
        if unknown.is_empty() {
            self.encode_into(out, value)?;
            return Ok(Unknown::default());
        }
        let start = out.len();
        let merged = unknown::merge(&self.encode(value)?, unknown, out);
        let merged = match out.len() - start > self.bytes() {
            true => Err(fault::Fault::too_large()),
            // What is kept may have been read under other limits than these.
            false => merged.and_then(|unknown| path::check(&out[start..], self.depth()).map(|()| unknown)),
        };
        merged.map_err(|fault| {
            out.truncate(start);
            fault.while_encoding::<T>(self.bytes(), self.depth())
        })
    }

    /// Encodes `new` in the place of `old`, with the fields of `old` that `T` does not know.
    ///
    /// # Errors
    /// As [`decode`](Limits::decode) for `old` and [`encode_into`](Limits::encode_into) for `new`.
    pub fn rewrite<T: Serialize + DeserializeOwned>(&self, old: &[u8], new: &T) -> Result<Vec<u8>> {
        let (_, unknown) = self.decode_keeping::<T>(old)?;
        Ok(self.encode_keeping(new, &unknown)?.0)
    }

    fn decode_noting<T: DeserializeOwned>(&self, bytes: &[u8]) -> Result<(T, decode::Notes)> {
        if bytes.len() > self.bytes() {
            return Err(Error::new(
                ErrorKind::TooLarge,
                format!("{} bytes exceed bytes_max of {}: the value is not read", bytes.len(), self.bytes()),
            ));
        }
        let mut decoder = decode::Decoder::new(bytes, self);
        let result = match T::deserialize(&mut decoder) {
            Ok(value) => decoder.finish().map(|notes| (value, notes)),
            Err(fault) => Err(fault),
        };
        result.map_err(|fault| fault.while_decoding::<T>(bytes, self.depth()))
    }
}
