use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;

use mainstay_core::Level;
use mainstay_core::time::Duration;
use mainstay_wire::Address;
use mainstay_wire::tls::JoinToken;

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
    /// A list of texts of the file.
    List(Vec<String>),
    /// Anything else of the file, by the name of its type.
    Other(&'static str),
    /// The text of a variable or of a builder call, where quotes are not needed.
    Bare(String),
}

impl Raw {
    fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) | Self::Bare(text) => Some(text),
            Self::Integer(_) | Self::Flag(_) | Self::List(_) | Self::Other(_) => None,
        }
    }

    fn flag(&self) -> Option<bool> {
        match self {
            Self::Flag(flag) => Some(*flag),
            Self::Bare(text) => text.trim().parse().ok(),
            Self::Text(_) | Self::Integer(_) | Self::List(_) | Self::Other(_) => None,
        }
    }

    fn integer(&self) -> Option<i128> {
        match self {
            Self::Integer(number) => Some(*number),
            Self::Bare(text) => text.trim().parse().ok(),
            Self::Text(_) | Self::Flag(_) | Self::List(_) | Self::Other(_) => None,
        }
    }

    /// What it is, for a message.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Text(text) | Self::Bare(text) => format!("{text:?}"),
            Self::Integer(number) => number.to_string(),
            Self::Flag(flag) => flag.to_string(),
            Self::List(texts) => format!("{texts:?}"),
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
    /// A text of at most so many bytes, or none.
    OptionalText(usize),
    /// One of these words, or none.
    OptionalChoice(&'static [&'static str]),
    /// A file or folder, or none.
    OptionalPath,
    /// A token by which a node joins a cluster, or none. It is not shown.
    JoinToken,
    /// A host by name or number with a port, or none.
    HostAndPort,
    /// A list of hosts with ports: in the file an array of texts, elsewhere with commas between them.
    HostsAndPorts,
}

impl Form {
    /// Reads what was written, if it is allowed.
    pub(crate) fn read(&self, raw: &Raw) -> Option<Value> {
        let is_none = raw.text().is_some_and(|text| text.trim() == "none");
        match self {
            Self::Count(range) => count(raw, range).map(Value::Count),
            Self::Limit(_)
            | Self::BytesLimit(_)
            | Self::DurationLimit(_)
            | Self::Address
            | Self::OptionalText(_)
            | Self::OptionalChoice(_)
            | Self::OptionalPath
            | Self::JoinToken
            | Self::HostAndPort
                if is_none =>
            {
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
            Self::OptionalText(bytes_max) => raw
                .text()
                .filter(|text| (1..=*bytes_max).contains(&text.len()))
                .map(|text| Value::Text(text.to_owned())),
            Self::OptionalChoice(words) => {
                let text = raw.text()?.trim();
                words.contains(&text).then(|| Value::Text(text.to_owned()))
            }
            Self::OptionalPath => raw.text().filter(|text| !text.is_empty()).map(|text| Value::Path(text.into())),
            Self::JoinToken => {
                let text = raw.text()?.trim();
                text.parse::<JoinToken>().ok().map(|_| Value::Secret(text.to_owned()))
            }
            Self::HostAndPort => host_and_port(raw.text()?).map(Value::Text),
            Self::HostsAndPorts => {
                let hosts: Vec<_> = match raw {
                    Raw::List(hosts) => hosts.iter().map(String::as_str).collect(),
                    raw => raw.text()?.split(',').filter(|host| !host.trim().is_empty()).collect(),
                };
                if hosts.len() > HOSTS_MAX {
                    return None;
                }
                hosts.into_iter().map(host_and_port).collect::<Option<Vec<_>>>().map(Value::List)
            }
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
            Self::OptionalText(bytes_max) => format!("a text of at most {bytes_max} bytes, or \"none\""),
            Self::OptionalChoice(words) => {
                let words: Vec<_> = words.iter().map(|word| format!("{word:?}")).collect();
                format!("{} or \"none\"", words.join(", "))
            }
            Self::OptionalPath => "a path, or \"none\"".to_owned(),
            Self::JoinToken => "a token that `mainstay node token` has printed, or \"none\"".to_owned(),
            Self::HostAndPort => "a host with a port such as \"node-1.example:7400\", or \"none\"".to_owned(),
            Self::HostsAndPorts => {
                format!("at most {HOSTS_MAX} hosts with ports, such as [\"node-1.example:7400\", \"10.0.0.6:7400\"]")
            }
        }
    }
}

/// The bound on a list of hosts: a few are enough to find a cluster.
const HOSTS_MAX: usize = 64;

fn host_and_port(text: &str) -> Option<String> {
    text.trim().parse::<Address>().ok().map(|address| address.to_string())
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
