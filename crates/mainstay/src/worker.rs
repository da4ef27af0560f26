//! Workers: pools of stateless instances in this process, for what needs neither identity nor state.
//!
//! ```
//! use mainstay::prelude::*;
//!
//! /// What callers see.
//! #[interface]
//! pub trait Shouting {
//!     /// The same in capitals.
//!     async fn shout(&mut self, text: String) -> Result<String>;
//! }
//!
//! #[derive(Worker)]
//! #[worker(implements(Shouting), min = 1, max = 8)]
//! pub struct Shouter {
//!     calls: u64, // its own, because an instance has one call at a time
//! }
//!
//! impl Shouting for Shouter {
//!     async fn shout(&mut self, text: String) -> Result<String> {
//!         self.calls += 1;
//!         Ok(text.to_uppercase())
//!     }
//! }
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let folder = folder.path();
//! let node = Node::builder().data_dir(folder).worker::<Shouter>().start().await?;
//!
//! let shouter: ShoutingRef = node.worker()?;
//! assert_eq!(shouter.shout("hello".into()).await?, "HELLO");
//! node.stop().await;
//! # Ok(())
//! # }
//! ```
//!
//! # Instances
//!
//! A call goes to an instance in the caller's own process, which has nothing else to do meanwhile, whether the method
//! takes `&self` or `&mut self`. If none is idle, one more is made, up to `max`; beyond it calls wait, first come, first
//! served, and beyond `waiting_max` they are refused as `Overloaded`. Instances above `min` are dropped when they have been
//! idle for a while. Which instance it is, nobody can choose: what is in its fields is to make the next call cheaper, and
//! nothing must depend on it.
//!
//! # Outcomes
//!
//! Once a call has begun it runs to its end, even if its caller goes away. One that waits is not begun when its caller has
//! gone away or its time limit has passed, which is `Timeout`. An error leaves the instance as it is. A panic fails that
//! call alone, and its instance is not used again.

#[doc(inline)]
pub use mainstay_api::worker::*;
