use std::collections::BTreeMap;

use super::canonical::entries;
use crate::contract::fault::Fault;
use crate::contract::wire::{Head, Opening, Reader, write_text};

/// A change to an encoded value, made to see whether the type notices.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Edit {
    /// The entry with this value is left out of its map.
    LeaveOut,
    /// The element stands twice in its list.
    Twice,
    /// Instead of the value stands a text that no type expects.
    Nonsense,
}

/// Changes by the offset of the value that they are made to. No two values start at the same one.
pub(super) type Edits = BTreeMap<usize, Edit>;

const NONSENSE: &[u8] = b"\x00\x01 nonsense \x01\x00";

/// A copy of the encoded value `bytes` with some changes.
pub(super) fn edited(bytes: &[u8], edits: &Edits) -> Result<Vec<u8>, Fault> {
    let mut out = Vec::with_capacity(bytes.len());
    copy(&mut Reader::new(bytes, 0), edits, &mut out)?;
    Ok(out)
}

fn copy(reader: &mut Reader<'_>, edits: &Edits, out: &mut Vec<u8>) -> Result<(), Fault> {
    let start = reader.at;
    let edit = edits.get(&start);
    match reader.head()? {
        Head::Array(count) => {
            let mut written = 0;
            let mut elements = Vec::new();
            for _ in 0..count {
                let (from, at) = (elements.len(), reader.at);
                copy(reader, edits, &mut elements)?;
                written += 1;
                if edits.get(&at) == Some(&Edit::Twice) {
                    elements.extend_from_within(from..);
                    written += 1;
                }
            }
            Opening::array(written).write(out);
            out.append(&mut elements);
        }
        Head::Map(count) => {
            let entries = entries(reader, count)?;
            let end = reader.at;
            let stays = |value: usize| edits.get(&value) != Some(&Edit::LeaveOut);
            Opening::map(entries.iter().filter(|entry| stays(entry.value)).count()).write(out);
            for entry in entries.iter().filter(|entry| stays(entry.value)) {
                out.extend_from_slice(&reader.bytes[entry.key..entry.value]);
                copy(&mut Reader::new(reader.bytes, entry.value), edits, out)?;
            }
            reader.at = end;
        }
        _ if edit == Some(&Edit::Nonsense) => write_text(out, NONSENSE),
        _ => out.extend_from_slice(&reader.bytes[start..reader.at]),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_left_out_elements_repeated_and_texts_replaced() {
        // {"a": [1, "x"], "b": 2}
        let bytes = [0x82, 0xa1, b'a', 0x92, 0x01, 0xa1, b'x', 0xa1, b'b', 0x02];
        let edit = |at, edit| edited(&bytes, &Edits::from([(at, edit)])).unwrap();
        assert_eq!(edited(&bytes, &Edits::new()).unwrap(), bytes);
        assert_eq!(edit(3, Edit::LeaveOut), [0x81, 0xa1, b'b', 0x02]);
        assert_eq!(edit(4, Edit::Twice), [0x82, 0xa1, b'a', 0x93, 0x01, 0x01, 0xa1, b'x', 0xa1, b'b', 0x02]);
        let replaced = edit(5, Edit::Nonsense);
        assert_eq!((replaced.len(), &replaced[..5]), (bytes.len() - 1 + NONSENSE.len(), &bytes[..5]));
    }
}
