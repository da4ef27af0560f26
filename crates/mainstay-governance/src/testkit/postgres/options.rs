use std::path::PathBuf;

use mainstay::{Error, Result};

/// The most connections that a private server is asked for: beyond, the system's own limits come first.
const CONNECTIONS_MAX: u32 = 10_000;

/// How many connections PostgreSQL keeps for administrators unless told otherwise; there must be more than these.
pub(super) const RESERVED_CONNECTIONS: u32 = 3;

/// How a private PostgreSQL server is set up.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PostgresOptions {
    /// How many connections it lets in, of which 3 are kept for administrators (`max_connections`).
    pub max_connections: u32,
    /// The folder below which its data is kept; the system's folder for temporary files if none is named.
    pub below: Option<PathBuf>,
    /// Further settings, as they would stand in `postgresql.conf`.
    pub settings: Vec<(String, String)>,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self { max_connections: 20, below: None, settings: Vec::new() }
    }
}

impl PostgresOptions {
    /// The same with so many connections.
    #[must_use]
    pub fn with_max_connections(mut self, max_connections: u32) -> Self {
        self.max_connections = max_connections;
        self
    }

    /// The same with its data below a folder.
    #[must_use]
    pub fn with_data_below(mut self, folder: impl Into<PathBuf>) -> Self {
        self.below = Some(folder.into());
        self
    }

    /// The same with one more setting.
    #[must_use]
    pub fn with_setting(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.settings.push((name.into(), value.into()));
        self
    }

    pub(super) fn check(&self) -> Result<()> {
        if (RESERVED_CONNECTIONS + 1..=CONNECTIONS_MAX).contains(&self.max_connections) {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "max_connections is {}: a private PostgreSQL takes {} to {CONNECTIONS_MAX}",
            self.max_connections,
            RESERVED_CONNECTIONS + 1
        )))
    }
}
