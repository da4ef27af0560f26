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
//!
//! # What is not always needed
//!
//! A [`State`] is in memory while its actor is. A [`Paged`] field is loaded when it is asked for first, and so is state under
//! names that are only known as the actor runs, which is reached by way of its [`Context`]. Everything that a turn has
//! changed is saved in one commit at its end, and nothing of it if it fails. [`Actor::save`] saves in the middle of a turn.
//!
//! ```
//! use mainstay::prelude::*;
//!
//! #[interface]
//! pub trait Player {
//!     async fn score(&mut self, game: String, points: u32) -> Result<u32>;
//!     async fn best(&self, game: String) -> Result<Option<u32>>;
//!     async fn history(&self) -> Result<Vec<u32>>;
//! }
//!
//! #[derive(Actor)]
//! #[actor(implements(Player))]
//! pub struct PlayerActor {
//!     history: Paged<Vec<u32>>, // loaded on first use
//!     ctx: Context,             // has state by name
//! }
//!
//! impl Player for PlayerActor {
//!     async fn score(&mut self, game: String, points: u32) -> Result<u32> {
//!         self.history.get_mut()?.push(points);
//!         let best = self.ctx.state_mut().add_or_update(&game, points, |best| points.max(*best))?;
//!         Ok(*best)
//!     }
//!
//!     async fn best(&self, game: String) -> Result<Option<u32>> {
//!         Ok(self.ctx.state().try_get(&game)?.map(|best| *best))
//!     }
//!
//!     async fn history(&self) -> Result<Vec<u32>> {
//!         Ok(self.history.get()?.clone())
//!     }
//! }
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let folder = folder.path();
//! let node = Node::builder().data_dir(folder).actor::<PlayerActor>().start().await?;
//! let alice: PlayerRef = node.actor("alice")?;
//! assert_eq!(alice.best("chess".into()).await?, None);
//! assert_eq!(alice.score("chess".into(), 7).await?, 7);
//! assert_eq!(alice.score("chess".into(), 3).await?, 7);
//! assert_eq!(alice.history().await?, [7, 3]);
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
