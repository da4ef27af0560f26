//! The versions of what is written to disk or sent to a peer, which outlives the program that wrote it.
//!
//! Each format is a constant [`Format`], in one table per crate: the versions that this program reads, and the one that it
//! writes. A reader asks it about the version that it has found ([`Format::check`]), and a writer which one to write
//! ([`Format::written`]). CONTRIBUTING.md, "Changing a format", has the rules; `docs/internals/formats.md` has the list.
//!
//! [`golden`] holds writers to the bytes that are kept for each version.

pub mod golden;

use std::fmt;
use std::ops::RangeInclusive;

use crate::{Error, ErrorKind, Result};

/// This program, as errors name it.
pub const PROGRAM: &str = concat!("mainstay ", env!("CARGO_PKG_VERSION"));

/// The version of this program alone.
pub const PROGRAM_VERSION: &str = env!("CARGO_PKG_VERSION");

/// A format: its name, and the versions of it that this program knows.
///
/// ```
/// use mainstay_core::ErrorKind;
/// use mainstay_core::format::Format;
///
/// const LEDGER: Format = Format::new("ledger page", 1..=2);
///
/// assert_eq!(LEDGER.written(), 2);
/// assert_eq!(LEDGER.check(1).unwrap(), 1);
/// let error = LEDGER.check(3).unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::UnknownVersion);
/// assert!(error.to_string().starts_with("ledger page has format version 3, and this program (mainstay "));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Format {
    name: &'static str,
    oldest: u8,
    newest: u8,
}

impl Format {
    /// A format by its name and the versions that are read. The last of them is the newest, which is written.
    ///
    /// # Panics
    /// While the constant is made, if the range is empty.
    pub const fn new(name: &'static str, read: RangeInclusive<u8>) -> Self {
        assert!(*read.start() <= *read.end(), "a format without a version");
        Self { name, oldest: *read.start(), newest: *read.end() }
    }

    /// What errors call it.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// The oldest version that is read.
    pub const fn oldest(&self) -> u8 {
        self.oldest
    }

    /// The newest version that is read.
    pub const fn newest(&self) -> u8 {
        self.newest
    }

    /// The version to write: the active one, which every program that may have to read it reads.
    ///
    /// Today that is the newest, because all replicas of a set run the same program. The active version of a cluster comes in
    /// here: all that writes asks this, and nothing else decides.
    pub const fn written(&self) -> u8 {
        self.newest
    }

    /// True if a version is read.
    pub const fn reads(&self, version: u8) -> bool {
        self.oldest <= version && version <= self.newest
    }

    /// A version that was found, if it is read.
    ///
    /// # Errors
    /// `UnknownVersion`, naming the format and both versions.
    #[inline]
    pub fn check(&self, found: u8) -> Result<u8> {
        self.check_of(found, self.name)
    }

    /// Like [`check`](Format::check), for something that has a name of its own.
    ///
    /// # Errors
    /// `UnknownVersion`, naming the thing and both versions.
    #[inline]
    pub fn check_of(&self, found: u8, what: impl fmt::Display) -> Result<u8> {
        if self.reads(found) { Ok(found) } else { Err(self.unknown(u64::from(found), what)) }
    }

    /// Like [`check_of`](Format::check_of), for a format whose version has more than a byte.
    ///
    /// # Errors
    /// `UnknownVersion`, naming the thing and both versions.
    pub fn check_wide(&self, found: impl Into<u64>, what: impl fmt::Display) -> Result<u8> {
        let found = found.into();
        match u8::try_from(found) {
            Ok(version) => self.check_of(version, what),
            Err(_) => Err(self.unknown(found, what)),
        }
    }

    /// What is told of a version that is not read.
    #[cold]
    pub fn unknown(&self, found: u64, what: impl fmt::Display) -> Error {
        let remedy = if found > u64::from(self.newest) {
            "start the program that wrote it, or a later one"
        } else {
            "start the last program that reads it, which writes it anew"
        };
        Error::new(
            ErrorKind::UnknownVersion,
            format!("{what} has format version {found}, and this program ({PROGRAM}) reads {self}: {remedy}"),
        )
    }
}

/// The versions that are read.
impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.oldest, self.newest) {
            (oldest, newest) if oldest == newest => write!(f, "version {newest}"),
            (oldest, newest) => write!(f, "versions {oldest} to {newest}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: Format = Format::new("page", 2..=4);

    #[test]
    fn only_versions_of_the_range_are_read_and_errors_name_both() {
        for version in 0..=u8::MAX {
            assert_eq!(FORMAT.check(version).is_ok(), (2..=4).contains(&version));
        }
        assert_eq!((FORMAT.oldest(), FORMAT.newest(), FORMAT.written()), (2, 4, 4));
        let newer = FORMAT.check_of(5, "page 7 of folder a").unwrap_err();
        let expected = format!(
            "page 7 of folder a has format version 5, and this program ({PROGRAM}) reads versions 2 to 4: start the program \
             that wrote it, or a later one"
        );
        assert_eq!((newer.kind(), newer.to_string()), (ErrorKind::UnknownVersion, expected));
        assert_eq!(FORMAT.check_wide(3_u32, "page 7").unwrap(), 3);
        assert!(FORMAT.check_wide(0x0103_u16, "page 7").unwrap_err().to_string().contains("version 259,"));
        let older = FORMAT.check(1).unwrap_err().to_string();
        assert!(
            older.contains("version 1,")
                && older.ends_with("start the last program that reads it, which writes it anew")
        );
        assert_eq!(Format::new("page", 3..=3).to_string(), "version 3");
    }
}
