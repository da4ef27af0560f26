//! Writing and reading fixed fields front to back. All numbers are little-endian.

use std::sync::Arc;

use mainstay_core::{ActorId, Error, Result};
use uuid::Uuid;

/// The kinds of actor ids.
mod actor_kind {
    pub(super) const NUMBER: u8 = 1;
    pub(super) const UUID: u8 = 2;
    pub(super) const TEXT: u8 = 3;
}

/// Reads fields; every shortage is a `Corrupt` error that names what was read.
pub(crate) struct FieldReader<'b> {
    bytes: &'b [u8],
    what: &'static str,
    length: usize,
}

impl<'b> FieldReader<'b> {
    pub(crate) fn new(what: &'static str, bytes: &'b [u8]) -> Self {
        Self { bytes, what, length: bytes.len() }
    }

    /// How many bytes were read.
    pub(crate) fn at(&self) -> usize {
        self.length - self.bytes.len()
    }

    pub(crate) fn take(&mut self, count: usize) -> Result<&'b [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(count).ok_or_else(|| self.bad("ends too early"))?;
        self.bytes = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (taken, rest) = self.bytes.split_first_chunk::<N>().ok_or_else(|| self.bad("ends too early"))?;
        self.bytes = rest;
        Ok(*taken)
    }

    pub(crate) fn u8(&mut self) -> Result<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self) -> Result<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// A text with its length in a byte in front.
    pub(crate) fn short_text(&mut self) -> Result<&'b str> {
        let length = usize::from(self.u8()?);
        self.text_of(length)
    }

    /// A text with its length in two bytes in front.
    pub(crate) fn text(&mut self) -> Result<&'b str> {
        let length = usize::from(self.u16()?);
        self.text_of(length)
    }

    fn text_of(&mut self, length: usize) -> Result<&'b str> {
        let bytes = self.take(length)?;
        std::str::from_utf8(bytes).map_err(|_| self.bad("has a text that is not UTF-8"))
    }

    pub(crate) fn actor_id(&mut self) -> Result<ActorId> {
        let id = match self.u8()? {
            actor_kind::NUMBER => ActorId::Number(self.u64()?.cast_signed()),
            actor_kind::UUID => ActorId::Uuid(Uuid::from_bytes(self.array()?)),
            actor_kind::TEXT => ActorId::Text(Arc::from(self.text()?)),
            _ => return Err(self.bad("has an actor id of an unknown kind")),
        };
        id.check()?;
        Ok(id)
    }

    pub(crate) fn bad(&self, why: &str) -> Error {
        Error::corrupt(format!("{} {why}", self.what))
    }
}

/// Writes a text with its length in a byte in front.
///
/// # Errors
/// `Invalid` if it is too long.
pub(crate) fn put_short_text(out: &mut Vec<u8>, what: &str, text: &str) -> Result<()> {
    let length = u8::try_from(text.len())
        .map_err(|_| Error::invalid(format!("{what} has {} bytes, and 255 can be sent: shorten it", text.len())))?;
    out.push(length);
    out.extend_from_slice(text.as_bytes());
    Ok(())
}

/// Writes a text with its length in two bytes in front.
///
/// # Errors
/// `Invalid` if it is too long.
pub(crate) fn put_text(out: &mut Vec<u8>, what: &str, text: &str) -> Result<()> {
    let length = u16::try_from(text.len())
        .map_err(|_| Error::invalid(format!("{what} has {} bytes, and 65535 can be sent: shorten it", text.len())))?;
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(text.as_bytes());
    Ok(())
}

/// Writes the id of an actor.
///
/// # Errors
/// As [`ActorId::check`].
pub(crate) fn put_actor_id(out: &mut Vec<u8>, id: &ActorId) -> Result<()> {
    id.check()?;
    match id {
        ActorId::Number(number) => {
            out.push(actor_kind::NUMBER);
            out.extend_from_slice(&number.to_le_bytes());
        }
        ActorId::Uuid(uuid) => {
            out.push(actor_kind::UUID);
            out.extend_from_slice(uuid.as_bytes());
        }
        ActorId::Text(text) => {
            out.push(actor_kind::TEXT);
            put_text(out, "an actor id", text)?;
        }
    }
    Ok(())
}
