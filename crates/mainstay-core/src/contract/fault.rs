//! Why a value was not read or written, before it is known where in the value that is.

use std::fmt;

use serde::{de, ser};

use super::path;
use crate::{Error, ErrorKind};

/// The longest part of a found value, or of a list of expected ones, that a message repeats.
const SHOWN_CHARS_MAX: usize = 200;

/// What went wrong inside serde's machinery. One pointer wide, so that results stay small where all goes well.
#[derive(Debug)]
pub(super) struct Fault(Box<Inner>);

#[derive(Debug)]
struct Inner {
    /// Where the value that did not fit starts; the innermost place that saw the fault sets it.
    at: Option<usize>,
    what: What,
}

#[derive(Debug)]
enum What {
    /// Not MessagePack.
    Broken(&'static str),
    TooDeep,
    TooLarge,
    Mismatch {
        expected: String,
        found: String,
    },
    MissingField(&'static str),
    /// What serde or the author's own code said.
    Said(String),
}

impl Fault {
    fn new(what: What) -> Self {
        Self(Box::new(Inner { at: None, what }))
    }

    #[cold]
    pub(super) fn broken(at: usize, what: &'static str) -> Self {
        Self::new(What::Broken(what)).at(at)
    }

    #[cold]
    pub(super) fn too_deep(at: usize) -> Self {
        Self::new(What::TooDeep).at(at)
    }

    #[cold]
    pub(super) fn too_large() -> Self {
        Self::new(What::TooLarge)
    }

    #[cold]
    pub(super) fn mismatch(expected: impl fmt::Display, found: impl fmt::Display) -> Self {
        Self::new(What::Mismatch { expected: shortened(expected), found: shortened(found) })
    }

    /// Says where the value starts, unless a place further in has said so.
    #[cold]
    pub(super) fn at(mut self, at: usize) -> Self {
        self.0.at.get_or_insert(at);
        self
    }

    /// The error of a value of type `T` that could not be written.
    pub(super) fn while_encoding<T: ?Sized>(self, bytes_max: usize, depth_max: u16) -> Error {
        let name = std::any::type_name::<T>();
        match self.0.what {
            What::TooLarge => Error::new(
                ErrorKind::TooLarge,
                format!("encoding {name}: the value exceeds bytes_max of {bytes_max}: split it over several keys"),
            ),
            What::TooDeep => Error::new(
                ErrorKind::TooLarge,
                format!("encoding {name}: the value is nested deeper than depth_max of {depth_max}: flatten it"),
            ),
            what => Error::invalid(format!("encoding {name}: {what}")),
        }
    }

    /// The error of `bytes` that could not be read as a `T`.
    pub(super) fn while_decoding<T>(self, bytes: &[u8], depth_max: u16) -> Error {
        let name = std::any::type_name::<T>();
        let Inner { at, what } = *self.0;
        match what {
            What::Broken(what) => {
                let at = at.unwrap_or_default();
                Error::corrupt(format!("bytes that should hold {name} are damaged: {what} (at byte {at})"))
            }
            What::TooDeep => Error::new(
                ErrorKind::TooLarge,
                format!(
                    "{}: nested deeper than depth_max of {depth_max} (decoding {name})",
                    path::of(bytes, at.unwrap_or_default())
                ),
            ),
            // A value that does not fit is the author's to fix, but only if the rest of the bytes is sound.
            what => match path::check(bytes, depth_max) {
                Err(damage) => damage.while_decoding::<T>(bytes, depth_max),
                Ok(()) => {
                    let at = at.unwrap_or_default();
                    let written = path::fields_around(bytes, at)
                        .map_or_else(String::new, |fields| format!("; it was written with the fields {fields}"));
                    Error::invalid(format!("{}: {what} (decoding {name}{written})", path::of(bytes, at)))
                }
            },
        }
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            What::Broken(what) => f.write_str(what),
            What::TooDeep => f.write_str("nested too deep"),
            What::TooLarge => f.write_str("too large"),
            What::Mismatch { expected, found } => write!(f, "expected {expected}, found {found}"),
            What::MissingField(field) => {
                write!(f, "missing field `{field}`: if older data lacks it, give it #[serde(default)]")
            }
            What::Said(what) => f.write_str(what),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.what.fmt(f)
    }
}

impl std::error::Error for Fault {}

impl ser::Error for Fault {
    #[cold]
    fn custom<M: fmt::Display>(message: M) -> Self {
        Self::new(What::Said(shortened(message)))
    }
}

impl de::Error for Fault {
    #[cold]
    fn custom<M: fmt::Display>(message: M) -> Self {
        Self::new(What::Said(shortened(message)))
    }

    #[cold]
    fn invalid_type(found: de::Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        Self::mismatch(expected, found)
    }

    #[cold]
    fn invalid_value(found: de::Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        Self::mismatch(expected, found)
    }

    #[cold]
    fn invalid_length(length: usize, expected: &dyn de::Expected) -> Self {
        Self::mismatch(expected, format_args!("{length} elements"))
    }

    #[cold]
    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        Self::mismatch(AnyOf("variant", expected), format_args!("unknown variant `{}`", shortened(variant)))
    }

    #[cold]
    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        Self::mismatch(AnyOf("field", expected), format_args!("unknown field `{}`", shortened(field)))
    }

    #[cold]
    fn missing_field(field: &'static str) -> Self {
        Self::new(What::MissingField(field))
    }
}

/// The names that would have been right.
struct AnyOf(&'static str, &'static [&'static str]);

impl fmt::Display for AnyOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.1 {
            [] => write!(f, "no {}", self.0),
            [only] => write!(f, "{} `{only}`", self.0),
            [first, rest @ ..] => {
                write!(f, "one of `{first}`")?;
                rest.iter().try_for_each(|name| write!(f, ", `{name}`"))
            }
        }
    }
}

/// A text that ends in `…` where it is too long for a message.
pub(super) fn shortened(text: impl fmt::Display) -> String {
    struct Bounded {
        text: String,
        room: usize,
    }
    impl fmt::Write for Bounded {
        fn write_str(&mut self, part: &str) -> fmt::Result {
            for letter in part.chars() {
                self.room = self.room.checked_sub(1).ok_or(fmt::Error)?;
                self.text.push(letter);
            }
            Ok(())
        }
    }
    let mut bounded = Bounded { text: String::new(), room: SHOWN_CHARS_MAX };
    if fmt::Write::write_fmt(&mut bounded, format_args!("{text}")).is_err() {
        bounded.text.push('…');
    }
    bounded.text
}
