use serde::Serialize;
use serde::de::DeserializeOwned;

use super::limits::Limits;
use super::wire::{Head, Opening, Reader, write_text};
use super::{Error, ErrorKind, Result};

/// The most fields of a record that is read field by field.
pub const RECORD_FIELDS_MAX: usize = 256;

/// Writes a record field by field, for who has the fields and no type of them: the arguments of a call. What it writes is what
/// [`encode`](super::encode) writes for a struct with these fields.
///
/// ```
/// use mainstay_core::contract::{self, RecordReader, RecordWriter};
///
/// let mut writer = RecordWriter::new(2);
/// writer.field("sku", "chair")?;
/// writer.field("price", &40_u32)?;
/// let bytes = writer.finish();
///
/// let mut reader = RecordReader::new(&bytes)?;
/// assert_eq!(reader.take::<u32>("price")?, Some(40));
/// assert_eq!(reader.take::<u32>("weight")?, None);
/// # Ok::<(), mainstay_core::Error>(())
/// ```
#[derive(Debug)]
pub struct RecordWriter {
    out: Vec<u8>,
}

impl RecordWriter {
    /// A record with so many fields, each of which is to be written.
    pub fn new(fields: usize) -> Self {
        let mut out = Vec::new();
        Opening::map(fields).write(&mut out);
        Self { out }
    }

    /// Writes the next field.
    ///
    /// # Errors
    /// As [`encode`](super::encode); `TooLarge` if the record becomes larger than a value may be.
    pub fn field<T: ?Sized + Serialize>(&mut self, name: &str, value: &T) -> Result<()> {
        write_text(&mut self.out, name.as_bytes());
        Limits::DEFAULT.encode_into(&mut self.out, value)?;
        let bytes_max = Limits::DEFAULT.bytes();
        if self.out.len() > bytes_max {
            return Err(Error::new(
                ErrorKind::TooLarge,
                format!("record of {} bytes up to field {name:?} exceeds {bytes_max} bytes: split it", self.out.len()),
            ));
        }
        Ok(())
    }

    /// The bytes of the record.
    pub fn finish(self) -> Vec<u8> {
        self.out
    }
}

/// Reads a record field by field. Fields that are not asked for are skipped.
#[derive(Debug)]
pub struct RecordReader<'b> {
    /// The fields that were not taken, each with its encoded value.
    fields: Vec<(&'b str, &'b [u8])>,
}

impl<'b> RecordReader<'b> {
    /// The record of these bytes.
    ///
    /// # Errors
    /// `Corrupt` if they are none, or have a field twice; `TooLarge` for more than [`RECORD_FIELDS_MAX`] fields, or more bytes
    /// than a value may have.
    pub fn new(bytes: &'b [u8]) -> Result<Self> {
        if bytes.len() > Limits::DEFAULT.bytes() {
            let (bytes, bytes_max) = (bytes.len(), Limits::DEFAULT.bytes());
            return Err(Error::new(ErrorKind::TooLarge, format!("record of {bytes} bytes exceeds {bytes_max} bytes")));
        }
        let broken = || Error::corrupt("a record of fields is damaged: it was not read");
        let mut reader = Reader::new(bytes, 0);
        let Ok(Head::Map(count)) = reader.head() else { return Err(broken()) };
        if count > RECORD_FIELDS_MAX {
            return Err(Error::new(
                ErrorKind::TooLarge,
                format!("record of {count} fields exceeds RECORD_FIELDS_MAX of {RECORD_FIELDS_MAX}"),
            ));
        }
        let mut fields: Vec<(&str, &[u8])> = Vec::with_capacity(count);
        for _ in 0..count {
            let Ok(Head::Text(name)) = reader.head() else { return Err(broken()) };
            let name = std::str::from_utf8(name).map_err(|_| broken())?;
            let start = reader.at;
            reader.skip(Limits::DEFAULT.depth()).map_err(|_| broken())?;
            let value = bytes.get(start..reader.at).ok_or_else(broken)?;
            if fields.iter().any(|(known, _)| *known == name) {
                return Err(Error::corrupt(format!("a record has field {name:?} twice: it was not read")));
            }
            fields.push((name, value));
        }
        if reader.left() > 0 {
            return Err(broken());
        }
        Ok(Self { fields })
    }

    /// The value of a field; `None` if the record does not have it.
    ///
    /// # Errors
    /// As [`decode`](super::decode), with the name of the field.
    pub fn take<T: DeserializeOwned>(&mut self, name: &str) -> Result<Option<T>> {
        let Some(at) = self.fields.iter().position(|(known, _)| *known == name) else { return Ok(None) };
        let (_, value) = self.fields.swap_remove(at);
        super::decode(value).map(Some).map_err(|error| error.about(format_args!("field `{name}`")))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde::Deserialize;

    use super::*;
    use crate::contract;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Order {
        sku: String,
        price: Option<u32>,
        parts: Vec<(u8, String)>,
    }

    fn written(order: &Order) -> Vec<u8> {
        let mut writer = RecordWriter::new(3);
        writer.field("sku", &order.sku).unwrap();
        writer.field("price", &order.price).unwrap();
        writer.field("parts", &order.parts).unwrap();
        writer.finish()
    }

    fn order() -> Order {
        Order { sku: "chair".into(), price: Some(40), parts: vec![(4, "leg".into())] }
    }

    #[test]
    fn a_record_is_a_struct_in_the_same_bytes() {
        assert_eq!(written(&order()), contract::encode(&order()).unwrap());
        let bytes = written(&order());
        let mut reader = RecordReader::new(&bytes).unwrap();
        assert_eq!(reader.take::<Vec<(u8, String)>>("parts").unwrap().unwrap(), order().parts);
        assert_eq!(reader.take::<Option<u32>>("price").unwrap().unwrap(), Some(40));
        assert_eq!(reader.take::<u32>("parts").unwrap(), None);
        let error = reader.take::<u64>("sku").unwrap_err();
        assert!(error.to_string().starts_with("field `sku`: "), "{error}");
    }

    #[test]
    fn damaged_and_boundless_records_are_refused() {
        let bytes = written(&order());
        for length in 0..bytes.len() {
            assert!(RecordReader::new(&bytes[..length]).is_err(), "cut off at {length}");
        }
        assert!(RecordReader::new(&[&bytes[..], b"\x01"].concat()).is_err());
        let mut twice = RecordWriter::new(2);
        twice.field("a", &1).unwrap();
        twice.field("a", &2).unwrap();
        let error = RecordReader::new(&twice.finish()).unwrap_err();
        assert_eq!((error.kind(), error.to_string().contains("twice")), (ErrorKind::Corrupt, true));
        let mut many = RecordWriter::new(RECORD_FIELDS_MAX + 1);
        (0..=RECORD_FIELDS_MAX).for_each(|number| many.field(&number.to_string(), &()).unwrap());
        assert_eq!(RecordReader::new(&many.finish()).unwrap_err().kind(), ErrorKind::TooLarge);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            if let Ok(mut reader) = RecordReader::new(&bytes) {
                let names: Vec<_> = reader.fields.iter().map(|(name, _)| (*name).to_owned()).collect();
                for name in names {
                    let _ = reader.take::<String>(&name);
                }
            }
        }
    }
}
