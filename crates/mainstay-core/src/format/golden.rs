//! Bytes that are kept for each version of a format, for the tests of who reads and writes it.
//!
//! A file `NAME-vN.bin` in the folder `tests/golden` of a crate has what version N of a format looked like when it was the
//! newest. It is written once, by
//!
//! ```sh
//! MAINSTAY_GOLDEN=write cargo test -p CRATE golden
//! ```
//!
//! which makes the files that are missing and never touches one that is there. A writer whose bytes differ from the file of the
//! version that it writes has changed the format without a new version, and [`Golden::check`] fails.
#![allow(clippy::unwrap_used, clippy::panic, clippy::missing_panics_doc, reason = "a check fails by panicking")]

use std::path::PathBuf;

use super::Format;

/// The variable that lets missing files be written.
const WRITE: &str = "MAINSTAY_GOLDEN";

/// The kept bytes of a crate.
#[derive(Debug, Clone)]
pub struct Golden {
    folder: PathBuf,
}

impl Golden {
    /// Those of a crate by its folder, which is `env!("CARGO_MANIFEST_DIR")` in its tests.
    pub fn of(manifest_dir: &str) -> Self {
        Self { folder: PathBuf::from(manifest_dir).join("tests").join("golden") }
    }

    /// The bytes that are kept for a version.
    pub fn read(&self, name: &str, version: u8) -> Vec<u8> {
        let path = self.path(name, version);
        std::fs::read(&path).unwrap_or_else(|error| {
            panic!("{}: {error}; the bytes of every version that is read are kept", path.display())
        })
    }

    /// Holds what a writer makes against what is kept for the version that it writes.
    pub fn check(&self, name: &str, format: &Format, written: &[u8]) {
        self.check_version(name, format, format.written(), written);
    }

    /// Holds what a writer makes in a version, for those that write several, against what is kept for that.
    pub fn check_version(&self, name: &str, format: &Format, version: u8, written: &[u8]) {
        let path = self.path(name, version);
        if !path.exists() && std::env::var_os(WRITE).is_some_and(|value| value == "write") {
            std::fs::create_dir_all(&self.folder).unwrap();
            std::fs::write(&path, written).unwrap();
        }
        let kept = self.read(name, version);
        assert!(
            kept == written,
            "{name} is written with other bytes than version {version} of the {} has: give it a new version, and keep the \
             bytes of both\n   kept {kept:02x?}\nwritten {written:02x?}",
            format.name(),
        );
    }

    fn path(&self, name: &str, version: u8) -> PathBuf {
        self.folder.join(format!("{name}-v{version}.bin"))
    }
}

/// What can happen to bytes: cut off at every length, and every bit of them turned. Each with what it is.
pub fn damaged(bytes: &[u8]) -> impl Iterator<Item = (String, Vec<u8>)> + '_ {
    let cut = (0..bytes.len()).map(|len| (format!("cut off at {len}"), bytes[..len].to_vec()));
    let turned = (0..bytes.len() * 8).map(|bit| {
        let mut bytes = bytes.to_vec();
        bytes[bit / 8] ^= 1 << (bit % 8);
        (format!("bit {} of byte {} turned", bit % 8, bit / 8), bytes)
    });
    cut.chain(turned)
}

/// The bytes with some more behind them, as a later program may write.
pub fn longer(bytes: &[u8]) -> Vec<u8> {
    [bytes, b"\x07\0later"].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: Format = Format::new("sample", 1..=2);

    fn golden() -> Golden {
        Golden::of(env!("CARGO_MANIFEST_DIR"))
    }

    #[test]
    fn golden_bytes_are_held_against_what_is_written() {
        golden().check("sample", &FORMAT, b"two");
        assert_eq!(golden().read("sample", 1), b"one");
    }

    #[test]
    #[should_panic(expected = "give it a new version")]
    fn other_bytes_in_the_same_version_fail() {
        golden().check("sample", &FORMAT, b"too");
    }

    #[test]
    #[should_panic(expected = "the bytes of every version that is read are kept")]
    fn a_version_without_bytes_fails() {
        golden().read("sample", 3);
    }

    #[test]
    fn damage_is_every_length_and_every_bit() {
        let all: Vec<_> = damaged(b"ab").collect();
        assert_eq!(all.len(), 2 + 16);
        assert!(all.iter().all(|(_, bytes)| bytes != b"ab"));
    }
}
