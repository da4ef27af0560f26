//! How far a file has whole records, and whether what is behind them was torn by a crash or damaged by something else.

use std::io;

/// How much is read at a time: whole sectors.
const CHUNK_BYTES: u64 = 64 << 10;

/// What a disk writes whole or not at all.
const SECTOR_BYTES: u64 = 512;

/// What a part of a file has. Places are those of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Scanned {
    /// The end of the last whole record.
    pub(super) whole: u64,
    /// How many records that are.
    pub(super) records: u64,
    /// The first byte that the writer of these files does not write there. `None` if there are whole records only, and
    /// perhaps the beginning of one more.
    pub(super) offence: Option<u64>,
}

/// Reads a part of a file that begins where a record does.
///
/// A record ends at a line end outside of quotes. A field is quoted as a whole or not at all, and quotes within quotes are
/// doubled: what is otherwise is an offence. Files of others may be less strict, and so one that has as many quotes as it takes
/// is taken as whole in spite of it, to its end.
///
/// A crash leaves the beginning of a batch. It may also leave zeros where sectors were not written, between others that
/// were: from the end of a record or the start of a sector to the end of one. There the scan ends, and nothing of it is an
/// offence.
pub(super) fn scan(
    from: u64,
    to: u64,
    mut read_at: impl FnMut(&mut [u8], u64) -> io::Result<usize>,
) -> io::Result<Scanned> {
    let mut scan = Scan::begin(from);
    let mut chunk = vec![0; CHUNK_BYTES as usize];
    while scan.at < to && !scan.is_at_hole {
        let length = (CHUNK_BYTES - scan.at % CHUNK_BYTES).min(to - scan.at) as usize;
        let read = read_at(&mut chunk[..length], scan.at)?;
        if read == 0 {
            break;
        }
        scan.feed(&chunk[..read]);
    }
    Ok(scan.end())
}

struct Scan {
    at: u64,
    state: State,
    whole: u64,
    records: u64,
    offence: Option<u64>,
    /// The start of zeros that may be a hole.
    zeros: Option<u64>,
    is_at_hole: bool,
    /// The same by counting quotes, whatever else is there.
    counted: Counted,
}

#[derive(Clone, Copy)]
enum State {
    /// At the start of a field.
    Start,
    Plain,
    Quoted,
    /// Behind a quote within quotes: the end of the field, or the first of two.
    Quote,
}

#[derive(Default)]
struct Counted {
    is_quoted: bool,
    whole: u64,
    records: u64,
}

impl Scan {
    fn begin(at: u64) -> Self {
        let counted = Counted { whole: at, ..Counted::default() };
        Self { at, state: State::Start, whole: at, records: 0, offence: None, zeros: None, is_at_hole: false, counted }
    }

    fn feed(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.count(*byte);
            if self.offence.is_none() {
                self.look_for_hole(*byte);
                if self.is_at_hole {
                    return;
                }
                self.step(*byte);
            }
            self.at += 1;
        }
    }

    fn count(&mut self, byte: u8) {
        let counted = &mut self.counted;
        match byte {
            b'"' => counted.is_quoted = !counted.is_quoted,
            b'\n' if !counted.is_quoted => {
                counted.whole = self.at + 1;
                counted.records += 1;
            }
            _ => {}
        }
    }

    fn look_for_hole(&mut self, byte: u8) {
        if byte != 0 {
            self.zeros = None;
            return;
        }
        if self.at.is_multiple_of(SECTOR_BYTES) || self.at == self.whole {
            self.zeros = self.zeros.or(Some(self.at));
        }
        self.is_at_hole = self.zeros.is_some() && (self.at + 1).is_multiple_of(SECTOR_BYTES);
    }

    fn step(&mut self, byte: u8) {
        self.state = match (self.state, byte) {
            (State::Start | State::Plain | State::Quote, b'\n') => {
                self.whole = self.at + 1;
                self.records += 1;
                State::Start
            }
            (State::Start | State::Plain | State::Quote, b',') => State::Start,
            (State::Start | State::Quote, b'"') | (State::Quoted, 1..=b'!' | b'#'..) | (State::Quoted, 0) => {
                State::Quoted
            }
            (State::Quoted, b'"') => State::Quote,
            // Others end their lines like this; and a hole may begin anywhere in the last sector.
            (State::Quote, b'\r' | 0) => State::Plain,
            (State::Plain, b'"') | (State::Quote, _) => {
                self.offence = Some(self.at);
                State::Plain
            }
            (State::Start | State::Plain, _) => State::Plain,
        };
    }

    fn end(self) -> Scanned {
        let Self { at, whole, records, offence, counted, .. } = self;
        if offence.is_some() && counted.whole == at {
            return Scanned { whole: counted.whole, records: counted.records, offence };
        }
        Scanned { whole, records, offence }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::sink::csv::encode::encode;

    fn scan_bytes(bytes: &[u8]) -> Scanned {
        let read = |part: &mut [u8], at: u64| {
            let rest = &bytes[at as usize..];
            let length = part.len().min(rest.len());
            part[..length].copy_from_slice(&rest[..length]);
            Ok(length)
        };
        scan(0, bytes.len() as u64, read).unwrap()
    }

    #[test]
    fn a_torn_record_is_behind_the_whole_ones() {
        for (text, whole, records) in [
            ("", 0, 0),
            ("a,b\n", 4, 1),
            ("a,b\nc", 4, 1),
            ("a\n\"b\nc", 2, 1),
            ("a\n\"b\nc\"", 2, 1),
            ("a\n\"b\nc\"\n", 8, 2),
            ("\"\"\"\n\"\n", 6, 1),
            ("a\r\n\"b\"\r\n", 8, 2),
        ] {
            assert_eq!(scan_bytes(text.as_bytes()), Scanned { whole, records, offence: None }, "{text:?}");
        }
    }

    #[test]
    fn a_quote_that_nobody_writes_there_is_an_offence() {
        for (text, whole, offence) in [("a\nb\"c\nd\n", 2, 3), ("a\n\"b\"c\n\"", 2, 5)] {
            let scanned = scan_bytes(text.as_bytes());
            assert_eq!((scanned.whole, scanned.offence), (whole, Some(offence)), "{text:?}");
        }
        let of_others = scan_bytes(b"a\n5\"\",b\"c\"\nd\n");
        assert_eq!((of_others.whole, of_others.records), (13, 3), "it has as many quotes as it takes");
    }

    #[test]
    fn what_is_behind_a_hole_is_torn_whatever_it_is() {
        for record in [&b"a,b\n"[..], b"a,\"b\"\n"] {
            let mut bytes = record.repeat(200);
            let end = bytes.len() - bytes.len() % 512 + 512;
            bytes.truncate(end - 512 - (end - 512) % record.len());
            let whole = bytes.len() as u64;
            bytes.resize(end, 0);
            bytes.extend_from_slice(b"x\"y\n\"\n");
            let scanned = scan_bytes(&bytes);
            assert_eq!((scanned.whole, scanned.offence), (whole, None));
        }
    }

    proptest! {
        #[test]
        fn wherever_rows_are_torn_the_whole_ones_are_found(
            rows in prop::collection::vec(("[ab\",\r\n]{0,6}", "[ab\",\r\n]{0,6}"), 1..8),
            torn in any::<prop::sample::Index>(),
            zeros in 0..9_usize,
        ) {
            let ends: Vec<usize> = (0..=rows.len()).map(|n| encode(&rows[..n]).unwrap().len()).collect();
            let bytes = encode(&rows).unwrap();
            let cut = torn.index(bytes.len() + 1);
            let whole = ends.iter().rposition(|end| *end <= cut).unwrap();
            let left = [&bytes[..cut], &vec![0; zeros]].concat();
            let expected = Scanned { whole: ends[whole] as u64, records: whole as u64, offence: None };
            prop_assert_eq!(scan_bytes(&left), expected);
        }
    }
}
