//! Worker pools: stateless instances without identity, local to whoever calls them.
//!
//! The path of a call: the [`Pool`](pool::Pool) gives it a [`Place`](place::Place), at once or after those who came before →
//! the place's instance works for this call alone → the place goes to the next call, or its instance rests until it is
//! dropped for being idle.

mod options;
mod place;
mod pool;
