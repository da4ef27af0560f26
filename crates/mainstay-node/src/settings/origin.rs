use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// Where an effective value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// Nobody said anything else.
    Default,
    /// The attribute of the type, in the code.
    Attribute,
    /// The code that uses it, with which a [section](crate::settings::Section) was given to the node.
    Code,
    /// The configuration file.
    File {
        /// The file, as it was given.
        path: Arc<PathBuf>,
        /// The line, counted from 1.
        line: usize,
    },
    /// An environment variable of this name.
    Environment(String),
    /// A call of the builder, in the program.
    Builder,
    /// An argument of the command that asks.
    CommandLine,
    /// What the data folder has recorded.
    Recorded,
}

impl Origin {
    /// One word for programs.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Attribute => "attribute",
            Self::Code => "code",
            Self::File { .. } => "file",
            Self::Environment(_) => "environment",
            Self::Builder => "builder",
            Self::CommandLine => "command line",
            Self::Recorded => "recorded",
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Environment(variable) => write!(f, "environment {variable}"),
            Self::Recorded => f.write_str("recorded in the data folder"),
            other => f.write_str(other.kind()),
        }
    }
}
