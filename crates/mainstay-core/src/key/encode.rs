use serde::ser::{self, Serialize};

use super::fault::Fault;
use super::{KEY_BYTES_MAX, KEY_DEPTH_MAX, tag};

/// Writes a key at the end of a buffer.
#[derive(Debug)]
pub(super) struct Encoder<'a> {
    out: &'a mut Vec<u8>,
    /// The length that the buffer must not exceed.
    end_max: usize,
    depth_left: u16,
}

impl<'a> Encoder<'a> {
    pub(super) fn new(out: &'a mut Vec<u8>) -> Self {
        let end_max = out.len().saturating_add(KEY_BYTES_MAX);
        Self { out, end_max, depth_left: KEY_DEPTH_MAX }
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        if bytes.len() > self.end_max - self.out.len() {
            return Err(Fault::too_long());
        }
        self.out.extend_from_slice(bytes);
        Ok(())
    }

    fn escaped(&mut self, tag: u8, bytes: &[u8]) -> Result<(), Fault> {
        self.put(&[tag])?;
        let mut rest = bytes;
        while let Some(place) = to_escape(rest) {
            self.put(&rest[..place])?;
            self.put(&[tag::ESCAPE, rest[place] + 1])?;
            rest = &rest[place + 1..];
        }
        self.put(rest)?;
        self.put(&[tag::END])
    }

    fn integer(&mut self, is_negative: bool, distance: u128) -> Result<(), Fault> {
        let bytes = distance.to_be_bytes();
        let length = tag::INTEGER_BYTES_MAX - (distance.leading_zeros() / 8) as u8;
        let significant = &bytes[bytes.len() - usize::from(length)..];
        if is_negative {
            self.put(&[tag::ZERO - length])?;
            return significant.iter().try_for_each(|byte| self.put(&[!byte]));
        }
        self.put(&[tag::ZERO + length])?;
        self.put(significant)
    }

    fn variant(&mut self, index: u32) -> Result<(), Fault> {
        self.put(&[tag::VARIANT])?;
        self.integer(false, u128::from(index))
    }

    fn deeper(&mut self) -> Result<(), Fault> {
        self.depth_left = self.depth_left.checked_sub(1).ok_or_else(Fault::too_deep)?;
        Ok(())
    }

    fn inside<T: ?Sized + Serialize>(&mut self, value: &T) -> Result<(), Fault> {
        self.deeper()?;
        value.serialize(&mut *self)?;
        self.depth_left += 1;
        Ok(())
    }

    fn open(&mut self, is_list: bool) -> Result<Open<'_, 'a>, Fault> {
        self.deeper()?;
        Ok(Open { encoder: self, is_list })
    }
}

/// Where the first byte is that must be escaped.
#[inline]
fn to_escape(bytes: &[u8]) -> Option<usize> {
    const LOW: u64 = u64::from_ne_bytes([0x01; 8]);
    const HIGH: u64 = u64::from_ne_bytes([0x80; 8]);
    const FIRST_KEPT: u64 = tag::ESCAPE as u64 + 1;
    // Most texts have none: whole words are passed over as long as no byte of theirs is below the first that is kept.
    let has_none = |word: &&[u8; 8]| {
        let word = u64::from_ne_bytes(**word);
        word.wrapping_sub(LOW * FIRST_KEPT) & !word & HIGH == 0
    };
    let passed = 8 * bytes.as_chunks::<8>().0.iter().take_while(has_none).count();
    let place = bytes[passed..].iter().position(|byte| *byte <= tag::ESCAPE)?;
    Some(passed + place)
}

/// A tuple, struct or list whose elements are being written.
#[derive(Debug)]
pub(super) struct Open<'e, 'a> {
    encoder: &'e mut Encoder<'a>,
    is_list: bool,
}

impl Open<'_, '_> {
    fn element<T: ?Sized + Serialize>(&mut self, value: &T) -> Result<(), Fault> {
        let start = self.encoder.out.len();
        value.serialize(&mut *self.encoder)?;
        if self.is_list && self.encoder.out.len() == start {
            return Err(Fault::invalid(
                "elements of a list in a key must not be empty tuples: they could not be counted",
            ));
        }
        Ok(())
    }

    fn close(self) -> Result<(), Fault> {
        self.encoder.depth_left += 1;
        match self.is_list {
            true => self.encoder.put(&[tag::END]),
            false => Ok(()),
        }
    }

    fn skipped(&self, name: &'static str) -> Fault {
        Fault::invalid(format_args!(
            "field `{name}` is left out, but fields of a key are told apart by their places: remove its \
             skip_serializing_if"
        ))
    }
}

macro_rules! integers {
    (signed $($method:ident: $type:ty),*; unsigned $($unsigned:ident: $unsigned_type:ty),*) => {
        $(fn $method(self, value: $type) -> Result<(), Fault> {
            self.integer(value < 0, u128::from(value.unsigned_abs()))
        })*
        $(fn $unsigned(self, value: $unsigned_type) -> Result<(), Fault> {
            self.integer(false, u128::from(value))
        })*
    };
}

impl<'e, 'a> ser::Serializer for &'e mut Encoder<'a> {
    type Ok = ();
    type Error = Fault;
    type SerializeSeq = Open<'e, 'a>;
    type SerializeTuple = Open<'e, 'a>;
    type SerializeTupleStruct = Open<'e, 'a>;
    type SerializeTupleVariant = Open<'e, 'a>;
    type SerializeMap = ser::Impossible<(), Fault>;
    type SerializeStruct = Open<'e, 'a>;
    type SerializeStructVariant = Open<'e, 'a>;

    fn is_human_readable(&self) -> bool {
        false
    }

    integers!(
        signed serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64, serialize_i128: i128;
        unsigned serialize_u8: u8, serialize_u16: u16, serialize_u32: u32, serialize_u64: u64, serialize_u128: u128
    );

    fn serialize_bool(self, value: bool) -> Result<(), Fault> {
        self.put(&[if value { tag::TRUE } else { tag::FALSE }])
    }

    fn serialize_f32(self, value: f32) -> Result<(), Fault> {
        self.serialize_f64(f64::from(value))
    }

    fn serialize_f64(self, _value: f64) -> Result<(), Fault> {
        Err(Fault::invalid(
            "floating point numbers are refused in keys, because NaN has no order and 0.0 == -0.0 would be two keys: \
             use an integer of the smallest unit",
        ))
    }

    fn serialize_char(self, value: char) -> Result<(), Fault> {
        let [_, a, b, c] = u32::from(value).to_be_bytes();
        self.put(&[tag::LETTER, a, b, c])
    }

    fn serialize_str(self, value: &str) -> Result<(), Fault> {
        self.escaped(tag::TEXT, value.as_bytes())
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<(), Fault> {
        self.escaped(tag::BYTES, value)
    }

    fn serialize_none(self) -> Result<(), Fault> {
        self.put(&[tag::NONE])
    }

    fn serialize_some<T: ?Sized + Serialize>(self, value: &T) -> Result<(), Fault> {
        self.put(&[tag::SOME])?;
        self.inside(value)
    }

    fn serialize_unit(self) -> Result<(), Fault> {
        Ok(())
    }

    fn serialize_unit_struct(self, _name: &'static str) -> Result<(), Fault> {
        Ok(())
    }

    fn serialize_unit_variant(self, _name: &'static str, index: u32, _variant: &'static str) -> Result<(), Fault> {
        self.variant(index)
    }

    fn serialize_newtype_struct<T: ?Sized + Serialize>(self, _name: &'static str, value: &T) -> Result<(), Fault> {
        self.inside(value)
    }

    fn serialize_newtype_variant<T: ?Sized + Serialize>(
        self,
        _name: &'static str,
        index: u32,
        _variant: &'static str,
        value: &T,
    ) -> Result<(), Fault> {
        self.variant(index)?;
        self.inside(value)
    }

    fn serialize_seq(self, _length: Option<usize>) -> Result<Open<'e, 'a>, Fault> {
        self.put(&[tag::LIST])?;
        self.open(true)
    }

    fn serialize_tuple(self, _length: usize) -> Result<Open<'e, 'a>, Fault> {
        self.open(false)
    }

    fn serialize_tuple_struct(self, _name: &'static str, _length: usize) -> Result<Open<'e, 'a>, Fault> {
        self.open(false)
    }

    fn serialize_tuple_variant(
        self,
        _name: &'static str,
        index: u32,
        _variant: &'static str,
        _length: usize,
    ) -> Result<Open<'e, 'a>, Fault> {
        self.variant(index)?;
        self.open(false)
    }

    fn serialize_map(self, _length: Option<usize>) -> Result<Self::SerializeMap, Fault> {
        Err(Fault::invalid(
            "maps and flattened fields are refused in keys, because their entries have no agreed order: use a list of \
             pairs",
        ))
    }

    fn serialize_struct(self, _name: &'static str, _length: usize) -> Result<Open<'e, 'a>, Fault> {
        self.open(false)
    }

    fn serialize_struct_variant(
        self,
        _name: &'static str,
        index: u32,
        _variant: &'static str,
        _length: usize,
    ) -> Result<Open<'e, 'a>, Fault> {
        self.variant(index)?;
        self.open(false)
    }
}

macro_rules! elements {
    ($($name:ident :: $method:ident),*) => {$(
        impl ser::$name for Open<'_, '_> {
            type Ok = ();
            type Error = Fault;

            fn $method<T: ?Sized + Serialize>(&mut self, value: &T) -> Result<(), Fault> {
                self.element(value)
            }

            fn end(self) -> Result<(), Fault> {
                self.close()
            }
        }
    )*};
}

elements!(
    SerializeSeq::serialize_element,
    SerializeTuple::serialize_element,
    SerializeTupleStruct::serialize_field,
    SerializeTupleVariant::serialize_field
);

macro_rules! fields {
    ($($name:ident),*) => {$(
        impl ser::$name for Open<'_, '_> {
            type Ok = ();
            type Error = Fault;

            fn serialize_field<T: ?Sized + Serialize>(&mut self, _name: &'static str, value: &T) -> Result<(), Fault> {
                self.element(value)
            }

            fn skip_field(&mut self, name: &'static str) -> Result<(), Fault> {
                Err(self.skipped(name))
            }

            fn end(self) -> Result<(), Fault> {
                self.close()
            }
        }
    )*};
}

fields!(SerializeStruct, SerializeStructVariant);
