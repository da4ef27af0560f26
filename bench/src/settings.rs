use std::path::PathBuf;
use std::time::Duration;

/// How a section is run.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// A run that shows that everything works, with figures that mean little.
    pub(crate) quick: bool,
    /// Only these benches; all if there is none.
    pub(crate) only: Vec<String>,
    /// Where data is written: a real disk, or syncs cost nothing.
    pub(crate) dir: PathBuf,
}

impl Settings {
    /// What a copy of this program is told, to measure as [`told`](Self::told) does.
    pub(crate) fn pace(&self) -> &'static str {
        if self.quick { "quick" } else { "full" }
    }

    /// The settings of a copy that was told a pace. It has a folder of its own.
    pub(crate) fn told(pace: &str) -> Self {
        Self { quick: pace == "quick", only: Vec::new(), dir: PathBuf::new() }
    }

    /// How often everything is measured.
    pub(crate) fn rounds(&self) -> usize {
        if self.quick { 1 } else { 3 }
    }

    /// Whether a bench was asked for.
    pub(crate) fn wants(&self, bench: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| name == bench)
    }

    /// A length of time, much shorter in a quick run.
    pub(crate) fn span(&self, full: Duration) -> Duration {
        if self.quick { full / 10 } else { full }
    }

    /// A count, much smaller in a quick run.
    pub(crate) fn count(&self, full: u64) -> u64 {
        if self.quick { full / 20 } else { full }
    }
}
