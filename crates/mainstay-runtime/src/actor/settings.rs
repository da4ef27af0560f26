use std::ops::RangeInclusive;

use mainstay_core::time::Duration;
use mainstay_core::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::call::caller::CALL_TIMEOUT_DEFAULT;

/// How the actors of one type behave on a node.
///
/// Plain values, already put together from defaults, attribute, file and builder; `mainstay-node` does that and knows where
/// each comes from. Limits are for one type on one node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ActorSettings {
    /// An actor that was not used for so long is deactivated. Its state stays where it is.
    pub idle_timeout: Duration,
    /// How often is looked for idle actors.
    pub idle_scan: Duration,
    /// How many actors may be active; beyond, those that were used least recently are deactivated. `None` is no limit.
    pub active_actors_max: Option<u64>,
    /// How many bytes of state active actors may hold in memory, as they are stored; beyond, those that were used least
    /// recently are deactivated. `None` is no limit.
    pub memory_max: Option<u64>,
    /// How many calls may wait for one actor; beyond is `Overloaded`.
    pub mailbox: usize,
    /// How many calls of one actor may be under way beside each other: those that take `&self`, and those whose answer it still
    /// owes ([`Deferred`](crate::Deferred)), so many of each; beyond is `Overloaded`. Each holds its arguments and a task.
    pub calls_max: usize,
    /// How long a call may take unless the proxy says otherwise.
    pub call_timeout: Duration,
    /// How long what is under way may take when an actor is deactivated before it is dropped.
    pub deactivation_grace: Duration,
    /// A turn that takes longer is reported as a warning with its actor and method.
    pub slow_turn: Duration,
    /// How long the answer to a call with an idempotency key is kept for retries.
    pub idempotency_retention: Duration,
    /// How many answers may be kept for the idempotency keys of one actor; a call with another key is `Overloaded` then.
    pub idempotency_keys_max: usize,
    /// How reminders behave.
    pub reminders: ReminderSettings,
    /// How many events may wait for one subscriber; beyond, the oldest are dropped and counted as missed.
    pub events_buffer: usize,
}

/// How the reminders of actors behave.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ReminderSettings {
    /// How long to wait before a callback that failed is tried again, the first time; doubled each time.
    pub retry_initial: Duration,
    /// The longest wait between two tries.
    pub retry_max: Duration,
    /// How many reminders one actor may have; one more is `TooLarge`.
    pub count_max: usize,
}

impl Default for ActorSettings {
    fn default() -> Self {
        Self {
            idle_timeout: Duration::from_secs(60 * 60),
            idle_scan: Duration::from_secs(60),
            active_actors_max: None,
            memory_max: None,
            mailbox: 1024,
            calls_max: 16_384,
            call_timeout: CALL_TIMEOUT_DEFAULT,
            deactivation_grace: Duration::from_secs(5),
            slow_turn: Duration::from_secs(1),
            idempotency_retention: Duration::from_secs(24 * 60 * 60),
            idempotency_keys_max: 100_000,
            reminders: ReminderSettings::default(),
            events_buffer: 1024,
        }
    }
}

impl Default for ReminderSettings {
    fn default() -> Self {
        Self { retry_initial: Duration::from_secs(1), retry_max: Duration::from_secs(5 * 60), count_max: 100_000 }
    }
}

impl ActorSettings {
    /// What any length of time may be: timers count in milliseconds, and ten years are as good as never.
    pub const DURATIONS: RangeInclusive<Duration> =
        Duration::from_millis(1)..=Duration::from_secs(10 * 365 * 24 * 60 * 60);

    /// What the length of a queue may be. Each place costs memory for every actor that falls behind.
    pub const QUEUES: RangeInclusive<u64> = 1..=1 << 20;

    /// How many entries of a kind one actor may have. All of them are looked through when it is deleted.
    pub const PER_ACTOR: RangeInclusive<u64> = 1..=1 << 20;

    /// How many actors may be the limit of those that are active.
    pub const ACTIVE_ACTORS: RangeInclusive<u64> = 1..=1 << 40;

    /// How many bytes may be the limit of memory.
    pub const MEMORY: RangeInclusive<u64> = 64 << 10..=1 << 50;

    /// Says whether actors can run like this.
    ///
    /// # Errors
    /// `Invalid`, naming the setting and what it may be.
    pub fn check(&self) -> Result<()> {
        let durations = [
            ("idle_timeout", self.idle_timeout),
            ("idle_scan", self.idle_scan),
            ("call_timeout", self.call_timeout),
            ("deactivation_grace", self.deactivation_grace),
            ("slow_turn", self.slow_turn),
            ("idempotency_retention", self.idempotency_retention),
            ("reminders.retry_initial", self.reminders.retry_initial),
            ("reminders.retry_max", self.reminders.retry_max),
        ];
        for (name, value) in durations {
            if !Self::DURATIONS.contains(&value) {
                return Err(Error::invalid(format!("{name} is {value:?}: use 1 ms to 10 years")));
            }
        }
        let counts = [
            ("mailbox", Some(self.mailbox as u64), Self::QUEUES),
            ("idempotency_keys_max", Some(self.idempotency_keys_max as u64), Self::PER_ACTOR),
            ("reminders.count_max", Some(self.reminders.count_max as u64), Self::PER_ACTOR),
            ("calls_max", Some(self.calls_max as u64), Self::QUEUES),
            ("events_buffer", Some(self.events_buffer as u64), Self::QUEUES),
            ("active_actors_max", self.active_actors_max, Self::ACTIVE_ACTORS),
            ("memory_max", self.memory_max, Self::MEMORY),
        ];
        for (name, value, range) in counts {
            if let Some(value) = value.filter(|value| !range.contains(value)) {
                return Err(Error::invalid(format!("{name} is {value}: use {} to {}", range.start(), range.end())));
            }
        }
        if self.idle_scan > self.idle_timeout {
            return Err(Error::invalid(format!(
                "idle_scan is {:?} and idle_timeout is {:?}, so that an idle actor would stay for much longer than it is to: give \
                 idle_scan at most idle_timeout, or leave it out",
                self.idle_scan, self.idle_timeout
            )));
        }
        if self.reminders.retry_initial > self.reminders.retry_max {
            return Err(Error::invalid(format!(
                "reminders.retry_initial is {:?} and reminders.retry_max is {:?}: the first wait may not be longer than the \
                 longest, so give reminders.retry_max at least as much",
                self.reminders.retry_initial, self.reminders.retry_max
            )));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_those_that_are_documented_and_hold() {
        let settings = ActorSettings::default();
        settings.check().unwrap();
        assert_eq!((settings.idle_timeout.as_secs(), settings.idle_scan.as_secs()), (3600, 60));
        assert_eq!((settings.mailbox, settings.calls_max, settings.events_buffer), (1024, 16_384, 1024));
        assert_eq!((settings.call_timeout.as_secs(), settings.idempotency_retention.as_secs()), (60, 86_400));
        assert_eq!((settings.reminders.retry_initial.as_secs(), settings.reminders.retry_max.as_secs()), (1, 300));
    }

    #[test]
    fn what_cannot_be_is_named() {
        let refused = |change: fn(&mut ActorSettings), name: &str| {
            let mut settings = ActorSettings::default();
            change(&mut settings);
            let error = settings.check().unwrap_err().to_string();
            assert!(error.starts_with(name), "{error}");
        };
        refused(|settings| settings.mailbox = 0, "mailbox is 0: use 1 to 1048576");
        refused(|settings| settings.calls_max = 0, "calls_max is 0: use 1 to 1048576");
        refused(|settings| settings.events_buffer = 2 << 20, "events_buffer");
        refused(|settings| settings.idle_scan = Duration::ZERO, "idle_scan is 0ns: use 1 ms to 10 years");
        refused(|settings| settings.call_timeout = Duration::MAX, "call_timeout");
        refused(|settings| settings.memory_max = Some(1), "memory_max");
        refused(|settings| settings.active_actors_max = Some(0), "active_actors_max");
        refused(|settings| settings.idle_timeout = Duration::from_secs(59), "idle_scan is 60s and idle_timeout is 59s");
        refused(|settings| settings.reminders.retry_max = Duration::from_millis(5), "reminders.retry_initial is 1s");
    }
}
