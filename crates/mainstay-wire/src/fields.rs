//! Reading fixed fields front to back.

use mainstay_core::{Error, Result};

/// Reads little-endian numbers and byte strings; every shortage is a `Corrupt` error that names what was read.
pub(crate) struct Fields<'b> {
    bytes: &'b [u8],
    what: &'static str,
}

impl<'b> Fields<'b> {
    pub(crate) fn new(what: &'static str, bytes: &'b [u8]) -> Self {
        Self { bytes, what }
    }

    pub(crate) fn take(&mut self, count: usize) -> Result<&'b [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(count).ok_or_else(|| self.bad("ends too early"))?;
        self.bytes = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let taken = self.take(N)?;
        let mut array = [0; N];
        // `take` has returned exactly this many.
        array.copy_from_slice(taken);
        Ok(array)
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

    pub(crate) fn u128(&mut self) -> Result<u128> {
        self.array().map(u128::from_le_bytes)
    }

    /// A text with its length in a byte in front.
    pub(crate) fn short_text(&mut self) -> Result<&'b str> {
        let length = usize::from(self.u8()?);
        let bytes = self.take(length)?;
        std::str::from_utf8(bytes).map_err(|_| self.bad("has a text that is not UTF-8"))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(crate) fn bad(&self, why: &str) -> Error {
        Error::corrupt(format!("{} {why}", self.what))
    }
}
