//! What an actor service stores in one partition: which actors there are, their state, their reminders, the answers
//! of calls that are made at most once, and how many events they have published, all as keys of the partition's one store.
//!
//! The path of a change: an [`ActorWrites`] takes what one turn changes, and those of the turns after it are
//! [merged](ActorWrites::merge) into it while it waits → [`ActorStore::commit`] makes one batch of it, indexes by time
//! included, which the partition commits → reads see it. Until then whoever runs the actor reads through the writes that
//! are not committed.
//!
//! This is plain storage. Nothing here knows of turns, locks or tasks, and nothing asks what time it is: what a
//! [`Reminder`] does next is a function of the time that it is given. The bytes are in `docs/internals/actor-state.md`.

mod committing;
mod store;
mod writes;

mod deletion;

mod answer;
mod cron;
mod lane;
mod payload;
mod published;
mod reminder;
mod schedule;

mod layout;
mod name;
mod record;

pub use answer::{ANSWER_METHOD_BYTES_MAX, Answer};
pub use cron::{CRON_BYTES_MAX, CronSchedule};
pub use lane::LaneAnswer;
pub(crate) use layout::refuse_actors;
pub use name::{
    EVENT_NAME_BYTES_MAX, IDEMPOTENCY_KEY_BYTES_MAX, LANE_NAME_BYTES_MAX, REMINDER_NAME_BYTES_MAX, STATE_NAME_BYTES_MAX,
};
pub use published::Published;
pub use reminder::{CatchUp, REMINDER_PAYLOAD_BYTES_MAX, RETRY_BACKOFF, Reminder, WhenDue};
pub use schedule::{REMINDER_SPAN_MAX, Schedule};
pub use store::ActorStore;
pub use writes::ActorWrites;
