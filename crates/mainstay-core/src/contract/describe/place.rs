use serde::de::value::StrDeserializer;
use serde::de::{self, Visitor};

use super::access::{Element, Entry, Fields, Places, Variant};
use super::probe::{Probe, Stop, Verdict};
use super::{TYPE_NAME_DEPTH_MAX, spelling};

/// The longest tuple that serde knows: what is longer is an array.
const TUPLE_PLACES_MAX: usize = 16;

/// Texts that types which check what they read may accept. More may be added at the end; none may go, because names that
/// were found by their help are stored.
const TEXTS: [&str; 10] = [
    "",
    "a",
    "0",
    "1970-01-01T00:00:00Z",
    "1970-01-01",
    "00:00:00",
    "00000000-0000-0000-0000-000000000000",
    "0.0.0",
    "a@a.aa",
    "http://a.aa/",
];

/// Lengths of bytes that may be accepted; as with [`TEXTS`], none may go.
const LENGTHS: [usize; 9] = [0, 16, 1, 4, 8, 12, 20, 32, 64];
const ZEROS: [u8; 64] = [0; 64];

/// A place in which some type is expected: it writes down what is asked for, and answers with a sample where there is
/// more to see behind it.
#[derive(Debug)]
pub(super) struct Place<'p, 'c> {
    pub(super) probe: &'p mut Probe<'c>,
    /// False inside of what has a name: there only samples are of interest.
    pub(super) is_named: bool,
    /// True if nothing that belongs to the name comes behind this place, so that no sample is needed.
    pub(super) is_last: bool,
    /// True for the key of a map.
    is_key: bool,
    depth_left: u16,
}

impl<'p, 'c> Place<'p, 'c> {
    pub(super) fn root(probe: &'p mut Probe<'c>) -> Self {
        Self { probe, is_named: true, is_last: true, is_key: false, depth_left: TYPE_NAME_DEPTH_MAX }
    }

    /// The same place for a part of what is in it.
    pub(super) fn part(&mut self, is_named: bool, is_last: bool) -> Place<'_, 'c> {
        let depth_left = match self.is_named && !is_named {
            true => self.probe.sample_depth,
            false => self.depth_left,
        };
        Place { probe: self.probe, is_named, is_last, is_key: false, depth_left }
    }

    /// The same place for the key of a map in it.
    pub(super) fn key(&mut self, is_named: bool, is_last: bool) -> Place<'_, 'c> {
        Place { is_key: true, ..self.part(is_named, is_last) }
    }

    /// Runs what asks for a part whose name belongs here.
    pub(super) fn asked<T>(&mut self, ask: impl FnOnce(&mut Self) -> Result<T, Stop>) -> Result<T, Stop> {
        let before = self.probe.name.len();
        let answer = ask(self);
        if self.is_named && self.probe.name.len() == before {
            self.probe.fail(Verdict::Silent);
        }
        answer
    }

    /// A part of a list or a map, which does without it if there is no sample: its name is known.
    pub(super) fn unless_refused<T>(&self, part: Result<T, Stop>) -> Result<Option<T>, Stop> {
        match part {
            Err(Stop) if self.probe.trouble.is_none() => Ok(None),
            part => part.map(Some),
        }
    }

    /// Counts a question. Whatever a type does, there is an end to it.
    fn count(&mut self) -> Result<(), Stop> {
        match self.probe.questions_left.checked_sub(1) {
            Some(left) => {
                *self.probe.questions_left = left;
                Ok(())
            }
            None => {
                self.probe.fail(Verdict::Unseen);
                Err(Stop)
            }
        }
    }

    /// Counts a question and opens what has a name made of parts.
    fn open(&mut self, opening: &str) -> Result<(), Stop> {
        self.count()?;
        let Some(left) = self.depth_left.checked_sub(1) else {
            if self.is_named {
                self.probe.fail(Verdict::TooDeep);
            }
            return Err(Stop);
        };
        self.depth_left = left;
        if self.is_named {
            self.probe.push(opening);
        }
        Ok(())
    }

    /// Counts a question and writes down what has a whole name: from here on, samples of what is inside are all that can
    /// be of interest.
    fn close(&mut self, name: &str) -> Result<(), Stop> {
        self.count()?;
        if self.is_named {
            self.probe.push(name);
            self.is_named = false;
            self.depth_left = self.probe.sample_depth;
        }
        match self.is_last || self.probe.trouble.is_some() {
            true => Err(Stop),
            false => Ok(()),
        }
    }

    fn sampled(&mut self) -> Result<(), Stop> {
        self.depth_left = self.depth_left.checked_sub(1).ok_or(Stop)?;
        Ok(())
    }

    pub(super) fn visit_places<'de, V: Visitor<'de>>(mut self, count: usize, visitor: V) -> Result<V::Value, Stop> {
        self.sampled()?;
        visitor.visit_seq(Places { place: &mut self, count, named: 0, asked: 0 })
    }

    pub(super) fn visit_fields<'de, V: Visitor<'de>>(
        mut self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Stop> {
        match self.probe.choose(2)? {
            0 => self.visit_places(fields.len(), visitor),
            _ => {
                self.sampled()?;
                visitor.visit_map(Fields { place: self, left: fields })
            }
        }
    }
}

macro_rules! scalars {
    ($($method:ident: $name:literal, $visit:ident of $samples:expr;)*) => {$(
        fn $method<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Stop> {
            self.close($name)?;
            let samples = $samples;
            visitor.$visit(samples[self.probe.choose(samples.len())?])
        }
    )*};
}

impl<'de> de::Deserializer<'de> for Place<'_, '_> {
    type Error = Stop;

    /// As that of keys, which have names too: types like `Uuid` choose what they ask for by it.
    fn is_human_readable(&self) -> bool {
        false
    }

    scalars!(
        deserialize_bool: "bool", visit_bool of [false, true];
        deserialize_i8: "i8", visit_u64 of [0, 1];
        deserialize_i16: "i16", visit_u64 of [0, 1];
        deserialize_i32: "i32", visit_u64 of [0, 1];
        deserialize_i64: "i64", visit_u64 of [0, 1];
        deserialize_i128: "i128", visit_u64 of [0, 1];
        deserialize_u8: "u8", visit_u64 of [0, 1];
        deserialize_u16: "u16", visit_u64 of [0, 1];
        deserialize_u32: "u32", visit_u64 of [0, 1];
        deserialize_u64: "u64", visit_u64 of [0, 1];
        deserialize_u128: "u128", visit_u64 of [0, 1];
        deserialize_f32: "f32", visit_f32 of [0.0, 1.0];
        deserialize_f64: "f64", visit_f64 of [0.0, 1.0];
        deserialize_char: "char", visit_char of ['a', '0'];
        deserialize_str: "string", visit_borrowed_str of TEXTS;
        deserialize_string: "string", visit_borrowed_str of TEXTS;
    );

    fn deserialize_bytes<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Stop> {
        self.close("bytes")?;
        let length = LENGTHS[self.probe.choose(LENGTHS.len())?];
        visitor.visit_borrowed_bytes(&ZEROS[..length])
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Stop> {
        self.deserialize_bytes(visitor)
    }

    fn deserialize_unit<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Stop> {
        self.close("unit")?;
        visitor.visit_unit()
    }

    fn deserialize_any<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Stop> {
        self.close("any")?;
        match self.probe.choose(5)? {
            0 => visitor.visit_unit(),
            1 => visitor.visit_u64(0),
            2 => visitor.visit_borrowed_str(""),
            3 => visitor.visit_seq(Element { place: &mut self, has_ended: true }),
            _ => visitor.visit_map(Fields { place: self, left: &[] }),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Stop> {
        self.deserialize_any(visitor)
    }

    /// As the key of a map, this is a struct with flattened fields: serde asks for a map there, and for its fields in it.
    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Stop> {
        if self.is_named && self.is_key {
            self.probe.has_fields = true;
            // Whoever opened the map replaces all of its name.
            self.probe.push("_");
            return Err(Stop);
        }
        self.deserialize_str(visitor)
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(mut self, name: &'static str, visitor: V) -> Result<V::Value, Stop> {
        self.close(&spelling::of(name))?;
        visitor.visit_unit()
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(mut self, name: &'static str, visitor: V) -> Result<V::Value, Stop> {
        self.close(&spelling::of(name))?;
        self.sampled()?;
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        mut self,
        name: &'static str,
        length: usize,
        visitor: V,
    ) -> Result<V::Value, Stop> {
        self.close(&spelling::of(name))?;
        self.visit_places(length, visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        mut self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Stop> {
        self.close(&spelling::of(name))?;
        self.visit_fields(fields, visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        mut self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Stop> {
        self.close(&spelling::of(name))?;
        let variant = variants[self.probe.choose(variants.len())?];
        self.sampled()?;
        visitor.visit_enum(Variant { place: self, name: StrDeserializer::new(variant) })
    }

    fn deserialize_option<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Stop> {
        self.open("option of ")?;
        if !self.is_named {
            return visitor.visit_none();
        }
        let is_last = self.is_last;
        self.asked(|place| visitor.visit_some(place.part(true, is_last)))
    }

    fn deserialize_seq<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Stop> {
        self.open("list of ")?;
        let has_ended = !self.is_named && self.probe.choose(2)? == 0;
        self.asked(|place| visitor.visit_seq(Element { place, has_ended }))
    }

    fn deserialize_tuple<V: Visitor<'de>>(mut self, length: usize, visitor: V) -> Result<V::Value, Stop> {
        if !self.is_named {
            self.count()?;
            return self.visit_places(length, visitor);
        }
        let (opening, closing, named) = match length > TUPLE_PLACES_MAX {
            true => (format!("array of {length} "), "", 1),
            false => ("(".to_owned(), ")", length),
        };
        self.open(&opening)?;
        let mut places = Places { place: &mut self, count: length, named, asked: 0 };
        let value = visitor.visit_seq(&mut places);
        // A type that is content with less than it announced is what it read.
        if places.asked < named && value.is_err() {
            self.probe.fail(Verdict::Unseen);
        }
        self.probe.push(closing);
        value
    }

    fn deserialize_map<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Stop> {
        let start = self.probe.name.len();
        self.open("map of ")?;
        let has_ended = !self.is_named && self.probe.choose(2)? == 0;
        let mut entry = Entry { place: &mut self, has_ended, has_key: false, has_value: false };
        let value = visitor.visit_map(&mut entry);
        let (has_key, has_value) = (entry.has_key, entry.has_value);
        if std::mem::take(&mut self.probe.has_fields) {
            self.probe.name.truncate(start);
            self.probe.push("struct");
        } else if self.is_named && !has_value {
            self.probe.fail(if has_key { Verdict::Unseen } else { Verdict::Silent });
        }
        value
    }
}
