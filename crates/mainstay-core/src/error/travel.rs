//! How an error travels to another process, and how it is stored: its kind by name, its text and its causes.

use std::error::Error as StdError;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Error, ErrorKind};
use crate::id::NodeId;

/// How many causes travel with an error: more than a person reads.
const CAUSES_MAX: usize = 8;

/// An error on its way. Fields are found by name, and later versions may add some.
#[derive(Serialize, Deserialize)]
struct Travelling {
    kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hint: Option<NodeId>,
    message: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    causes: Vec<String>,
}

impl Serialize for Error {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let hint = match self.kind() {
            ErrorKind::NotPrimary { hint } => hint,
            _ => None,
        };
        let causes = std::iter::successors(self.source(), |cause| (*cause).source());
        let causes = causes.take(CAUSES_MAX).map(ToString::to_string).collect();
        let travelling = Travelling { kind: name(self.kind()).to_owned(), hint, message: self.to_string(), causes };
        travelling.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Error {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Travelling { kind, hint, message, causes } = Travelling::deserialize(deserializer)?;
        let error = Error::new(kind_of(&kind, hint), message);
        let cause = causes.into_iter().take(CAUSES_MAX).rev().fold(None, |source, text| Some(Cause::new(text, source)));
        Ok(match cause {
            Some(cause) => error.with_source(cause),
            None => error,
        })
    }
}

/// The text of a cause; what it was besides stayed where it happened.
#[derive(Debug)]
struct Cause {
    text: String,
    source: Option<Box<Cause>>,
}

impl Cause {
    fn new(text: String, source: Option<Cause>) -> Self {
        Self { text, source: source.map(Box::new) }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl StdError for Cause {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|cause| cause as &(dyn StdError + 'static))
    }
}

const NAMES: &[(&str, ErrorKind)] = &[
    ("retry", ErrorKind::Retry),
    ("not_found", ErrorKind::NotFound),
    ("conflict", ErrorKind::Conflict),
    ("timeout", ErrorKind::Timeout),
    ("not_primary", ErrorKind::NotPrimary { hint: None }),
    ("outcome_unknown", ErrorKind::OutcomeUnknown),
    ("overloaded", ErrorKind::Overloaded),
    ("too_large", ErrorKind::TooLarge),
    ("invalid", ErrorKind::Invalid),
    ("unsupported", ErrorKind::Unsupported),
    ("corrupt", ErrorKind::Corrupt),
    ("unknown_version", ErrorKind::UnknownVersion),
    ("storage_full", ErrorKind::StorageFull),
    ("too_old", ErrorKind::TooOld),
    ("fatal", ErrorKind::Fatal),
];

fn name(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Retry => "retry",
        ErrorKind::NotFound => "not_found",
        ErrorKind::Conflict => "conflict",
        ErrorKind::Timeout => "timeout",
        ErrorKind::NotPrimary { .. } => "not_primary",
        ErrorKind::OutcomeUnknown => "outcome_unknown",
        ErrorKind::Overloaded => "overloaded",
        ErrorKind::TooLarge => "too_large",
        ErrorKind::Invalid => "invalid",
        ErrorKind::Unsupported => "unsupported",
        ErrorKind::Corrupt => "corrupt",
        ErrorKind::UnknownVersion => "unknown_version",
        ErrorKind::StorageFull => "storage_full",
        ErrorKind::TooOld => "too_old",
        ErrorKind::Fatal => "fatal",
    }
}

/// A kind that a later version has and this one does not is the one that promises the least.
fn kind_of(name: &str, hint: Option<NodeId>) -> ErrorKind {
    match NAMES.iter().find(|(known, _)| *known == name) {
        Some((_, ErrorKind::NotPrimary { .. })) => ErrorKind::NotPrimary { hint },
        Some((_, kind)) => *kind,
        None => ErrorKind::OutcomeUnknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract;

    fn travelled(error: &Error) -> Error {
        contract::decode(&contract::encode(error).unwrap()).unwrap()
    }

    #[test]
    fn every_kind_arrives_as_it_left() {
        for (text, kind) in NAMES {
            assert_eq!(name(*kind), *text);
            assert_eq!(travelled(&Error::new(*kind, "x")).kind(), *kind);
        }
        let kind = ErrorKind::NotPrimary { hint: Some(NodeId(3)) };
        assert_eq!(travelled(&Error::new(kind, "elsewhere")).kind(), kind);
    }

    #[test]
    fn text_and_causes_arrive() {
        let root = Error::corrupt("checksum of segment 3 is wrong");
        let error = Error::fatal("node log has stopped").with_source(root.with_source("bit 7"));
        assert_eq!(format!("{:?}", travelled(&error)), format!("{error:?}"));
        let mut deep = Error::fatal("0");
        for number in 1..20 {
            deep = Error::fatal(number.to_string()).with_source(deep);
        }
        let deep = travelled(&deep);
        assert_eq!(std::iter::successors(deep.source(), |cause| (*cause).source()).count(), CAUSES_MAX);
    }

    #[test]
    fn a_kind_of_a_later_version_promises_nothing() {
        #[derive(Serialize)]
        struct Later {
            kind: &'static str,
            message: &'static str,
            color: u8,
        }
        let bytes = contract::encode(&Later { kind: "sleepy", message: "not now", color: 3 }).unwrap();
        let error: Error = contract::decode(&bytes).unwrap();
        assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::OutcomeUnknown, "not now"));
    }
}
