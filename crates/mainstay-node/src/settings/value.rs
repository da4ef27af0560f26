use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use mainstay_core::Level;
use mainstay_core::partitioning::Partitioning;
use mainstay_core::time::Duration;

use super::text;

/// An effective value. `Display` gives it as the file has it, where the file can have it: names of partitions, and that there
/// is but one, are said by code alone.
#[derive(Clone, PartialEq, Eq)]
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
    /// A text that is not shown.
    Secret(String),
    /// A list of texts.
    List(Vec<String>),
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
            Self::List(texts) => texts.clone().into(),
            other => other.plain().into(),
        }
    }

    /// True if the file can have it.
    pub(crate) fn is_for_file(&self) -> bool {
        !matches!(self, Self::Secret(_) | Self::Partitioning(Partitioning::Named { .. } | Partitioning::Singleton))
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
            Self::Secret(_) => "(not shown)".to_owned(),
            Self::List(texts) => texts.join(","),
            Self::Level(level) => level.to_string(),
            Self::Partitioning(partitioning) => partitioning.to_string(),
            Self::None => "none".to_owned(),
        }
    }
}

/// As it is shown: a secret stays one in logs and panics.
impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self {
            Self::Count(_) => "Count",
            Self::Bytes(_) => "Bytes",
            Self::Duration(_) => "Duration",
            Self::Path(_) => "Path",
            Self::Address(_) => "Address",
            Self::Flag(_) => "Flag",
            Self::Text(_) => "Text",
            Self::Secret(_) => "Secret",
            Self::List(_) => "List",
            Self::Level(_) => "Level",
            Self::Partitioning(_) => "Partitioning",
            Self::None => return f.write_str("None"),
        };
        write!(f, "{kind}({self})")
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => count.fmt(f),
            Self::Flag(flag) => flag.fmt(f),
            Self::Partitioning(Partitioning::Uniform { count, .. }) => count.fmt(f),
            Self::Partitioning(_) => f.write_str(&self.plain()),
            // A list of texts in JSON is one in TOML.
            Self::List(texts) => write!(f, "{}", serde_json::Value::from(texts.clone())),
            // A string of JSON is one of TOML.
            other => write!(f, "{}", serde_json::Value::String(other.plain())),
        }
    }
}
