use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;

use mainstay_core::Level;
use mainstay_core::time::Duration;

use super::text;
use super::value::Value;

/// What was written for a setting, before anybody knows what it means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Raw {
    /// A text of the file.
    Text(String),
    /// A whole number of the file.
    Integer(i128),
    /// True or false, in the file.
    Flag(bool),
    /// Anything else of the file, by the name of its type.
    Other(&'static str),
    /// The text of a variable or of a builder call, where quotes are not needed.
    Bare(String),
}

impl Raw {
    fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) | Self::Bare(text) => Some(text),
            Self::Integer(_) | Self::Flag(_) | Self::Other(_) => None,
        }
    }

    fn flag(&self) -> Option<bool> {
        match self {
            Self::Flag(flag) => Some(*flag),
            Self::Bare(text) => text.trim().parse().ok(),
            Self::Text(_) | Self::Integer(_) | Self::Other(_) => None,
        }
    }

    fn integer(&self) -> Option<i128> {
        match self {
            Self::Integer(number) => Some(*number),
            Self::Bare(text) => text.trim().parse().ok(),
            Self::Text(_) | Self::Flag(_) | Self::Other(_) => None,
        }
    }

    /// What it is, for a message.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Text(text) | Self::Bare(text) => format!("{text:?}"),
            Self::Integer(number) => number.to_string(),
            Self::Flag(flag) => flag.to_string(),
            Self::Other(kind) => format!("of the type {kind}"),
        }
    }
}

/// What a setting may be.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Form {
    /// A whole number.
    Count(RangeInclusive<u64>),
    /// A whole number, or none.
    Limit(RangeInclusive<u64>),
    /// A size in bytes.
    Bytes(RangeInclusive<u64>),
    /// A size in bytes, or none.
    BytesLimit(RangeInclusive<u64>),
    /// A length of time.
    Duration(RangeInclusive<Duration>),
    /// A length of time, or none.
    DurationLimit(RangeInclusive<Duration>),
    /// True or false.
    Flag,
    /// A text that is not empty.
    Text,
    /// A file or folder.
    Path,
    /// Where to listen, or none.
    Address,
    /// How state is kept.
    Level,
}

impl Form {
    /// Reads what was written, if it is allowed.
    pub(crate) fn read(&self, raw: &Raw) -> Option<Value> {
        let is_none = raw.text().is_some_and(|text| text.trim() == "none");
        match self {
            Self::Count(range) => count(raw, range).map(Value::Count),
            Self::Limit(_) | Self::BytesLimit(_) | Self::DurationLimit(_) | Self::Address if is_none => {
                Some(Value::None)
            }
            Self::Limit(range) => count(raw, range).map(Value::Count),
            Self::Bytes(range) | Self::BytesLimit(range) => {
                let bytes = match raw.integer() {
                    Some(number) => u64::try_from(number).ok()?,
                    None => text::bytes(raw.text()?)?,
                };
                range.contains(&bytes).then_some(Value::Bytes(bytes))
            }
            Self::Duration(range) | Self::DurationLimit(range) => {
                let duration = text::duration(raw.text()?)?;
                range.contains(&duration).then_some(Value::Duration(duration))
            }
            Self::Flag => raw.flag().map(Value::Flag),
            Self::Text => raw.text().filter(|text| !text.is_empty()).map(|text| Value::Text(text.to_owned())),
            Self::Path => raw.text().filter(|text| !text.is_empty()).map(|text| Value::Path(text.into())),
            Self::Address => address(raw).map(Value::Address),
            Self::Level => raw.text()?.trim().parse::<Level>().ok().map(Value::Level),
        }
    }

    /// What is allowed, as the end of a sentence that says what to do.
    pub(crate) fn allowed(&self) -> String {
        let counts = |range: &RangeInclusive<u64>| format!("a whole number from {} to {}", range.start(), range.end());
        let sizes = |range: &RangeInclusive<u64>| {
            let (low, high) = (text::bytes_text(*range.start()), text::bytes_text(*range.end()));
            format!("a size from \"{low}\" to \"{high}\", such as \"64MiB\"")
        };
        let durations = |range: &RangeInclusive<Duration>| {
            let (low, high) = (text::duration_text(*range.start()), text::duration_text(*range.end()));
            format!("a duration with its unit from \"{low}\" to \"{high}\", such as \"60s\", \"5min\" or \"1h30m\"")
        };
        match self {
            Self::Count(range) => counts(range),
            Self::Limit(range) => format!("{}, or \"none\"", counts(range)),
            Self::Bytes(range) => sizes(range),
            Self::BytesLimit(range) => format!("{}, or \"none\"", sizes(range)),
            Self::Duration(range) => durations(range),
            Self::DurationLimit(range) => format!("{}, or \"none\"", durations(range)),
            Self::Flag => "true or false".to_owned(),
            Self::Text => "a text".to_owned(),
            Self::Path => "a path".to_owned(),
            Self::Address => {
                "a port such as 9090 for this machine alone, an address with a port such as \"0.0.0.0:9090\", or \"none\""
                    .to_owned()
            }
            Self::Level => "\"persisted\", \"volatile\" or \"none\"".to_owned(),
        }
    }
}

fn count(raw: &Raw, range: &RangeInclusive<u64>) -> Option<u64> {
    let number = u64::try_from(raw.integer()?).ok()?;
    range.contains(&number).then_some(number)
}

/// A port alone is a port of this machine only: what is open to others is so because somebody said it.
fn address(raw: &Raw) -> Option<SocketAddr> {
    let port = |port: u16| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
    if let Some(number) = raw.integer() {
        return u16::try_from(number).ok().map(port);
    }
    let text = raw.text()?.trim();
    let bare = text.strip_prefix(':').unwrap_or(text);
    text.parse().ok().or_else(|| bare.parse().ok().map(port))
}
