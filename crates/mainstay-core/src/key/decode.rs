use std::borrow::Cow;

use serde::de::{self, DeserializeSeed, IntoDeserializer, Visitor};

use super::fault::Fault;
use super::{KEY_DEPTH_MAX, tag};

/// Reads a key, and refuses bytes that the encoder does not write.
#[derive(Debug)]
pub(super) struct Decoder<'de> {
    rest: &'de [u8],
    depth_left: u16,
    has_variant: bool,
}

impl<'de> Decoder<'de> {
    pub(super) fn new(bytes: &'de [u8]) -> Self {
        Self { rest: bytes, depth_left: KEY_DEPTH_MAX, has_variant: false }
    }

    /// Fails if bytes are left. True if there is a variant of an enum in the key.
    pub(super) fn finish(self) -> Result<bool, Fault> {
        match self.rest.first() {
            None => Ok(self.has_variant),
            Some(next) => Err(Fault::invalid(format_args!("expected the end of the key, found {}", tag::name(*next)))),
        }
    }

    /// The tag of the next element, unless the key ends here.
    pub(super) fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    fn take(&mut self, length: usize) -> Result<&'de [u8], Fault> {
        let Some((taken, rest)) = self.rest.split_at_checked(length) else {
            return Err(Fault::corrupt("it ends inside an element"));
        };
        self.rest = rest;
        Ok(taken)
    }

    pub(super) fn tag(&mut self, expected: &dyn de::Expected) -> Result<u8, Fault> {
        let Some((tag, rest)) = self.rest.split_first() else {
            return Err(Fault::invalid(format_args!("expected {expected}, found the end of the key")));
        };
        self.rest = rest;
        Ok(*tag)
    }

    fn mismatch(expected: &dyn de::Expected, found: u8) -> Fault {
        Fault::invalid(format_args!("expected {expected}, found {}", tag::name(found)))
    }

    fn expect(&mut self, wanted: u8, expected: &dyn de::Expected) -> Result<(), Fault> {
        match self.tag(expected)? {
            tag if tag == wanted => Ok(()),
            tag => Err(Self::mismatch(expected, tag)),
        }
    }

    /// Reads an integer as its sign and its distance from zero.
    pub(super) fn integer(&mut self, expected: &dyn de::Expected) -> Result<(bool, u128), Fault> {
        let tag = self.tag(expected)?;
        let length = tag.abs_diff(tag::ZERO);
        if length > tag::INTEGER_BYTES_MAX {
            return Err(Self::mismatch(expected, tag));
        }
        let is_negative = tag < tag::ZERO;
        let bytes = self.take(usize::from(length))?;
        let flip = if is_negative { u8::MAX } else { 0 };
        if bytes.first().is_some_and(|first| first ^ flip == 0) {
            return Err(Fault::corrupt("an integer is longer than it needs to be"));
        }
        let distance = bytes.iter().fold(0u128, |distance, byte| distance << 8 | u128::from(byte ^ flip));
        Ok((is_negative, distance))
    }

    fn visit_integer<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, Fault> {
        let (is_negative, distance) = self.integer(&visitor)?;
        if !is_negative {
            return match u64::try_from(distance) {
                Ok(value) => visitor.visit_u64(value),
                Err(_) => visitor.visit_u128(distance),
            };
        }
        let Some(value) = 0i128.checked_sub_unsigned(distance) else {
            // The encoder writes none: the least integer there is, is that of 128 bits.
            return Err(Fault::corrupt("an integer is less than 128 bits can hold"));
        };
        match i64::try_from(value) {
            Ok(value) => visitor.visit_i64(value),
            Err(_) => visitor.visit_i128(value),
        }
    }

    /// Reads a character, whose tag has been read.
    pub(super) fn letter(&mut self) -> Result<char, Fault> {
        let number = self.take(3)?.iter().fold(0, |number, byte| number << 8 | u32::from(*byte));
        char::from_u32(number).ok_or_else(|| Fault::corrupt(format_args!("{number:#x} is no character")))
    }

    /// Reads a string or bytes, whose tag has been read.
    pub(super) fn escaped(&mut self) -> Result<Cow<'de, [u8]>, Fault> {
        let mut value = Cow::Borrowed(&[][..]);
        loop {
            let Some(place) = self.rest.iter().position(|byte| *byte <= tag::ESCAPE) else {
                return Err(Fault::corrupt("a string or bytes have no end"));
            };
            let part = self.take(place)?;
            match value.is_empty() {
                true => value = Cow::Borrowed(part),
                false => value.to_mut().extend_from_slice(part),
            }
            if self.take(1)? == [tag::END] {
                return Ok(value);
            }
            match self.take(1)? {
                [byte @ 1..=2] => value.to_mut().push(byte - 1),
                _ => return Err(Fault::corrupt("a byte is escaped that needs no escape")),
            }
        }
    }

    pub(super) fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, Fault>) -> Result<T, Fault> {
        self.depth_left = self.depth_left.checked_sub(1).ok_or_else(Fault::too_deep)?;
        let value = read(self)?;
        self.depth_left += 1;
        Ok(value)
    }

    fn visit_places<V: Visitor<'de>>(&mut self, count: usize, visitor: V) -> Result<V::Value, Fault> {
        self.deeper(|decoder| visitor.visit_seq(Places { decoder, count, names: &[], next: 0 }))
    }

    fn visit_fields<V: Visitor<'de>>(&mut self, names: &'static [&'static str], visitor: V) -> Result<V::Value, Fault> {
        self.deeper(|decoder| visitor.visit_seq(Places { decoder, count: names.len(), names, next: 0 }))
    }
}

macro_rules! integers {
    ($($method:ident),*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
            self.visit_integer(visitor)
        }
    )*};
}

macro_rules! refused {
    ($what:literal, $($method:ident),*) => {$(
        fn $method<V: Visitor<'de>>(self, _visitor: V) -> Result<V::Value, Fault> {
            Err(Fault::invalid(concat!($what, " are refused in keys")))
        }
    )*};
}

impl<'de> de::Deserializer<'de> for &mut Decoder<'de> {
    type Error = Fault;

    fn is_human_readable(&self) -> bool {
        false
    }

    integers!(
        deserialize_i8,
        deserialize_i16,
        deserialize_i32,
        deserialize_i64,
        deserialize_i128,
        deserialize_u8,
        deserialize_u16,
        deserialize_u32,
        deserialize_u64,
        deserialize_u128
    );
    refused!("floating point numbers", deserialize_f32, deserialize_f64);
    refused!("maps and flattened fields", deserialize_map);
    refused!("types that must see the data to know what they are", deserialize_any, deserialize_ignored_any);

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.tag(&visitor)? {
            tag::FALSE => visitor.visit_bool(false),
            tag::TRUE => visitor.visit_bool(true),
            tag => Err(Decoder::mismatch(&visitor, tag)),
        }
    }

    fn deserialize_char<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.expect(tag::LETTER, &visitor)?;
        visitor.visit_char(self.letter()?)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.expect(tag::TEXT, &visitor)?;
        let damaged = |_| Fault::corrupt("a string is not UTF-8");
        match self.escaped()? {
            Cow::Borrowed(text) => visitor.visit_borrowed_str(std::str::from_utf8(text).map_err(damaged)?),
            Cow::Owned(text) => {
                visitor.visit_string(String::from_utf8(text).map_err(|error| damaged(error.utf8_error()))?)
            }
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_str(visitor)
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.expect(tag::BYTES, &visitor)?;
        match self.escaped()? {
            Cow::Borrowed(bytes) => visitor.visit_borrowed_bytes(bytes),
            Cow::Owned(bytes) => visitor.visit_byte_buf(bytes),
        }
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_bytes(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.tag(&visitor)? {
            tag::NONE => visitor.visit_none(),
            tag::SOME => self.deeper(|decoder| visitor.visit_some(decoder)),
            tag => Err(Decoder::mismatch(&visitor, tag)),
        }
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_unit()
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(self, _name: &'static str, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_unit()
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _name: &'static str, visitor: V) -> Result<V::Value, Fault> {
        self.deeper(|decoder| visitor.visit_newtype_struct(decoder))
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.expect(tag::LIST, &visitor)?;
        self.deeper(|decoder| {
            let mut list = List { decoder, has_ended: false, next: 0 };
            let value = visitor.visit_seq(&mut list)?;
            if !list.has_ended {
                list.decoder.expect(tag::END, &"the end of a list")?;
            }
            Ok(value)
        })
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, length: usize, visitor: V) -> Result<V::Value, Fault> {
        self.visit_places(length, visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        length: usize,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.visit_places(length, visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.visit_fields(fields, visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.expect(tag::VARIANT, &visitor)?;
        let (is_negative, index) = self.integer(&visitor)?;
        let Some(index) = u32::try_from(index).ok().filter(|_| !is_negative) else {
            return Err(Fault::corrupt("the number of a variant is out of range"));
        };
        self.has_variant = true;
        self.deeper(|decoder| visitor.visit_enum(Variant { decoder, index }))
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.visit_integer(visitor)
    }
}

/// The elements of a tuple or a struct that are still to come.
struct Places<'d, 'de> {
    decoder: &'d mut Decoder<'de>,
    count: usize,
    /// The names of the fields, if it is a struct.
    names: &'static [&'static str],
    next: usize,
}

impl<'de> de::SeqAccess<'de> for Places<'_, 'de> {
    type Error = Fault;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Fault> {
        let place = self.next;
        if place == self.count {
            return Ok(None);
        }
        self.next += 1;
        let value = seed.deserialize(&mut *self.decoder);
        value.map(Some).map_err(|fault| fault.inside(place, self.names.get(place).copied()))
    }
}

/// The elements of a list that are still to come.
struct List<'d, 'de> {
    decoder: &'d mut Decoder<'de>,
    has_ended: bool,
    next: usize,
}

impl<'de> de::SeqAccess<'de> for &mut List<'_, 'de> {
    type Error = Fault;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Fault> {
        if self.has_ended {
            return Ok(None);
        }
        match self.decoder.rest.split_first() {
            Some((&tag::END, rest)) => {
                self.decoder.rest = rest;
                self.has_ended = true;
                Ok(None)
            }
            Some(_) => {
                let before = self.decoder.rest.len();
                let place = self.next;
                self.next += 1;
                let value = seed.deserialize(&mut *self.decoder).map_err(|fault| fault.inside(place, None))?;
                if self.decoder.rest.len() == before {
                    return Err(Fault::invalid("elements of a list in a key must not be empty tuples"));
                }
                Ok(Some(value))
            }
            None => Err(Fault::corrupt("a list has no end")),
        }
    }
}

/// An enum's variant, whose number has been read.
struct Variant<'d, 'de> {
    decoder: &'d mut Decoder<'de>,
    index: u32,
}

impl<'de> de::EnumAccess<'de> for Variant<'_, 'de> {
    type Error = Fault;
    type Variant = Self;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self), Fault> {
        let variant = seed.deserialize(IntoDeserializer::<Fault>::into_deserializer(self.index))?;
        Ok((variant, self))
    }
}

impl<'de> de::VariantAccess<'de> for Variant<'_, 'de> {
    type Error = Fault;

    fn unit_variant(self) -> Result<(), Fault> {
        Ok(())
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, Fault> {
        seed.deserialize(self.decoder)
    }

    fn tuple_variant<V: Visitor<'de>>(self, length: usize, visitor: V) -> Result<V::Value, Fault> {
        self.decoder.visit_places(length, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(self, fields: &'static [&'static str], visitor: V) -> Result<V::Value, Fault> {
        self.decoder.visit_fields(fields, visitor)
    }
}
