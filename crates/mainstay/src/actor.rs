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
//! # Events
//! An actor tells whoever listens, without knowing who does. An event is a serde type; it leaves when its turn is durable, and
//! a subscriber that was slow or away is told how many it has missed.
//!
//! ```
//! use mainstay::prelude::*;
//!
//! #[derive(Event, Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
//! pub struct Moved {
//!     to: (i64, i64),
//! }
//!
//! #[interface]
//! pub trait Ship {
//!     async fn sail(&mut self, to: (i64, i64)) -> Result<()>;
//! }
//!
//! #[derive(Actor)]
//! #[actor(implements(Ship), persistence = "none")]
//! pub struct ShipActor {
//!     at: State<(i64, i64)>,
//!     ctx: Context,
//! }
//!
//! impl Ship for ShipActor {
//!     async fn sail(&mut self, to: (i64, i64)) -> Result<()> {
//!         *self.at = to;
//!         self.ctx.publish(Moved { to })
//!     }
//! }
//!
//! #[interface]
//! pub trait Radar {
//!     async fn seen(&self) -> Result<Vec<(i64, i64)>>;
//! }
//!
//! /// An actor that listens to another: each event is a turn.
//! #[derive(Actor)]
//! #[actor(implements(Radar), persistence = "none")]
//! pub struct RadarActor {
//!     seen: State<Vec<(i64, i64)>>,
//!     ctx: Context,
//! }
//!
//! impl Lifecycle for RadarActor {
//!     async fn activate(&mut self) -> Result<()> {
//!         let ship: ShipRef = self.ctx.actor("titanic")?;
//!         self.ctx.subscribe(&ship, |radar: &mut Self, moved: Received<Moved>| {
//!             Box::pin(async move {
//!                 radar.seen.push(moved.event.to);
//!                 Ok(())
//!             })
//!         })
//!     }
//! }
//!
//! impl Radar for RadarActor {
//!     async fn seen(&self) -> Result<Vec<(i64, i64)>> {
//!         Ok(self.seen.clone())
//!     }
//! }
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let folder = folder.path();
//! let node = Node::builder().data_dir(folder).actor::<ShipActor>().actor::<RadarActor>().start().await?;
//! let (ship, radar): (ShipRef, RadarRef) = (node.actor("titanic")?, node.actor(1)?);
//! assert!(radar.seen().await?.is_empty());
//!
//! let mut moves = ship.events::<Moved>()?;
//! ship.sail((3, 4)).await?;
//! let Received { event, missed, sequence } = moves.next().await?;
//! assert_eq!((event, missed, sequence), (Moved { to: (3, 4) }, 0, 1));
//! while radar.seen().await? != [(3, 4)] {
//!     tokio::task::yield_now().await;
//! }
//! node.stop().await;
//! assert_eq!(moves.next().await.unwrap_err().kind(), ErrorKind::Fatal);
//! # Ok(())
//! # }
//! ```

pub use mainstay_core::{ACTOR_ID_BYTES_MAX, ActorId};
/// The derive macro and the trait that it implements go by one name.
pub use mainstay_macros::Actor;
/// The derive macro and the trait that it implements go by one name.
pub use mainstay_macros::Event;
pub use mainstay_runtime::{
    Actor, ActorOptions, ActorSettings, Context, Deferred, Event, Events, Lifecycle, Received, Remindable, Responder,
    State, TurnInfo, deferred,
};
