use std::time::Duration;

use mainstay::{Error, ErrorKind, Result};

use super::settings::CacheSettings;
use super::source::CacheSource;
use crate::owner::guarded::{Guarded, guarded};

/// The longest wait between two tries.
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// What the actors of a cache are given: the source, and how to use it.
pub(super) struct CacheProvision<S> {
    pub(super) source: S,
    pub(super) settings: CacheSettings,
}

impl<S: CacheSource> CacheProvision<S> {
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
        let CacheSettings { attempts, retry_pause, source_timeout, .. } = self.settings;
        let mut pause = retry_pause;
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
                    tokio::time::sleep(pause.mul_f64(rand::random_range(0.5..1.5))).await;
                    (tried, pause) = (tried + 1, (pause * 2).min(PAUSE_MAX));
                }
                outcome => return outcome,
            }
        }
    }
}
