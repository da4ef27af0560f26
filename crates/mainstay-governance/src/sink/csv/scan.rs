//! How far a file has whole records.

use std::io::{self, Read};

/// How much is read at a time.
const CHUNK_BYTES: usize = 64 << 10;

/// What a file has, from where the scan began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Scanned {
    /// The end of the last whole record.
    pub(super) whole_bytes: u64,
    /// How many records that are.
    pub(super) records: u64,
    /// The end of the file. What lies between is a record that was torn.
    pub(super) bytes: u64,
}

/// Reads to the end. A record ends at a line end outside of quotes; a quote within quotes is doubled, so that counting
/// quotes is enough. It must begin where a record does.
pub(super) fn scan(mut file: impl Read) -> io::Result<Scanned> {
    let (mut scanned, mut is_quoted) = (Scanned::default(), false);
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let read = match file.read(&mut chunk) {
            Ok(0) => return Ok(scanned),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        for (place, byte) in chunk[..read].iter().enumerate() {
            match byte {
                b'"' => is_quoted = !is_quoted,
                b'\n' if !is_quoted => {
                    scanned.whole_bytes = scanned.bytes + place as u64 + 1;
                    scanned.records += 1;
                }
                _ => {}
            }
        }
        scanned.bytes += read as u64;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::sink::csv::encode::encode;

    #[test]
    fn a_torn_record_is_behind_the_whole_ones() {
        for (text, whole_bytes, records) in [
            ("", 0, 0),
            ("a,b\n", 4, 1),
            ("a,b\nc", 4, 1),
            ("a\n\"b\nc", 2, 1),
            ("a\n\"b\nc\"", 2, 1),
            ("a\n\"b\nc\"\n", 8, 2),
            ("\"\"\"\n\"\n", 6, 1),
        ] {
            let scanned = scan(text.as_bytes()).unwrap();
            assert_eq!(scanned, Scanned { whole_bytes, records, bytes: text.len() as u64 }, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn wherever_rows_are_torn_the_whole_ones_are_found(
            rows in prop::collection::vec(("[ab\",\r\n]{0,6}", "[ab\",\r\n]{0,6}"), 1..8),
            torn in any::<prop::sample::Index>(),
        ) {
            let ends: Vec<usize> = (0..=rows.len()).map(|n| encode(&rows[..n]).unwrap().len()).collect();
            let bytes = encode(&rows).unwrap();
            let cut = torn.index(bytes.len() + 1);
            let whole = ends.iter().rposition(|end| *end <= cut).unwrap();
            let scanned = scan(&bytes[..cut]).unwrap();
            prop_assert_eq!((scanned.whole_bytes, scanned.records), (ends[whole] as u64, whole as u64));
        }
    }
}
