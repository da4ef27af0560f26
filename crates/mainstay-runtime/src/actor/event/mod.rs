//! Events: what an actor tells whoever listens, without knowing who does.
//!
//! The path of an event: [`Context::publish`](crate::Context::publish) counts it with what the turn changes, and lets it
//! leave when that is durable → the gate hands what leaves to the actor's [`departure`], which numbers it by the stored
//! count → the [`audience`] of the partition says who listens → each listener's [`inbox`] keeps it until it is taken by
//! [`Events`] or, for an actor, by the task behind [`Context::subscribe`](crate::Context::subscribe).
//!
//! The audience belongs to the slot of the partition, not to its actors: a subscription is there before the partition is
//! opened, and outlives its closing. Nothing has to be connected again, and the numbers say what was missed.
//!
//! While the actor is on another node, a [`feed`] asks that node for what has come, which keeps a [`lease`] for it; the numbers say what
//! was missed while the role moved.

mod definition;
mod events;
mod handler;
mod publishing;
mod received;
mod subscribing;

pub(crate) mod audience;
pub(crate) mod departure;
pub(crate) mod inbox;

mod feed;
pub(crate) mod lease;

mod subscription;

pub use definition::Event;
pub use events::Events;
pub use handler::EventMethod;
pub use received::Received;
pub(crate) use subscribing::Listeners;
pub(crate) use subscription::Subscription;
