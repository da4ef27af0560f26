use std::ops::RangeInclusive;
use std::time::Duration;

use mainstay::{Error, Result};

/// How a cache behaves. Sizes are for the whole cache, which its shards have in equal parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheSettings {
    /// How long a value is good.
    pub fresh_for: Duration,
    /// How long before its end a value that was used meanwhile is loaded again, in the background. `None`: it is loaded
    /// when it is asked for.
    pub refresh_ahead: Option<Duration>,
    /// How long it is remembered that a key has no value. `None`: not at all.
    pub absent_for: Option<Duration>,
    /// How long after its end a value may still be given: see [`stale`](CacheSettings::stale). `None`: not at all.
    pub stale_for: Option<Duration>,
    /// When a value that is stale is given.
    pub stale: StaleMode,
    /// How many values are kept in memory; beyond, those that were used least recently go.
    pub entries_max: usize,
    /// How many bytes the values that are kept may have, as they are serialized.
    pub bytes_max: usize,
    /// How writes go to the source.
    pub writes: WriteMode,
    /// How many values are written to the source in one batch.
    pub batch_max: usize,
    /// How many writes may wait to be written; beyond is `Overloaded`.
    pub buffered_max: usize,
    /// How often the source is tried before a failure counts as one, if the error may pass.
    pub attempts: u32,
    /// How long to wait before the second try; doubled each time, with jitter.
    pub retry_pause: Duration,
    /// How long one try may take.
    pub source_timeout: Duration,
}

/// When a value is given that was good a moment ago, within [`stale_for`](CacheSettings::stale_for).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum StaleMode {
    /// If the source fails: a caller waits for the load, and gets the stale value in the place of the failure.
    #[default]
    IfError,
    /// While it is loaded again, in the background, once for all who ask meanwhile: nobody waits. If the source fails, the
    /// stale value goes on being given, and the next caller has it tried again.
    WhileRevalidate,
}

/// How writes go to the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum WriteMode {
    /// A write returns when the source has it.
    Through,
    /// A write returns when it is durable in the cache, and is written to the source after a while, with others.
    Behind {
        /// How long writes are gathered, and how long to wait after a failure.
        flush_after: Duration,
    },
}

impl Default for CacheSettings {
    fn default() -> Self {
        Self {
            fresh_for: Duration::from_secs(60),
            refresh_ahead: Some(Duration::from_secs(10)),
            absent_for: None,
            stale_for: None,
            stale: StaleMode::IfError,
            entries_max: 100_000,
            bytes_max: 256 << 20,
            writes: WriteMode::Through,
            batch_max: 256,
            buffered_max: 65_536,
            attempts: 3,
            retry_pause: Duration::from_millis(50),
            source_timeout: Duration::from_secs(10),
        }
    }
}

impl CacheSettings {
    /// How long a time may be.
    pub const TIMES: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(10 * 365 * 24 * 60 * 60);

    /// Refuses what cannot be.
    pub(crate) fn check(&self, shards: u32) -> Result<()> {
        let shards = shards as usize;
        let least = [
            ("entries_max", self.entries_max, shards),
            ("bytes_max", self.bytes_max, shards),
            ("batch_max", self.batch_max, 1),
            ("buffered_max", self.buffered_max, shards),
            ("attempts", self.attempts as usize, 1),
        ];
        for (name, value, least) in least {
            if value < least {
                return Err(Error::invalid(format!("{name} of the cache is {value}: use at least {least}")));
            }
        }
        let flush_after = match self.writes {
            WriteMode::Through => None,
            WriteMode::Behind { flush_after } => Some(flush_after),
        };
        let durations = [
            ("fresh_for", Some(self.fresh_for)),
            ("refresh_ahead", self.refresh_ahead),
            ("absent_for", self.absent_for),
            ("stale_for", self.stale_for),
            ("flush_after", flush_after),
            ("retry_pause", Some(self.retry_pause)),
            ("source_timeout", Some(self.source_timeout)),
        ];
        for (name, value) in durations {
            if value.is_some_and(|value| !Self::TIMES.contains(&value)) {
                return Err(Error::invalid(format!(
                    "{name} of the cache is {value:?}: use {:?} to {:?}",
                    Self::TIMES.start(),
                    Self::TIMES.end()
                )));
            }
        }
        if let Some(ahead) = self.refresh_ahead.filter(|ahead| *ahead >= self.fresh_for) {
            return Err(Error::invalid(format!(
                "refresh_ahead of the cache is {ahead:?} and fresh_for is {:?}: give a refresh_ahead that is shorter, or none",
                self.fresh_for
            )));
        }
        if self.stale == StaleMode::WhileRevalidate && self.stale_for.is_none() {
            return Err(Error::invalid(
                "stale of the cache is `WhileRevalidate`, and stale_for says that nothing stale is given: set stale_for",
            ));
        }
        Ok(())
    }
}
