use mainstay_core::time::Duration;
use mainstay_runtime::{ActorSettings, StateOptions};

use super::key::Key;
use crate::setting;

/// The settings of the collections of services, for `[defaults]` and `[services.NAME]`. What they mean is said at
/// [`StateOptions`] and in the guide.
pub(crate) const STATE_KEYS: &[Key<StateOptions>] = &[
    // Nobody waits for longer than an hour, whatever is said.
    setting!("state.lock_timeout", Duration(Duration::from_millis(1)..=Duration::from_secs(60 * 60)), lock_timeout),
    setting!("state.cache_bytes_max", Bytes(ActorSettings::MEMORY) as u64, cache_bytes),
    setting!("state.retry.tries_max", Count(1..=1 << 20) as u32, retry.tries_max),
    setting!("state.retry.time_max", Duration(ActorSettings::DURATIONS), retry.time_max),
    setting!("state.retry.pause_first", Duration(ActorSettings::DURATIONS), retry.pause_first),
    setting!("state.retry.pause_max", Duration(ActorSettings::DURATIONS), retry.pause_max),
];

pub(crate) fn is_state_key(name: &str) -> bool {
    STATE_KEYS.iter().any(|key| key.name == name)
}
