use std::fmt;

use serde::{de, ser};

use super::{KEY_BYTES_MAX, KEY_DEPTH_MAX};
use crate::{Error, ErrorKind};

/// Why a key was not read or written, before the type is known.
#[derive(Debug)]
pub(super) struct Fault {
    kind: ErrorKind,
    what: String,
    /// The way to the element that did not fit, from the inside out: ".id", "[1]".
    path: Vec<String>,
}

impl Fault {
    fn new(kind: ErrorKind, what: impl fmt::Display) -> Self {
        Self { kind, what: what.to_string(), path: Vec::new() }
    }

    /// Says in which place of the tuple, struct or list around it the element stands.
    #[cold]
    pub(super) fn inside(mut self, place: usize, name: Option<&str>) -> Self {
        self.path.push(name.map_or_else(|| format!("[{place}]"), |name| format!(".{name}")));
        self
    }

    pub(super) fn invalid(what: impl fmt::Display) -> Self {
        Self::new(ErrorKind::Invalid, what)
    }

    pub(super) fn corrupt(what: impl fmt::Display) -> Self {
        Self::new(ErrorKind::Corrupt, what)
    }

    pub(super) fn too_long() -> Self {
        Self::new(
            ErrorKind::TooLarge,
            format_args!("it exceeds KEY_BYTES_MAX of {KEY_BYTES_MAX}: use a hash or an id of it as the key"),
        )
    }

    pub(super) fn too_deep() -> Self {
        Self::new(ErrorKind::TooLarge, format_args!("it is nested deeper than KEY_DEPTH_MAX of {KEY_DEPTH_MAX}"))
    }

    pub(super) fn named<K: ?Sized>(self, doing: &str) -> Error {
        let path: String = self.path.into_iter().rev().collect();
        let place = match path.strip_prefix('.').unwrap_or(&path) {
            "" => String::new(),
            path => format!("element `{path}`: "),
        };
        Error::new(self.kind, format!("{doing} key {}: {place}{}", std::any::type_name::<K>(), self.what))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for Fault {}

impl ser::Error for Fault {
    fn custom<M: fmt::Display>(message: M) -> Self {
        Self::invalid(message)
    }
}

impl de::Error for Fault {
    fn custom<M: fmt::Display>(message: M) -> Self {
        Self::invalid(message)
    }

    fn invalid_type(found: de::Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        Self::invalid(format_args!("expected {expected}, found {found}"))
    }

    fn invalid_value(found: de::Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        Self::invalid(format_args!("expected {expected}, found {found}"))
    }
}
