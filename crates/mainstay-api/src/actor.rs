//! Virtual actors, their state, and what they do by themselves.

pub use mainstay_core::time::{WallTime, suspended, wall};
pub use mainstay_core::{ACTOR_ID_BYTES_MAX, ActorId};
/// The derive macro and the trait that it implements go by one name.
pub use mainstay_macros::Actor;
/// The derive macro and the trait that it implements go by one name.
pub use mainstay_macros::Event;
pub use mainstay_runtime::{
    Actor, ActorOptions, ActorSettings, CONTINUATIONS_PER_ACTOR_MAX, Context, ContinuationMethod,
    DYNAMIC_NAME_BYTES_MAX, Deferred, DynamicState, DynamicStateMut, Event, EventMethod, Events, Lifecycle, Paged,
    Received, Remind, Remindable, Responder, State, StateValue, TIMERS_PER_ACTOR_MAX, Timer, TimerMethod, TurnInfo,
    deferred,
};
pub use mainstay_runtime::{ActorInfo, ActorReminder, Actors, Listed, Listing, PAGE_MAX, Page, PageToken, Provided};
pub use mainstay_state::actor::{
    CRON_BYTES_MAX, CatchUp, CronSchedule, REMINDER_NAME_BYTES_MAX, REMINDER_PAYLOAD_BYTES_MAX, REMINDER_SPAN_MAX,
    Reminder, Schedule,
};
