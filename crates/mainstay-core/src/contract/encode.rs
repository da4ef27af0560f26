use serde::ser::{self, Serialize};

use super::fault::Fault;
use super::limits::Limits;
use super::wire::{NIL, Opening, write_binary, write_marked, write_signed, write_text, write_unsigned, write_wide};

/// Writes any serde value as MessagePack with field names, at the end of a buffer.
#[derive(Debug)]
pub(super) struct Encoder<'a> {
    out: &'a mut Vec<u8>,
    /// The length that the buffer must not exceed.
    end_max: usize,
    depth_left: u16,
    wraps: Wraps,
}

impl<'a> Encoder<'a> {
    #[inline]
    pub(super) fn new(out: &'a mut Vec<u8>, limits: &Limits) -> Self {
        let end_max = out.len().saturating_add(limits.bytes());
        Self { out, end_max, depth_left: limits.depth(), wraps: Wraps::default() }
    }

    /// Fails if `length` more bytes would exceed the limit. Asked before texts, bytes and elements of lists and maps;
    /// what is written between two questions is bounded by the type, and `finish` asks once more.
    #[inline]
    fn room(&self, length: usize) -> Result<(), Fault> {
        match self.out.len().saturating_add(length) > self.end_max {
            true => Err(Fault::too_large()),
            false => Ok(()),
        }
    }

    /// Fails if the value that was written is too large.
    #[inline]
    pub(super) fn finish(self) -> Result<(), Fault> {
        self.room(0)
    }

    #[inline]
    fn text(&mut self, text: &str) -> Result<(), Fault> {
        self.room(text.len())?;
        write_text(self.out, text.as_bytes());
        Ok(())
    }

    #[inline]
    fn open(&mut self, kind: Kind, declared: usize) -> Result<Open<'_, 'a>, Fault> {
        self.room(declared)?;
        self.depth_left = self.depth_left.checked_sub(1).ok_or_else(|| Fault::too_deep(0))?;
        let head = self.out.len();
        kind.opening(declared).write(self.out);
        Ok(Open { encoder: self, kind, head, declared, count: 0, levels: 1 })
    }

    /// Opens the payload of an enum variant: a map from the variant's name to it.
    fn open_variant(&mut self, variant: &'static str, kind: Kind, declared: usize) -> Result<Open<'_, 'a>, Fault> {
        self.enter_variant(variant)?;
        let mut open = self.open(kind, declared)?;
        open.levels = 2;
        Ok(open)
    }

    fn enter_variant(&mut self, variant: &'static str) -> Result<(), Fault> {
        self.depth_left = self.depth_left.checked_sub(1).ok_or_else(|| Fault::too_deep(0))?;
        Opening::map(1).write(self.out);
        self.text(variant)
    }
}

/// How often options and newtypes were opened around one value. They take no bytes, so a type that is nothing but
/// itself in an option would otherwise be followed until the stack ends.
#[derive(Debug, Default)]
pub(super) struct Wraps {
    at: usize,
    count: u16,
}

impl Wraps {
    #[inline]
    pub(super) fn enter(&mut self, at: usize) -> Result<(), Fault> {
        if self.at != at {
            *self = Self { at, count: 0 };
        }
        self.count += 1;
        match self.count > Limits::DEPTH_CEILING {
            true => Err(Fault::too_deep(at)),
            false => Ok(()),
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Array,
    Map,
}

impl Kind {
    #[inline]
    fn opening(self, count: usize) -> Opening {
        match self {
            Kind::Array => Opening::array(count),
            Kind::Map => Opening::map(count),
        }
    }
}

/// An array or a map whose elements are being written.
#[derive(Debug)]
pub(super) struct Open<'e, 'a> {
    encoder: &'e mut Encoder<'a>,
    kind: Kind,
    /// Where the head stands.
    head: usize,
    declared: usize,
    count: usize,
    levels: u16,
}

impl Open<'_, '_> {
    #[inline(always)]
    fn field<T: ?Sized + Serialize>(&mut self, name: &'static str, value: &T) -> Result<(), Fault> {
        self.count += 1;
        // Without a check: the fields of a type are few, and whatever can be many or long has its own.
        write_text(self.encoder.out, name.as_bytes());
        value.serialize(&mut *self.encoder)
    }

    #[inline]
    fn element<T: ?Sized + Serialize>(&mut self, value: &T) -> Result<(), Fault> {
        self.count += 1;
        self.encoder.room(0)?;
        value.serialize(&mut *self.encoder)
    }

    #[inline]
    fn close(self) -> Result<(), Fault> {
        self.encoder.depth_left += self.levels;
        if self.count != self.declared {
            self.correct_head();
        }
        Ok(())
    }

    /// Serde allows a length to be unknown at first (a flattened struct), and some types are wrong about theirs.
    #[cold]
    fn correct_head(self) {
        let old = self.kind.opening(self.declared).as_slice().len();
        let new = self.kind.opening(self.count);
        self.encoder.out.splice(self.head..self.head + old, new.as_slice().iter().copied());
    }
}

impl<'e, 'a> ser::Serializer for &'e mut Encoder<'a> {
    type Ok = ();
    type Error = Fault;
    type SerializeSeq = Open<'e, 'a>;
    type SerializeTuple = Open<'e, 'a>;
    type SerializeTupleStruct = Open<'e, 'a>;
    type SerializeTupleVariant = Open<'e, 'a>;
    type SerializeMap = Open<'e, 'a>;
    type SerializeStruct = Open<'e, 'a>;
    type SerializeStructVariant = Open<'e, 'a>;

    // Serde's buffer, through which flattened fields and enums without an outer tag go, always says that it is: if this did
    // not, addresses and the like would be written in one form and read in another.
    fn is_human_readable(&self) -> bool {
        true
    }

    #[inline]
    fn serialize_bool(self, value: bool) -> Result<(), Fault> {
        self.out.push(if value { 0xc3 } else { 0xc2 });
        Ok(())
    }

    #[inline]
    fn serialize_i8(self, value: i8) -> Result<(), Fault> {
        self.serialize_i64(i64::from(value))
    }

    #[inline]
    fn serialize_i16(self, value: i16) -> Result<(), Fault> {
        self.serialize_i64(i64::from(value))
    }

    #[inline]
    fn serialize_i32(self, value: i32) -> Result<(), Fault> {
        self.serialize_i64(i64::from(value))
    }

    #[inline]
    fn serialize_i64(self, value: i64) -> Result<(), Fault> {
        write_signed(self.out, value);
        Ok(())
    }

    #[inline]
    fn serialize_i128(self, value: i128) -> Result<(), Fault> {
        match (i64::try_from(value), u64::try_from(value)) {
            (Ok(value), _) => write_signed(self.out, value),
            (_, Ok(value)) => write_unsigned(self.out, value),
            _ => write_wide(self.out, value < 0, value.to_be_bytes()),
        }
        Ok(())
    }

    #[inline]
    fn serialize_u8(self, value: u8) -> Result<(), Fault> {
        self.serialize_u64(u64::from(value))
    }

    #[inline]
    fn serialize_u16(self, value: u16) -> Result<(), Fault> {
        self.serialize_u64(u64::from(value))
    }

    #[inline]
    fn serialize_u32(self, value: u32) -> Result<(), Fault> {
        self.serialize_u64(u64::from(value))
    }

    #[inline]
    fn serialize_u64(self, value: u64) -> Result<(), Fault> {
        write_unsigned(self.out, value);
        Ok(())
    }

    #[inline]
    fn serialize_u128(self, value: u128) -> Result<(), Fault> {
        match u64::try_from(value) {
            Ok(value) => write_unsigned(self.out, value),
            Err(_) => write_wide(self.out, false, value.to_be_bytes()),
        }
        Ok(())
    }

    #[inline]
    fn serialize_f32(self, value: f32) -> Result<(), Fault> {
        write_marked(self.out, 0xca, value.to_be_bytes());
        Ok(())
    }

    #[inline]
    fn serialize_f64(self, value: f64) -> Result<(), Fault> {
        write_marked(self.out, 0xcb, value.to_be_bytes());
        Ok(())
    }

    #[inline]
    fn serialize_char(self, value: char) -> Result<(), Fault> {
        self.text(value.encode_utf8(&mut [0; 4]))
    }

    #[inline]
    fn serialize_str(self, value: &str) -> Result<(), Fault> {
        self.text(value)
    }

    #[inline]
    fn serialize_bytes(self, value: &[u8]) -> Result<(), Fault> {
        self.room(value.len())?;
        write_binary(self.out, value);
        Ok(())
    }

    #[inline]
    fn serialize_none(self) -> Result<(), Fault> {
        self.serialize_unit()
    }

    #[inline]
    fn serialize_some<T: ?Sized + Serialize>(self, value: &T) -> Result<(), Fault> {
        self.wraps.enter(self.out.len())?;
        value.serialize(self)
    }

    #[inline]
    fn serialize_unit(self) -> Result<(), Fault> {
        self.out.push(NIL);
        Ok(())
    }

    fn serialize_unit_struct(self, _name: &'static str) -> Result<(), Fault> {
        Opening::array(0).write(self.out);
        Ok(())
    }

    #[inline]
    fn serialize_unit_variant(self, _name: &'static str, _index: u32, variant: &'static str) -> Result<(), Fault> {
        self.text(variant)
    }

    #[inline]
    fn serialize_newtype_struct<T: ?Sized + Serialize>(self, _name: &'static str, value: &T) -> Result<(), Fault> {
        self.wraps.enter(self.out.len())?;
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: ?Sized + Serialize>(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), Fault> {
        self.enter_variant(variant)?;
        value.serialize(&mut *self)?;
        self.depth_left += 1;
        Ok(())
    }

    fn serialize_seq(self, length: Option<usize>) -> Result<Open<'e, 'a>, Fault> {
        self.open(Kind::Array, length.unwrap_or(0))
    }

    fn serialize_tuple(self, length: usize) -> Result<Open<'e, 'a>, Fault> {
        self.open(Kind::Array, length)
    }

    fn serialize_tuple_struct(self, _name: &'static str, length: usize) -> Result<Open<'e, 'a>, Fault> {
        self.open(Kind::Array, length)
    }

    fn serialize_tuple_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        length: usize,
    ) -> Result<Open<'e, 'a>, Fault> {
        self.open_variant(variant, Kind::Array, length)
    }

    fn serialize_map(self, length: Option<usize>) -> Result<Open<'e, 'a>, Fault> {
        self.open(Kind::Map, length.unwrap_or(0))
    }

    #[inline]
    fn serialize_struct(self, _name: &'static str, length: usize) -> Result<Open<'e, 'a>, Fault> {
        self.open(Kind::Map, length)
    }

    fn serialize_struct_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        length: usize,
    ) -> Result<Open<'e, 'a>, Fault> {
        self.open_variant(variant, Kind::Map, length)
    }
}

macro_rules! elements {
    ($($name:ident :: $method:ident),*) => {$(
        impl ser::$name for Open<'_, '_> {
            type Ok = ();
            type Error = Fault;

            #[inline]
            fn $method<T: ?Sized + Serialize>(&mut self, value: &T) -> Result<(), Fault> {
                self.element(value)
            }

            #[inline]
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

            // The names are constants where this is inlined, and so are the heads before them.
            #[inline(always)]
            fn serialize_field<T: ?Sized + Serialize>(&mut self, name: &'static str, value: &T) -> Result<(), Fault> {
                self.field(name, value)
            }

            #[inline]
            fn end(self) -> Result<(), Fault> {
                self.close()
            }
        }
    )*};
}

fields!(SerializeStruct, SerializeStructVariant);

impl ser::SerializeMap for Open<'_, '_> {
    type Ok = ();
    type Error = Fault;

    #[inline]
    fn serialize_key<T: ?Sized + Serialize>(&mut self, key: &T) -> Result<(), Fault> {
        self.element(key)
    }

    #[inline]
    fn serialize_value<T: ?Sized + Serialize>(&mut self, value: &T) -> Result<(), Fault> {
        self.encoder.room(0)?;
        value.serialize(&mut *self.encoder)
    }

    #[inline]
    fn end(self) -> Result<(), Fault> {
        self.close()
    }
}
