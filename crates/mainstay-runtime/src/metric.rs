//! Metrics: the names of all metrics, their descriptions, and the handles through which the runtime records them.
//!
//! All metrics go through the `metrics` facade to the recorder of the process; without a recorder they cost next
//! to nothing. A node installs a recorder for Prometheus when it has an admin address. A handle is bound to the recorder
//! that is installed when the handle is made, so handles are made when a node starts and kept, never looked up per call.
//!
//! All calls are counted. Durations are measured only while the process has a recorder, and for at most 1,024 calls of a method
//! per second and thread: up to that rate a histogram counts all calls, and beyond that rate a sample.
//!
//! Labels: `actor` is the name of an actor type, `method` one of its methods, `set` a replica set such as `persisted-3`. The
//! id of an actor is never a label, because a series per actor would have no bound.

use metrics::{Counter, Gauge, Histogram, Unit};

/// The upper bounds of the buckets of every histogram, in seconds.
pub use mainstay_core::timings::SECONDS_BOUNDS;

/// Calls that began, by actor type and method; timers and reminders are methods too.
pub const ACTOR_INVOCATIONS: &str = "mainstay_actor_invocations_total";
/// Turns that ended with an error or a panic, by actor type and method.
pub const ACTOR_FAILURES: &str = "mainstay_actor_failures_total";
/// How long turns took, from the start of the method to its end, by actor type and method.
pub const ACTOR_TURN: &str = "mainstay_actor_turn_seconds";
/// How long calls waited in the mailbox, by actor type. Calls that found their actor idle are not in it.
pub const ACTOR_TURN_WAIT: &str = "mainstay_actor_turn_wait_seconds";
/// Calls in mailboxes now, by actor type.
pub const ACTOR_CALLS_WAITING: &str = "mainstay_actor_calls_waiting";
/// Calls that were refused because the mailbox was full, by actor type.
pub const ACTOR_MAILBOX_FULL: &str = "mainstay_actor_mailbox_full_total";
/// Turns that took longer than `slow_turn`, by actor type and method.
pub const ACTOR_SLOW_TURNS: &str = "mainstay_actor_slow_turns_total";
/// Calls that were admitted, did not get their reply at once and have none yet, by actor type.
pub const ACTOR_REQUESTS_OUTSTANDING: &str = "mainstay_actor_requests_outstanding";
/// How long calls took from arrival to reply, commit included, by actor type and method.
pub const ACTOR_REQUEST: &str = "mainstay_actor_request_seconds";
/// How long the commit of a turn's changes took, by actor type.
pub const ACTOR_STATE_SAVE: &str = "mainstay_actor_state_save_seconds";
/// How long it took to load state, by actor type.
pub const ACTOR_STATE_LOAD: &str = "mainstay_actor_state_load_seconds";
/// How long activations took, state and hook included, by actor type.
pub const ACTOR_ACTIVATION: &str = "mainstay_actor_activation_seconds";
/// Activations, by actor type.
pub const ACTOR_ACTIVATIONS: &str = "mainstay_actor_activations_total";
/// Deactivations, by actor type.
pub const ACTOR_DEACTIVATIONS: &str = "mainstay_actor_deactivations_total";
/// Actors that are active now, by actor type.
pub const ACTOR_ACTIVE: &str = "mainstay_actor_active";

/// Commits that were acknowledged, by set.
pub const REPLICA_COMMITS: &str = "mainstay_replica_commits_total";
/// Log entries that merged commits and were committed, by set.
pub const REPLICA_ENTRIES: &str = "mainstay_replica_entries_total";
/// Bytes submitted for commit, by set.
pub const REPLICA_COMMIT_BYTES: &str = "mainstay_replica_commit_bytes_total";
/// How long log entries took from the proposal to their outcome, by set. The time of a commit in the queue before is not in it.
pub const REPLICA_COMMIT: &str = "mainstay_replica_commit_seconds";
/// Commits that wait to be proposed now, by set.
pub const REPLICA_COMMITS_WAITING: &str = "mainstay_replica_commits_waiting";
/// Commits that were refused as `Overloaded`, by set.
pub const REPLICA_THROTTLED: &str = "mainstay_replica_throttled_total";
/// Bytes that were applied since the last checkpoint, by set.
pub const REPLICA_UNSAVED_BYTES: &str = "mainstay_replica_unsaved_bytes";
/// Bytes written by checkpoints, by set.
pub const REPLICA_CHECKPOINT_BYTES: &str = "mainstay_replica_checkpoint_bytes_total";
/// How long checkpoints took, by set.
pub const REPLICA_CHECKPOINT: &str = "mainstay_replica_checkpoint_seconds";
/// Bytes of snapshots that were sent to replicas on other nodes, by set.
pub const REPLICA_COPIED_BYTES: &str = "mainstay_replica_copied_bytes_total";

/// 1 if the replica of a set has stopped after a failure and is not served until the node is restarted, by set.
pub const REPLICA_STOPPED: &str = "mainstay_replica_stopped";

/// Entries that the state of a set holds; on disk, as of its last checkpoint.
pub const STORE_ENTRIES: &str = "mainstay_store_entries";
/// Bytes of keys and values that the state of a set holds; on disk, as of its last checkpoint.
pub const STORE_BYTES: &str = "mainstay_store_bytes";

/// Bytes that were written to the node log.
pub const LOG_BYTES: &str = "mainstay_log_bytes_total";
/// Writes of the node log that were followed by a sync.
pub const LOG_FLUSHES: &str = "mainstay_log_flushes_total";
/// How long a write of the node log and its sync took.
pub const LOG_FLUSH: &str = "mainstay_log_flush_seconds";
/// 1 if the node log has stopped, and persisted commits fail until the node is restarted.
pub const LOG_STOPPED: &str = "mainstay_log_stopped";
/// 1 while commits are refused because the disk of the node log is nearly full.
pub const LOG_LOW_SPACE: &str = "mainstay_log_low_space";
/// The free bytes on the disk of the node log at the last check.
pub const LOG_FREE_BYTES: &str = "mainstay_log_free_bytes";

/// The kind of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only grows.
    Counter,
    /// Grows and shrinks.
    Gauge,
    /// Durations in seconds, by bucket.
    Histogram,
}

/// A metric with its description.
#[derive(Debug, Clone, Copy)]
pub struct Described {
    /// Its name.
    pub name: &'static str,
    /// Its kind.
    pub kind: Kind,
    /// The description for operators.
    pub about: &'static str,
}

const fn counter(name: &'static str, about: &'static str) -> Described {
    Described { name, kind: Kind::Counter, about }
}

const fn gauge(name: &'static str, about: &'static str) -> Described {
    Described { name, kind: Kind::Gauge, about }
}

const fn histogram(name: &'static str, about: &'static str) -> Described {
    Described { name, kind: Kind::Histogram, about }
}

/// All metrics.
pub const ALL: &[Described] = &[
    counter(ACTOR_INVOCATIONS, "Calls that began"),
    counter(ACTOR_FAILURES, "Turns that ended with an error or a panic"),
    histogram(ACTOR_TURN, "How long turns took (a sample above 1024 calls per second and thread)"),
    histogram(ACTOR_TURN_WAIT, "How long calls waited in the mailbox, if they had to (a sample, as turns)"),
    gauge(ACTOR_CALLS_WAITING, "Calls in mailboxes"),
    counter(ACTOR_MAILBOX_FULL, "Calls refused because the mailbox was full"),
    counter(ACTOR_SLOW_TURNS, "Turns that took longer than slow_turn"),
    gauge(ACTOR_REQUESTS_OUTSTANDING, "Calls admitted and without a reply"),
    histogram(ACTOR_REQUEST, "How long calls took from arrival to reply, commit included (a sample, as turns)"),
    histogram(ACTOR_STATE_SAVE, "How long the commit of a turn's changes took"),
    histogram(ACTOR_STATE_LOAD, "How long it took to load state"),
    histogram(ACTOR_ACTIVATION, "How long activations took"),
    counter(ACTOR_ACTIVATIONS, "Activations"),
    counter(ACTOR_DEACTIVATIONS, "Deactivations"),
    gauge(ACTOR_ACTIVE, "Actors that are active"),
    counter(REPLICA_COMMITS, "Commits acknowledged"),
    counter(REPLICA_ENTRIES, "Log entries that commits were merged into"),
    counter(REPLICA_COMMIT_BYTES, "Bytes submitted for commit"),
    histogram(REPLICA_COMMIT, "How long log entries took from proposal to outcome"),
    gauge(REPLICA_COMMITS_WAITING, "Commits that wait to be proposed"),
    counter(REPLICA_THROTTLED, "Commits refused as overloaded"),
    gauge(REPLICA_UNSAVED_BYTES, "Bytes applied since the last checkpoint"),
    counter(REPLICA_CHECKPOINT_BYTES, "Bytes written by checkpoints"),
    histogram(REPLICA_CHECKPOINT, "How long checkpoints took"),
    counter(REPLICA_COPIED_BYTES, "Bytes of snapshots sent to other replicas"),
    gauge(REPLICA_STOPPED, "1 if the replica of a set has stopped after a failure"),
    gauge(STORE_ENTRIES, "Entries that the state holds (on disk, as of the last checkpoint)"),
    gauge(STORE_BYTES, "Bytes of keys and values that the state holds (on disk, as of the last checkpoint)"),
    counter(LOG_BYTES, "Bytes written to the node log"),
    counter(LOG_FLUSHES, "Synced writes of the node log"),
    histogram(LOG_FLUSH, "How long a synced write of the node log took"),
    gauge(LOG_STOPPED, "1 if the node log has stopped"),
    gauge(LOG_LOW_SPACE, "1 while commits are refused because the disk is nearly full"),
    gauge(LOG_FREE_BYTES, "Free bytes on the disk of the node log"),
];

/// True if the process has a recorder, so that measuring is worth its cost. The no-op recorder of the facade is a type without
/// fields, and so its size is zero.
pub(crate) fn is_recorded() -> bool {
    metrics::with_recorder(|recorder| size_of_val(recorder) > 0)
}

/// Registers the descriptions of all metrics at the recorder of the process. To be called once, after the recorder was installed.
pub fn describe() {
    for Described { name, kind, about } in ALL.iter().copied() {
        match kind {
            Kind::Counter => metrics::describe_counter!(name, about),
            Kind::Gauge => metrics::describe_gauge!(name, about),
            Kind::Histogram => metrics::describe_histogram!(name, Unit::Seconds, about),
        }
    }
}

/// The metric handles of an actor type.
#[derive(Clone)]
pub struct ActorMetrics {
    /// [`ACTOR_TURN_WAIT`].
    pub turn_wait: Histogram,
    /// [`ACTOR_CALLS_WAITING`].
    pub calls_waiting: Gauge,
    /// [`ACTOR_MAILBOX_FULL`].
    pub mailbox_full: Counter,
    /// [`ACTOR_REQUESTS_OUTSTANDING`].
    pub requests_outstanding: Gauge,
    /// [`ACTOR_STATE_SAVE`].
    pub state_save: Histogram,
    /// [`ACTOR_STATE_LOAD`].
    pub state_load: Histogram,
    /// [`ACTOR_ACTIVATION`].
    pub activation: Histogram,
    /// [`ACTOR_ACTIVATIONS`].
    pub activations: Counter,
    /// [`ACTOR_DEACTIVATIONS`].
    pub deactivations: Counter,
    /// [`ACTOR_ACTIVE`].
    pub active: Gauge,
}

impl ActorMetrics {
    /// The handles of an actor type, bound to the recorder that the process has now.
    pub fn new(actor: &str) -> Self {
        let actor = || actor.to_owned();
        Self {
            turn_wait: metrics::histogram!(ACTOR_TURN_WAIT, "actor" => actor()),
            calls_waiting: metrics::gauge!(ACTOR_CALLS_WAITING, "actor" => actor()),
            mailbox_full: metrics::counter!(ACTOR_MAILBOX_FULL, "actor" => actor()),
            requests_outstanding: metrics::gauge!(ACTOR_REQUESTS_OUTSTANDING, "actor" => actor()),
            state_save: metrics::histogram!(ACTOR_STATE_SAVE, "actor" => actor()),
            state_load: metrics::histogram!(ACTOR_STATE_LOAD, "actor" => actor()),
            activation: metrics::histogram!(ACTOR_ACTIVATION, "actor" => actor()),
            activations: metrics::counter!(ACTOR_ACTIVATIONS, "actor" => actor()),
            deactivations: metrics::counter!(ACTOR_DEACTIVATIONS, "actor" => actor()),
            active: metrics::gauge!(ACTOR_ACTIVE, "actor" => actor()),
        }
    }
}

impl std::fmt::Debug for ActorMetrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ActorMetrics").finish_non_exhaustive()
    }
}

/// The metric handles of a method of an actor type.
#[derive(Clone)]
pub struct MethodMetrics {
    /// [`ACTOR_INVOCATIONS`].
    pub invocations: Counter,
    /// [`ACTOR_FAILURES`].
    pub failures: Counter,
    /// [`ACTOR_TURN`].
    pub turn: Histogram,
    /// [`ACTOR_SLOW_TURNS`].
    pub slow_turns: Counter,
    /// [`ACTOR_REQUEST`].
    pub request: Histogram,
}

impl MethodMetrics {
    /// The handles of a method, bound to the recorder that the process has now.
    pub fn new(actor: &str, method: &str) -> Self {
        let labels = || [("actor", actor.to_owned()), ("method", method.to_owned())];
        Self {
            invocations: metrics::counter!(ACTOR_INVOCATIONS, &labels()),
            failures: metrics::counter!(ACTOR_FAILURES, &labels()),
            turn: metrics::histogram!(ACTOR_TURN, &labels()),
            slow_turns: metrics::counter!(ACTOR_SLOW_TURNS, &labels()),
            request: metrics::histogram!(ACTOR_REQUEST, &labels()),
        }
    }
}

impl std::fmt::Debug for MethodMetrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MethodMetrics").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_rules_of_prometheus() {
        let mut names: Vec<_> = ALL.iter().map(|metric| metric.name).collect();
        for metric in ALL {
            let name = metric.name;
            assert!(name.starts_with("mainstay_"), "{name}");
            assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{name}");
            assert_eq!(metric.kind == Kind::Counter, name.ends_with("_total"), "{name}");
            assert_eq!(metric.kind == Kind::Histogram, name.ends_with("_seconds"), "{name}");
            assert!(!metric.about.is_empty(), "{name}");
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ALL.len());
    }

    #[test]
    fn without_a_recorder_counting_does_nothing() {
        describe();
        let (actor, method) = (ActorMetrics::new("Counter"), MethodMetrics::new("Counter", "add"));
        actor.active.increment(1.0);
        method.turn.record(0.5);
        method.invocations.increment(1);
    }
}
