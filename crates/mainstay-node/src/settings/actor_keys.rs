use mainstay_runtime::ActorSettings;

use super::key::Key;
use crate::setting;

/// The settings of actors, for `[defaults]` and `[services.NAME]`. What they mean is said at [`ActorSettings`] and in the guide.
pub(crate) const ACTOR_KEYS: &[Key<ActorSettings>] = &[
    setting!("idle_timeout", Duration(ActorSettings::DURATIONS), idle_timeout),
    setting!("idle_scan", Duration(ActorSettings::DURATIONS), idle_scan),
    setting!("active_actors_max", Limit(ActorSettings::ACTIVE_ACTORS) or none as Count, active_actors_max),
    setting!("memory_max", BytesLimit(ActorSettings::MEMORY) or none as Bytes, memory_max),
    setting!("mailbox", Count(ActorSettings::QUEUES) as usize, mailbox),
    setting!("calls_max", Count(ActorSettings::QUEUES) as usize, calls_max),
    setting!("call_timeout", Duration(ActorSettings::DURATIONS), call_timeout),
    setting!("deactivation_grace", Duration(ActorSettings::DURATIONS), deactivation_grace),
    setting!("slow_turn", Duration(ActorSettings::DURATIONS), slow_turn),
    setting!("idempotency_retention", Duration(ActorSettings::DURATIONS), idempotency_retention),
    setting!("idempotency_keys_max", Count(ActorSettings::PER_ACTOR) as usize, idempotency_keys_max),
    setting!("reminders.retry_initial", Duration(ActorSettings::DURATIONS), reminders.retry_initial),
    setting!("reminders.retry_max", Duration(ActorSettings::DURATIONS), reminders.retry_max),
    setting!("reminders.count_max", Count(ActorSettings::PER_ACTOR) as usize, reminders.count_max),
    setting!("events_buffer", Count(ActorSettings::QUEUES) as usize, events_buffer),
];
