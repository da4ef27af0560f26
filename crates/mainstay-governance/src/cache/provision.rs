use std::sync::OnceLock;
use std::time::Duration;

use mainstay::node::settings::Section;
use mainstay::service::Services;
use mainstay::{Backoff, Error, ErrorKind, Result};

use super::settings::CacheSettings;
use super::source::CacheSource;
use crate::owner::guarded::{Guarded, guarded};
use crate::settings::{CACHES, in_force};

/// The longest wait between two tries.
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// What operators can set of a cache. Each of its shards needs a share.
pub(super) fn section<S: CacheSource>() -> Section<CacheSettings> {
    CACHES.with_check(|cache| cache.check(S::SHARDS))
}

/// What the actors of a cache are given: the source, and how to use it.
pub(super) struct CacheProvision<S> {
    source: S,
    /// What the code says.
    code: CacheSettings,
    /// What is in force, once the node has said it.
    in_force: OnceLock<CacheSettings>,
}

impl<S: CacheSource> CacheProvision<S> {
    pub(super) fn new(source: S, code: CacheSettings) -> Self {
        Self { source, code, in_force: OnceLock::new() }
    }

    /// How the cache behaves: what the code says, and over it what operators have set.
    pub(super) fn settings(&self) -> &CacheSettings {
        self.in_force.get().unwrap_or(&self.code)
    }

    /// Takes what operators have set.
    ///
    /// # Errors
    /// `Invalid` if that, or what the code says, cannot be.
    pub(super) fn configure(&self, services: &Services) -> Result<()> {
        if self.in_force.get().is_none() {
            let settings = in_force(services, section::<S>(), S::NAME, self.code.clone())?;
            settings.check(S::SHARDS)?;
            // Whoever was faster has come to the same.
            let _ = self.in_force.set(settings);
        }
        Ok(())
    }

    /// Asks the source for a value, as often as the settings say.
    pub(super) async fn load(&self, key: &S::Key) -> Result<Option<S::Value>> {
        self.trying(|| self.source.load(key)).await
    }

    /// Asks the source which keys are worth having, trying as often as the settings say.
    pub(super) async fn hot_keys(&self) -> Result<Vec<S::Key>> {
        self.trying(|| self.source.hot_keys()).await
    }

    /// Writes a batch to the source, trying as often as the settings say.
    pub(super) async fn store(&self, batch: &[(S::Key, Option<S::Value>)]) -> Result<()> {
        self.trying(|| self.source.store(batch)).await
    }

    async fn trying<T, R: Future<Output = Result<T>>>(&self, attempt: impl Fn() -> R) -> Result<T> {
        let CacheSettings { attempts, retry_pause, source_timeout, .. } = *self.settings();
        let mut pauses = Backoff::new(retry_pause, PAUSE_MAX.max(retry_pause)).retries();
        let mut tried = 1;
        loop {
            let outcome = match guarded(source_timeout, async { attempt().await }).await {
                Guarded::Ended(outcome) => outcome,
                Guarded::Late => Err(Error::new(
                    ErrorKind::Timeout,
                    format!("the source {} took longer than {source_timeout:?} (source_timeout)", S::NAME),
                )),
                Guarded::Panicked(panic) => Err(Error::fatal(format!("the source {} panicked: {panic}", S::NAME))),
            };
            match outcome {
                Err(error) if error.is_retryable() && tried < attempts => {
                    tokio::time::sleep(pauses.pause()).await;
                    tried += 1;
                }
                outcome => return outcome,
            }
        }
    }
}
