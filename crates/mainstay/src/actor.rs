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
//!
//! # What an actor does by itself
//!
//! A **reminder** is durable: it is set and cancelled in the same commit as the rest of the turn, survives restarts, and is
//! fired until it was handled. A **timer** is plain memory: it ends with the activation. A **continuation** waits for
//! something outside of the turns of the actor, and goes on with what came of it in a new one.
//!
//! ```
//! use std::time::Duration;
//!
//! use mainstay::prelude::*;
//!
//! #[interface]
//! trait Invoice {
//!     async fn issue(&mut self, cents: u64) -> Result<()>;
//! }
//!
//! #[derive(Actor)]
//! #[actor(implements(Invoice))]
//! struct InvoiceActor {
//!     letters: State<u32>,
//!     is_printed: bool,
//!     ctx: Context,
//! }
//!
//! impl Invoice for InvoiceActor {
//!     async fn issue(&mut self, cents: u64) -> Result<()> {
//!         let month = Duration::from_secs(30 * 24 * 60 * 60);
//!         self.ctx.remind("overdue").after(month).every(month / 2).value(&cents).set()?;
//!         self.ctx.set_timer("tidy", Duration::from_secs(60), None, Self::tidy)?;
//!         self.ctx.then(print(cents), Self::printed)
//!     }
//! }
//!
//! impl Remindable for InvoiceActor {
//!     async fn remind(&mut self, reminder: Reminder) -> Result<()> {
//!         let cents: u64 = reminder.decode()?;
//!         *self.letters += 1;
//!         if *self.letters == 3 || cents == 0 {
//!             self.ctx.cancel_reminder(&reminder.name)?;
//!         }
//!         Ok(())
//!     }
//! }
//!
//! impl InvoiceActor {
//!     async fn tidy(&mut self) -> Result<()> {
//!         Ok(())
//!     }
//!
//!     async fn printed(&mut self, is_printed: bool) -> Result<()> {
//!         self.is_printed = is_printed;
//!         Ok(())
//!     }
//! }
//!
//! async fn print(cents: u64) -> bool {
//!     cents > 0
//! }
//! # fn main() {}
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
//!         self.ctx.subscribe(&ship, Self::moved)
//!     }
//! }
//!
//! impl RadarActor {
//!     async fn moved(&mut self, moved: Received<Moved>) -> Result<()> {
//!         self.seen.push(moved.event.to);
//!         Ok(())
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

#[doc(inline)]
pub use mainstay_api::actor::*;
