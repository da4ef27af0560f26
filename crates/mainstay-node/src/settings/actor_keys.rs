use mainstay_runtime::ActorSettings;

use super::key::{Key, key};

/// The settings of actors, for `[defaults]` and `[services.NAME]`. What they mean is said at [`ActorSettings`] and in the guide.
pub(crate) const ACTOR_KEYS: &[Key<ActorSettings>] = &[
    key!("idle_timeout", Duration(ActorSettings::DURATIONS), idle_timeout),
    key!("idle_scan", Duration(ActorSettings::DURATIONS), idle_scan),
    key!("active_actors_max", Limit(ActorSettings::ACTIVE_ACTORS) or none as Count, active_actors_max),
    key!("memory_max", BytesLimit(ActorSettings::MEMORY) or none as Bytes, memory_max),
    key!("mailbox", Count(ActorSettings::QUEUES) as usize, mailbox),
    key!("calls_max", Count(ActorSettings::QUEUES) as usize, calls_max),
    key!("call_timeout", Duration(ActorSettings::DURATIONS), call_timeout),
    key!("deactivation_grace", Duration(ActorSettings::DURATIONS), deactivation_grace),
    key!("slow_turn", Duration(ActorSettings::DURATIONS), slow_turn),
    key!("idempotency_retention", Duration(ActorSettings::DURATIONS), idempotency_retention),
    key!("idempotency_keys_max", Count(ActorSettings::PER_ACTOR) as usize, idempotency_keys_max),
    key!("reminders.retry_initial", Duration(ActorSettings::DURATIONS), reminders.retry_initial),
    key!("reminders.retry_max", Duration(ActorSettings::DURATIONS), reminders.retry_max),
    key!("reminders.count_max", Count(ActorSettings::PER_ACTOR) as usize, reminders.count_max),
    key!("events_buffer", Count(ActorSettings::QUEUES) as usize, events_buffer),
];
