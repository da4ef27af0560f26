use serde::de::{self, DeserializeSeed, Unexpected, Visitor};

use super::encode::Wraps;
use super::fault::Fault;
use super::limits::Limits;
use super::wire::{Head, NIL, Reader};

/// Reads any serde value from MessagePack, and notes in passing what the type did not look at.
#[derive(Debug)]
pub(super) struct Decoder<'de> {
    reader: Reader<'de>,
    depth_left: u16,
    wraps: Wraps,
    notes: Notes,
    /// True inside a value that serde reads into a buffer first.
    buffering: bool,
    /// Where the value of the map entry that was begun last starts, and the struct it belongs to.
    entry: (usize, &'static str),
}

/// No value starts there.
const NO_ENTRY: (usize, &str) = (usize::MAX, "");

/// What a type did with the bytes it was read from, as offsets of values in them, in rising order. Empty, and so free,
/// for a type that knows all of its fields.
#[derive(Debug, Default)]
pub(super) struct Notes {
    /// Values that were skipped because the type has no use for them.
    pub(super) ignored: Vec<usize>,
    /// Values that serde read into a buffer, as it does for flattened fields and for enums without an outer tag: what
    /// was ignored inside them is not seen.
    pub(super) buffered: Vec<usize>,
    /// Values that decided the variant of an enum from inside its map.
    pub(super) tags: Vec<usize>,
    /// Maps with something unknown inside that are read as maps, and not as structs: so does serde read a struct with
    /// flattened fields.
    pub(super) flattened: Vec<usize>,
    /// Arrays with something unknown inside that are read as tuples, which keep their order.
    pub(super) tuples: Vec<usize>,
    /// Arrays, with something unknown inside, whose places have a meaning of their own.
    pub(super) positional: Vec<usize>,
}

impl Notes {
    fn something_unknown(&self) -> usize {
        self.ignored.len() + self.buffered.len()
    }
}

impl<'de> Decoder<'de> {
    pub(super) fn new(bytes: &'de [u8], limits: &Limits) -> Self {
        Self {
            reader: Reader::new(bytes, 0),
            depth_left: limits.depth(),
            wraps: Wraps::default(),
            notes: Notes::default(),
            buffering: false,
            entry: NO_ENTRY,
        }
    }

    /// Fails if bytes are left, and gives what was noted.
    pub(super) fn finish(self) -> Result<Notes, Fault> {
        match self.reader.left() {
            0 => Ok(self.notes),
            _ => Err(Fault::broken(self.reader.at, "more bytes follow the value")),
        }
    }

    #[inline]
    fn visit<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, Fault> {
        match self.reader.head()? {
            Head::Nil => visitor.visit_unit(),
            Head::Bool(value) => visitor.visit_bool(value),
            Head::Unsigned(value) => visitor.visit_u64(value),
            Head::Signed(value) => visitor.visit_i64(value),
            Head::F32(value) => visitor.visit_f32(value),
            Head::F64(value) => visitor.visit_f64(value),
            Head::Text(text) => visitor.visit_borrowed_str(self.text(text)?),
            Head::Binary(bytes) => visitor.visit_borrowed_bytes(bytes),
            Head::Array(count) => self.visit_array(count, visitor),
            Head::Map(count) => self.visit_map(count, "", visitor),
            Head::Extension(kind, bytes) => Err(Fault::mismatch(
                &visitor as &dyn de::Expected,
                format_args!("extension {kind} of {} bytes", bytes.len()),
            )),
        }
    }

    /// Reads a short string without the detour over all that could stand here: names of fields are nearly always one.
    #[inline]
    fn visit_text<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, Fault> {
        match self.reader.short_text() {
            Some(text) => visitor.visit_borrowed_str(self.text(text)?),
            None => self.visit(visitor),
        }
    }

    /// Reads a small number in the same way.
    #[inline]
    fn visit_number<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, Fault> {
        match self.reader.peek() {
            Some(number @ 0..=0x7f) => {
                self.reader.at += 1;
                visitor.visit_u64(u64::from(number))
            }
            _ => self.visit(visitor),
        }
    }

    #[inline]
    fn text(&self, text: &'de [u8]) -> Result<&'de str, Fault> {
        std::str::from_utf8(text).map_err(|_| Fault::broken(self.reader.at - text.len(), "a string is not UTF-8"))
    }

    #[inline]
    fn deeper(&mut self) -> Result<(), Fault> {
        self.depth_left = self.depth_left.checked_sub(1).ok_or_else(|| Fault::too_deep(self.reader.at - 1))?;
        Ok(())
    }

    fn visit_array<V: Visitor<'de>>(&mut self, count: usize, visitor: V) -> Result<V::Value, Fault> {
        self.deeper()?;
        let mut elements = Elements { decoder: self, left: count };
        let value = visitor.visit_seq(&mut elements)?;
        if elements.left > 0 {
            let used = count - elements.left;
            return Err(Fault::mismatch(format_args!("{used} elements"), format_args!("an array of {count}")));
        }
        self.depth_left += 1;
        Ok(value)
    }

    #[inline]
    fn visit_map<V: Visitor<'de>>(&mut self, count: usize, owner: &'static str, visitor: V) -> Result<V::Value, Fault> {
        self.deeper()?;
        let mut entries = Entries { decoder: self, left: count, owner };
        let value = visitor.visit_map(&mut entries)?;
        if entries.left > 0 {
            let used = count - entries.left;
            return Err(Fault::mismatch(format_args!("{used} entries"), format_args!("a map of {count}")));
        }
        self.depth_left += 1;
        Ok(value)
    }

    /// Reads a value and, if something unknown was found inside it, notes where it starts.
    #[inline]
    fn noting<T>(
        &mut self,
        offsets: fn(&mut Notes) -> &mut Vec<usize>,
        read: impl FnOnce(&mut Self) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let start = self.reader.at;
        let before = self.notes.something_unknown();
        let value = read(self)?;
        if self.notes.something_unknown() > before {
            // Nested ones were noted before this one, but start after it.
            let offsets = offsets(&mut self.notes);
            let place = offsets.partition_point(|other| *other < start);
            offsets.insert(place, start);
        }
        Ok(value)
    }

    /// Reads what has a fixed number of unnamed places.
    fn visit_places<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, Fault> {
        self.noting(|notes| &mut notes.positional, |decoder| de::Deserializer::deserialize_seq(decoder, visitor))
    }

    /// Reads an integer of 128 bits in its long form, if one stands here. One without a sign whose first bit is set was
    /// written when there were none, and is read as `usual`: the type that wrote it is the type that reads it.
    fn wide<V: Visitor<'de>>(&mut self, visitor: V, usual: Sign) -> Result<V::Value, Fault> {
        let start = self.reader.at;
        let Head::Binary(bytes) = self.reader.head()? else {
            self.reader.at = start;
            return self.visit(visitor);
        };
        let (sign, bytes) = match bytes {
            [0x00, rest @ ..] if rest.len() == 16 => (Sign::Unsigned, rest),
            [0xff, rest @ ..] if rest.len() == 16 => (Sign::Signed, rest),
            bytes => (usual, bytes),
        };
        match (<[u8; 16]>::try_from(bytes), sign) {
            (Ok(bytes), Sign::Unsigned) => visitor.visit_u128(u128::from_be_bytes(bytes)),
            (Ok(bytes), Sign::Signed) => visitor.visit_i128(i128::from_be_bytes(bytes)),
            (Err(_), _) => {
                Err(Fault::mismatch("an integer of 128 bits in 16 or 17 bytes", describe(&Head::Binary(bytes))))
            }
        }
    }
}

/// How the bytes of an integer are meant.
#[derive(Debug, Clone, Copy)]
enum Sign {
    Signed,
    Unsigned,
}

macro_rules! as_found {
    ($visit:ident: $($method:ident),*) => {$(
        #[inline]
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
            self.$visit(visitor)
        }
    )*};
}

impl<'de> de::Deserializer<'de> for &mut Decoder<'de> {
    type Error = Fault;

    // Serde's buffer, through which flattened fields and enums without an outer tag go, always says that it is: if this did
    // not, addresses and the like would be read in one form and written in another.
    fn is_human_readable(&self) -> bool {
        true
    }

    as_found!(
        visit_number: deserialize_i8,
        deserialize_i16,
        deserialize_i32,
        deserialize_i64,
        deserialize_u8,
        deserialize_u16,
        deserialize_u32,
        deserialize_u64
    );
    as_found!(visit_text: deserialize_char, deserialize_str, deserialize_string);
    as_found!(
        visit: deserialize_bool,
        deserialize_f32,
        deserialize_f64,
        deserialize_bytes,
        deserialize_byte_buf,
        deserialize_unit
    );

    #[inline]
    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.noting(|notes| &mut notes.flattened, |decoder| decoder.visit(visitor))
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        if self.buffering {
            return self.visit(visitor);
        }
        self.notes.buffered.push(self.reader.at);
        self.buffering = true;
        let value = self.visit(visitor);
        self.buffering = false;
        value
    }

    fn deserialize_i128<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.wide(visitor, Sign::Signed)
    }

    fn deserialize_u128<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.wide(visitor, Sign::Unsigned)
    }

    #[inline]
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        if self.reader.peek() == Some(NIL) {
            self.reader.at += 1;
            return visitor.visit_none();
        }
        self.wraps.enter(self.reader.at)?;
        visitor.visit_some(self)
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(self, _name: &'static str, visitor: V) -> Result<V::Value, Fault> {
        let start = self.reader.at;
        match self.reader.head()? {
            Head::Nil | Head::Array(0) => visitor.visit_unit(),
            _ => {
                self.reader.at = start;
                self.visit(visitor)
            }
        }
    }

    #[inline]
    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _name: &'static str, visitor: V) -> Result<V::Value, Fault> {
        self.wraps.enter(self.reader.at)?;
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let start = self.reader.at;
        match self.reader.head()? {
            Head::Array(count) => self.visit_array(count, visitor),
            // A list of bytes may have been written as bytes by a later version of the type, and is the same value.
            Head::Binary(bytes) => {
                let mut elements = de::value::SeqDeserializer::<_, Fault>::new(bytes.iter().copied());
                let value = visitor.visit_seq(&mut elements)?;
                elements.end()?;
                Ok(value)
            }
            _ => {
                self.reader.at = start;
                self.visit(visitor)
            }
        }
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _length: usize, visitor: V) -> Result<V::Value, Fault> {
        self.noting(|notes| &mut notes.tuples, |decoder| decoder.deserialize_seq(visitor))
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _length: usize,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.visit_places(visitor)
    }

    #[inline]
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let start = self.reader.at;
        match self.reader.head()? {
            Head::Map(count) => self.visit_map(count, name, visitor),
            _ => {
                self.reader.at = start;
                self.visit(visitor)
            }
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let start = self.reader.at;
        // Serde reads the tag of an adjacently tagged enum as an enum of the same name inside the struct of tag and
        // content. A struct may share its name with the enum of a field, but only a tag is called a variant.
        if self.entry == (start, name) && expects(&visitor, "variant of enum ") {
            self.notes.tags.push(start);
        }
        // What names the variant below stands where the entry's value starts as well, and is no tag.
        self.entry = NO_ENTRY;
        match self.reader.head()? {
            Head::Map(1) => {
                self.deeper()?;
                let value = visitor.visit_enum(Variant { decoder: self, has_payload: true })?;
                self.depth_left += 1;
                Ok(value)
            }
            Head::Text(_) | Head::Unsigned(_) => {
                self.reader.at = start;
                visitor.visit_enum(Variant { decoder: self, has_payload: false })
            }
            head => Err(Fault::mismatch(
                format_args!("enum {name} (a variant's name, or a map from it to its content)"),
                describe(&head),
            )),
        }
    }

    #[inline]
    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        // Keys are identifiers as a rule. A value that is one is the tag of an internally tagged enum, which serde reads
        // among what it buffers.
        if self.buffering && self.entry.0 == self.reader.at {
            self.notes.tags.push(self.reader.at);
        }
        self.visit_text(visitor)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.notes.ignored.push(self.reader.at);
        self.reader.skip(self.depth_left)?;
        visitor.visit_unit()
    }
}

/// The elements of an array that are still to come.
struct Elements<'d, 'de> {
    decoder: &'d mut Decoder<'de>,
    left: usize,
}

impl<'de> de::SeqAccess<'de> for &mut Elements<'_, 'de> {
    type Error = Fault;

    #[inline]
    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Fault> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        let start = self.decoder.reader.at;
        seed.deserialize(&mut *self.decoder).map(Some).map_err(|fault| fault.at(start))
    }

    fn size_hint(&self) -> Option<usize> {
        // Believed by serde up to a megabyte of memory, and no larger than the bytes that are left.
        Some(self.left)
    }
}

/// The entries of a map that are still to come.
struct Entries<'d, 'de> {
    decoder: &'d mut Decoder<'de>,
    left: usize,
    /// The struct that is read from the map, if it is one.
    owner: &'static str,
}

impl<'de> de::MapAccess<'de> for &mut Entries<'_, 'de> {
    type Error = Fault;

    #[inline]
    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Fault> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        let start = self.decoder.reader.at;
        seed.deserialize(&mut *self.decoder).map(Some).map_err(|fault| fault.at(start))
    }

    #[inline]
    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Fault> {
        let start = self.decoder.reader.at;
        self.decoder.entry = (start, self.owner);
        seed.deserialize(&mut *self.decoder).map_err(|fault| fault.at(start))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.left)
    }
}

/// An enum's variant: its name stands next, and its content after that if it has any.
struct Variant<'d, 'de> {
    decoder: &'d mut Decoder<'de>,
    has_payload: bool,
}

impl<'de> Variant<'_, 'de> {
    fn payload(&self, expected: &'static str) -> Result<(), Fault> {
        match self.has_payload {
            true => Ok(()),
            false => Err(de::Error::invalid_type(Unexpected::UnitVariant, &expected)),
        }
    }
}

impl<'de> de::EnumAccess<'de> for Variant<'_, 'de> {
    type Error = Fault;
    type Variant = Self;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self), Fault> {
        let variant = seed.deserialize(&mut *self.decoder)?;
        Ok((variant, self))
    }
}

impl<'de> de::VariantAccess<'de> for Variant<'_, 'de> {
    type Error = Fault;

    fn unit_variant(self) -> Result<(), Fault> {
        match self.has_payload {
            true => de::Deserialize::deserialize(self.decoder),
            false => Ok(()),
        }
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, Fault> {
        self.payload("newtype variant")?;
        let start = self.decoder.reader.at;
        seed.deserialize(&mut *self.decoder).map_err(|fault| fault.at(start))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _length: usize, visitor: V) -> Result<V::Value, Fault> {
        self.payload("tuple variant")?;
        let start = self.decoder.reader.at;
        self.decoder.visit_places(visitor).map_err(|fault| fault.at(start))
    }

    fn struct_variant<V: Visitor<'de>>(self, fields: &'static [&'static str], visitor: V) -> Result<V::Value, Fault> {
        self.payload("struct variant")?;
        let start = self.decoder.reader.at;
        de::Deserializer::deserialize_struct(self.decoder, "", fields, visitor).map_err(|fault| fault.at(start))
    }
}

#[cold]
fn expects(expected: &dyn de::Expected, start: &str) -> bool {
    expected.to_string().starts_with(start)
}

/// A found value in words, for the cases that serde does not describe itself.
fn describe(head: &Head<'_>) -> String {
    match head {
        Head::Nil => "nil".to_owned(),
        Head::Bool(value) => format!("boolean `{value}`"),
        Head::Unsigned(value) => format!("integer `{value}`"),
        Head::Signed(value) => format!("integer `{value}`"),
        Head::F32(value) => format!("floating point `{value}`"),
        Head::F64(value) => format!("floating point `{value}`"),
        Head::Text(text) => format!("string {:?}", String::from_utf8_lossy(text)),
        Head::Binary(bytes) => format!("{} bytes", bytes.len()),
        Head::Array(count) => format!("an array of {count}"),
        Head::Map(count) => format!("a map of {count}"),
        Head::Extension(kind, bytes) => format!("extension {kind} of {} bytes", bytes.len()),
    }
}
