//! Actors: what their authors write, where they live, and how their turns become durable.
//!
//! An actor's [`cell`] says who has it and who waits; [`work`] is what happens in a turn; its [`gate`] keeps what a turn
//! sends until the turn is durable; its [`shared`] is all of it that others refer to. The cells of a partition are in its
//! [`partition`].

// What authors use.
pub(crate) mod context;
pub(crate) mod definition;
#[cfg(feature = "testkit")]
pub(crate) mod detached;
pub(crate) mod dynamic;
pub(crate) mod event;
pub(crate) mod hooks;
pub(crate) mod kept;
pub(crate) mod paged;
pub(crate) mod settings;
pub(crate) mod state;

// What an actor does by itself.
pub(crate) mod activation_tasks;
pub(crate) mod alarm;
pub(crate) mod bell;
pub(crate) mod continuation;
pub(crate) mod keep_alive;
pub(crate) mod reminder;
pub(crate) mod reminder_job;
pub(crate) mod sweep;
pub(crate) mod timer;

// Where an actor is, and its turns.
pub(crate) mod access;
pub(crate) mod actor_shared;
pub(crate) mod actor_table;
pub(crate) mod cell;
pub(crate) mod gate;
pub(crate) mod internal;
pub(crate) mod mailbox_item;
pub(crate) mod pooled_future;
pub(crate) mod route_cache;
pub(crate) mod saving;
pub(crate) mod tally;
pub(crate) mod work;

// How actors come and go.
pub(crate) mod activation;
pub(crate) mod deactivation;
pub(crate) mod deletion;
pub(crate) mod enumeration;
pub(crate) mod eviction;
pub(crate) mod memory_budget;
pub(crate) mod presence;
pub(crate) mod revival;
pub(crate) mod stray_fields;

pub use context::Context;
pub use continuation::{CONTINUATIONS_PER_ACTOR_MAX, ContinuationMethod};
pub use definition::Actor;
pub use dynamic::{DYNAMIC_NAME_BYTES_MAX, DynamicState, DynamicStateMut, StateValue};
pub use event::{Event, EventMethod, Events, Received};
pub use hooks::{Lifecycle, LifecycleHooks, NoLifecycle, NotRemindable, Probe, RemindHook, Remindable, TurnInfo};
pub use kept::{ActorOpening, Kept, Seal};
pub use paged::Paged;
pub use reminder::Remind;
pub use state::State;
pub use timer::{TIMERS_PER_ACTOR_MAX, Timer, TimerMethod};
