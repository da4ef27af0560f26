use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use mainstay_core::Level;
use mainstay_core::partitioning::Partitioning;
use mainstay_core::time::Duration;

use super::text;

/// An effective value. `Display` gives it as the file has it, where the file can have it: names of partitions, and that there
/// is but one, are said by code alone.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Value {
    /// A number.
    Count(u64),
    /// A size in bytes.
    Bytes(u64),
    /// A length of time.
    Duration(Duration),
    /// A file or folder.
    Path(PathBuf),
    /// Where something listens.
    Address(SocketAddr),
    /// True or false.
    Flag(bool),
    /// A text.
    Text(String),
    /// How state is kept.
    Level(Level),
    /// How a service is cut.
    Partitioning(Partitioning),
    /// No limit, or switched off.
    None,
}

impl Value {
    /// The value for programs: a number where it is one, and otherwise the text.
    pub fn to_json(&self) -> serde_json::Value {
        match self {
            Self::Count(count) => (*count).into(),
            Self::Flag(flag) => (*flag).into(),
            Self::None => serde_json::Value::Null,
            other => other.plain().into(),
        }
    }

    /// True if the file can have it.
    pub(crate) fn is_for_file(&self) -> bool {
        !matches!(self, Self::Partitioning(Partitioning::Named { .. } | Partitioning::Singleton))
    }

    /// Without the quotes that the file needs.
    fn plain(&self) -> String {
        match self {
            Self::Count(count) => count.to_string(),
            Self::Bytes(bytes) => text::bytes_text(*bytes),
            Self::Duration(duration) => text::duration_text(*duration),
            Self::Path(path) => path.display().to_string(),
            Self::Address(address) => address.to_string(),
            Self::Flag(flag) => flag.to_string(),
            Self::Text(text) => text.clone(),
            Self::Level(level) => level.to_string(),
            Self::Partitioning(partitioning) => partitioning.to_string(),
            Self::None => "none".to_owned(),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => count.fmt(f),
            Self::Flag(flag) => flag.fmt(f),
            Self::Partitioning(Partitioning::Uniform { count, .. }) => count.fmt(f),
            Self::Partitioning(_) => f.write_str(&self.plain()),
            // A string of JSON is one of TOML.
            other => write!(f, "{}", serde_json::Value::String(other.plain())),
        }
    }
}
