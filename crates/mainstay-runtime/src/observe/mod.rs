//! Metrics, slow-turn reports and traces of actors.
//!
//! [`ActorCounters`](counters::ActorCounters) holds the counters of one actor type on this node. Turns add to them, each thread
//! to its own stripe, and a periodic task publishes the differences to the recorder of the process: the path of a call never
//! touches a recorder. Durations are measured only while there is a recorder, and for so few calls per second that measuring
//! costs next to nothing; see [`MEASURED_MAX`](method_counters::MEASURED_MAX).
//!
//! | file | holds |
//! |---|---|
//! | `counters`, `method_counters`, `stripes` | the counters of an actor type, and of each of its methods |
//! | `published_totals` | publishing the counters to the recorder |
//! | `turn`, `slow_turn` | a turn under way: its duration, and the warning if it is slow |
//! | `outstanding_request`, `mailbox_wait` | a call until its reply, and while it is in the mailbox |
//! | `storage` | activations, loads and commits |
//! | `trace`, `propagation` | the spans of calls, and their traces in other processes |
//! | `throttle` | rate limiting of warnings |

pub(crate) mod counters;
pub(crate) mod mailbox_wait;
pub(crate) mod method_counters;
pub(crate) mod outstanding_request;
pub(crate) mod propagation;
pub(crate) mod published_totals;
mod slow_turn;
pub(crate) mod storage;
mod stripes;
mod throttle;
pub(crate) mod trace;
pub(crate) mod turn;
