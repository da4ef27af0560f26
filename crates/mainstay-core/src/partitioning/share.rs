use std::fmt;

/// What one partition of a service is responsible for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Share {
    /// The keys from `low` to `high`, both included.
    Range {
        /// The first key.
        low: i64,
        /// The last key.
        high: i64,
    },
    /// What goes by this name.
    Name(String),
    /// Everything.
    Whole,
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Range { low, high } => write!(f, "keys {low} to {high}"),
            Self::Name(name) => write!(f, "{name:?}"),
            Self::Whole => f.write_str("everything"),
        }
    }
}
