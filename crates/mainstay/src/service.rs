//! Stateful services: an object per partition that owns its state and can be called from anywhere.
//!
//! ```
//! use mainstay::prelude::*;
//!
//! /// What callers see.
//! #[interface]
//! pub trait Inventory {
//!     /// Adds to the stock of an article, and says how much there is.
//!     async fn add(&self, sku: String, n: u32) -> Result<u32>;
//!
//!     /// Takes from the stock of an article; false if there is not enough.
//!     async fn reserve(&self, sku: String, n: u32) -> Result<bool>;
//! }
//!
//! #[derive(Service)]
//! #[service(implements(Inventory), partitions = "uniform(10)", persistence = "persisted")]
//! pub struct InventoryService {
//!     stock: Dictionary<String, u32>, // opened under the name of the field
//!     state: StateManager,
//! }
//!
//! impl Inventory for InventoryService {
//!     async fn add(&self, sku: String, n: u32) -> Result<u32> {
//!         self.state
//!             .transact(async |mut tx| {
//!                 let left = self.stock.get_for_update(&mut tx, &sku).await?.map_or(0, |left| *left) + n;
//!                 self.stock.set(&mut tx, sku.clone(), left).await?;
//!                 Ok(left)
//!             })
//!             .await
//!     }
//!
//!     async fn reserve(&self, sku: String, n: u32) -> Result<bool> {
//!         self.state
//!             .transact(async |mut tx| {
//!                 let Some(left) = self.stock.get_for_update(&mut tx, &sku).await? else { return Ok(false) };
//!                 if *left < n {
//!                     return Ok(false);
//!                 }
//!                 self.stock.set(&mut tx, sku.clone(), *left - n).await?;
//!                 Ok(true)
//!             })
//!             .await
//!     }
//! }
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let folder = folder.path();
//! let node = Node::builder().data_dir(folder).service::<InventoryService>().start().await?;
//!
//! let inventory: InventoryRef = node.service("alice")?; // the partition of this key
//! assert_eq!(inventory.add("apple".into(), 3).await?, 3);
//! assert!(inventory.reserve("apple".into(), 2).await?);
//! assert!(!inventory.reserve("apple".into(), 2).await?);
//! node.stop().await;
//! # Ok(())
//! # }
//! ```
//!
//! # Partitions
//!
//! The attribute says how a service is cut; it is recorded when the service first starts, and other code is refused then.
//!
//! | `partitions =` | key of a caller |
//! |---|---|
//! | `uniform(10)` (the default) | an `i64`, as it is; a text or a uuid, by its [hash](crate::partitioning::hash) |
//! | `uniform(4, 0..=99)` | an `i64` of that range |
//! | `named("eu", "us")` | `PartitionKey::named("eu")` |
//! | `singleton` | `()` |
//!
//! # Calls
//!
//! Calls to one partition run beside each other: methods take `&self`, and locks on what they read and write keep them
//! apart. A call waits while its partition is being opened. Once it has begun it runs to its end, even if its caller goes
//! away; a caller whose time limit ([`Proxy::with_timeout`], 60 s unless told otherwise) passes by then gets
//! `OutcomeUnknown`. So does the caller of a method that panics, which concerns no other call.
//!
//! # What a partition does by itself
//!
//! With `run` in the attribute, `async fn run(&self, ctx: ServiceContext) -> Result<()>` is started when the partition becomes
//! primary here. It is to end when [`ServiceContext::cancelled`] is ready, and is dropped a few seconds later. If it
//! fails or panics, that is reported and it is started again, after pauses that grow up to half a minute; if it returns
//! `Ok`, it is done.

#[doc(inline)]
pub use mainstay_api::service::*;
