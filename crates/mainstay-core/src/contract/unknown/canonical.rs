use super::Canonical;
use crate::contract::fault::Fault;
use crate::contract::limits::Limits;
use crate::contract::wire::{
    Head, NIL, Opening, Reader, write_binary, write_marked, write_signed, write_text, write_unsigned,
};

/// The canonical form of the value at `at`: shortest heads, and map entries in the order of their keys.
pub(super) fn canonical(bytes: &[u8], at: usize) -> Result<Canonical, Fault> {
    let mut out = Vec::new();
    append(&mut Reader::new(bytes, at), &mut out)?;
    Ok(out)
}

fn append(reader: &mut Reader<'_>, out: &mut Vec<u8>) -> Result<(), Fault> {
    let start = reader.at;
    match reader.head()? {
        Head::Nil => out.push(NIL),
        Head::Bool(value) => out.push(if value { 0xc3 } else { 0xc2 }),
        Head::Unsigned(value) => write_unsigned(out, value),
        Head::Signed(value) => write_signed(out, value),
        Head::F32(value) => write_marked(out, 0xca, value.to_be_bytes()),
        Head::F64(value) => write_marked(out, 0xcb, value.to_be_bytes()),
        Head::Text(text) => write_text(out, text),
        Head::Binary(bytes) => write_binary(out, bytes),
        Head::Extension(..) => out.extend_from_slice(&reader.bytes[start..reader.at]),
        Head::Array(count) => {
            Opening::array(count).write(out);
            for _ in 0..count {
                append(reader, out)?;
            }
        }
        Head::Map(count) => {
            let mut entries = Vec::with_capacity(count);
            for _ in 0..count {
                let mut entry = Vec::new();
                append(reader, &mut entry)?;
                append(reader, &mut entry)?;
                entries.push(entry);
            }
            // No key is the beginning of another one, so the order of entries is the order of keys.
            entries.sort_unstable();
            Opening::map(entries.len()).write(out);
            for entry in entries {
                out.extend_from_slice(&entry);
            }
        }
    }
    Ok(())
}

/// An entry of an encoded map.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) name: Canonical,
    /// Where the key starts.
    pub(super) key: usize,
    /// Where the value starts.
    pub(super) value: usize,
    /// Where the next entry starts.
    pub(super) end: usize,
}

/// The entries of the map at `reader`, whose head has been read.
pub(super) fn entries(reader: &mut Reader<'_>, count: usize) -> Result<Vec<Entry>, Fault> {
    let mut entries = Vec::with_capacity(count);
    for _ in 0..count {
        let key = reader.at;
        let mut name = Vec::new();
        append(reader, &mut name)?;
        let value = reader.at;
        reader.skip(Limits::DEPTH_CEILING)?;
        entries.push(Entry { name, key, value, end: reader.at });
    }
    Ok(entries)
}

/// Where each element of the array at `reader`, whose head has been read, starts.
pub(super) fn elements(reader: &mut Reader<'_>, count: usize) -> Result<Vec<usize>, Fault> {
    let mut starts = Vec::with_capacity(count);
    for _ in 0..count {
        starts.push(reader.at);
        reader.skip(Limits::DEPTH_CEILING)?;
    }
    Ok(starts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_share_one_form_whatever_their_bytes_are() {
        // {"a": 1, "b": [-1]} with short heads, and with long ones in the other order.
        let short = [0x82, 0xa1, b'a', 0x01, 0xa1, b'b', 0x91, 0xff];
        let long = [
            0xdf, 0, 0, 0, 2, 0xd9, 1, b'b', 0xdd, 0, 0, 0, 1, 0xd3, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
            0xda, 0, 1, b'a', 0xd2, 0, 0, 0, 1,
        ];
        assert_eq!(canonical(&short, 0).unwrap(), short);
        assert_eq!(canonical(&long, 0).unwrap(), short);
    }
}
