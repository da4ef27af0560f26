//! Worker pools: stateless instances without identity, local to whoever calls them.
//!
//! The path of a call: its [`Desk`] leads to the [`WorkerPool`] → the [`Pool`](pool::Pool) gives the call a
//! [`Place`](place::Place), at once or after those who came before → the place's instance works for this call alone → the
//! place goes to the next call, or its instance rests until it is dropped for being idle.

pub(crate) mod context;
pub(crate) mod definition;
pub(crate) mod opening;
pub(crate) mod options;

pub(crate) mod desk;
pub(crate) mod host;
pub(crate) mod roster;

mod place;
mod pool;
