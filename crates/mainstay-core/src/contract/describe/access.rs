//! The parts of lists, tuples, maps, structs and enums, each a place of its own.

use serde::de::value::StrDeserializer;
use serde::de::{self, DeserializeSeed, Visitor};

use super::place::Place;
use super::probe::Stop;

/// The element of a list.
#[derive(Debug)]
pub(super) struct Element<'a, 'p, 'c> {
    pub(super) place: &'a mut Place<'p, 'c>,
    pub(super) has_ended: bool,
}

impl<'de> de::SeqAccess<'de> for Element<'_, '_, '_> {
    type Error = Stop;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Stop> {
        if std::mem::replace(&mut self.has_ended, true) {
            return Ok(None);
        }
        let (is_named, is_last) = (self.place.is_named, self.place.is_last);
        let element = self.place.asked(|place| seed.deserialize(place.part(is_named, is_last)));
        self.place.unless_refused(element)
    }
}

/// The places of a tuple or a struct.
#[derive(Debug)]
pub(super) struct Places<'a, 'p, 'c> {
    pub(super) place: &'a mut Place<'p, 'c>,
    pub(super) count: usize,
    /// How many of them are in the name, if the place is.
    pub(super) named: usize,
    pub(super) asked: usize,
}

impl<'de> de::SeqAccess<'de> for Places<'_, '_, '_> {
    type Error = Stop;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Stop> {
        if self.asked == self.count {
            return Ok(None);
        }
        self.asked += 1;
        if !self.place.is_named || self.asked > self.named {
            return seed.deserialize(self.place.part(false, false)).map(Some);
        }
        if self.asked > 1 {
            self.place.probe.push(", ");
        }
        let is_last = self.place.is_last && self.asked == self.named;
        self.place.asked(|place| seed.deserialize(place.part(true, is_last))).map(Some)
    }
}

/// The entry of a map.
#[derive(Debug)]
pub(super) struct Entry<'a, 'p, 'c> {
    pub(super) place: &'a mut Place<'p, 'c>,
    pub(super) has_ended: bool,
    pub(super) has_key: bool,
    pub(super) has_value: bool,
}

impl Entry<'_, '_, '_> {
    fn key<'de, S: DeserializeSeed<'de>>(&mut self, seed: S, is_last: bool) -> Result<S::Value, Stop> {
        self.has_key = true;
        let is_named = self.place.is_named;
        self.place.asked(|place| seed.deserialize(place.key(is_named, is_last)))
    }

    fn value<'de, S: DeserializeSeed<'de>>(&mut self, seed: S, is_last: bool) -> Result<S::Value, Stop> {
        self.has_value = true;
        let is_named = self.place.is_named;
        if is_named {
            self.place.probe.push(" to ");
        }
        self.place.asked(|place| seed.deserialize(place.part(is_named, is_last)))
    }
}

impl<'de> de::MapAccess<'de> for Entry<'_, '_, '_> {
    type Error = Stop;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Stop> {
        if std::mem::replace(&mut self.has_ended, true) {
            return Ok(None);
        }
        match self.key(seed, false) {
            // It is known now that these are fields; perhaps the type has a default for each of them.
            Err(Stop) if self.place.probe.has_fields => Ok(None),
            key => key.map(Some),
        }
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Stop> {
        let is_last = self.place.is_last;
        self.value(seed, is_last)
    }

    /// Maps ask for a key and a value at once: both are seen then, whether or not there is a sample of the key.
    fn next_entry_seed<K: DeserializeSeed<'de>, V: DeserializeSeed<'de>>(
        &mut self,
        key: K,
        value: V,
    ) -> Result<Option<(K::Value, V::Value)>, Stop> {
        if std::mem::replace(&mut self.has_ended, true) {
            return Ok(None);
        }
        let is_last = self.place.is_last;
        let key = self.key(key, is_last);
        let value = self.value(value, is_last);
        self.place.unless_refused(key.and_then(|key| Ok((key, value?))))
    }
}

/// The fields of a struct by name.
#[derive(Debug)]
pub(super) struct Fields<'p, 'c> {
    pub(super) place: Place<'p, 'c>,
    pub(super) left: &'static [&'static str],
}

impl<'de> de::MapAccess<'de> for Fields<'_, '_> {
    type Error = Stop;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Stop> {
        let Some((field, left)) = self.left.split_first() else { return Ok(None) };
        self.left = left;
        seed.deserialize(StrDeserializer::new(field)).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Stop> {
        seed.deserialize(self.place.part(false, false))
    }
}

/// A variant of an enum.
pub(super) struct Variant<'p, 'c> {
    pub(super) place: Place<'p, 'c>,
    pub(super) name: StrDeserializer<'static, Stop>,
}

impl<'de, 'p, 'c> de::EnumAccess<'de> for Variant<'p, 'c> {
    type Error = Stop;
    type Variant = Content<'p, 'c>;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Content<'p, 'c>), Stop> {
        Ok((seed.deserialize(self.name)?, Content(self.place)))
    }
}

/// What a variant of an enum holds.
pub(super) struct Content<'p, 'c>(Place<'p, 'c>);

impl<'de> de::VariantAccess<'de> for Content<'_, '_> {
    type Error = Stop;

    fn unit_variant(self) -> Result<(), Stop> {
        Ok(())
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, Stop> {
        seed.deserialize(self.0)
    }

    fn tuple_variant<V: Visitor<'de>>(self, length: usize, visitor: V) -> Result<V::Value, Stop> {
        self.0.visit_places(length, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(self, fields: &'static [&'static str], visitor: V) -> Result<V::Value, Stop> {
        self.0.visit_fields(fields, visitor)
    }
}
