//! Virtual actors: an object per id that is there whenever it is called, and whose state outlives it.
//!
//! ```
//! use mainstay::prelude::*;
//!
//! /// What callers see.
//! #[interface]
//! pub trait Counter {
//!     /// The count: a shared turn.
//!     async fn count(&self) -> Result<i64>;
//!
//!     /// Adds to the count: an exclusive turn.
//!     async fn add(&mut self, n: i64) -> Result<i64>;
//! }
//!
//! #[derive(Actor)]
//! #[actor(implements(Counter), persistence = "persisted")]
//! pub struct CounterActor {
//!     count: State<i64>, // loaded on activation, saved at the end of a turn if it changed
//! }
//!
//! impl Counter for CounterActor {
//!     async fn count(&self) -> Result<i64> {
//!         Ok(*self.count)
//!     }
//!
//!     async fn add(&mut self, n: i64) -> Result<i64> {
//!         *self.count += n;
//!         Ok(*self.count)
//!     }
//! }
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let folder = folder.path();
//! let node = Node::builder().data_dir(folder).actor::<CounterActor>().start().await?;
//!
//! let alice: CounterRef = node.actor("alice")?;
//! assert_eq!(alice.add(1).await?, 1);
//! assert_eq!(alice.add(2).await?, 3);
//! assert_eq!(alice.count().await?, 3);
//! node.stop().await;
//! # Ok(())
//! # }
//! ```

pub use mainstay_core::{ACTOR_ID_BYTES_MAX, ActorId};
/// The derive macro and the trait that it implements go by one name.
pub use mainstay_macros::Actor;
pub use mainstay_runtime::{
    Actor, ActorOptions, ActorSettings, Context, DYNAMIC_NAME_BYTES_MAX, Deferred, DynamicState, DynamicStateMut,
    Lifecycle, Paged, Remindable, Responder, State, StateValue, TurnInfo, deferred,
};
