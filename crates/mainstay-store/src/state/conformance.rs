//! What every state store must do, as checks to run against it.
//!
//! [`check`] runs the named cases, [`check_steps`] a sequence of [`Step`]s against a model, which a property test or
//! [`random_steps`] makes up. A check panics where the store is wrong.
//!
//! ```
//! use std::sync::Arc;
//! use mainstay_store::state::{MemoryStore, StateStore, conformance};
//!
//! struct Memory;
//!
//! impl conformance::Subject for Memory {
//!     fn create(&mut self) -> Arc<dyn StateStore> {
//!         Arc::new(MemoryStore::new())
//!     }
//! }
//!
//! conformance::check(&mut Memory);
//! conformance::check_steps(&mut Memory, &conformance::random_steps(7, 50));
//! ```

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a check panics where a store is wrong")]

mod cases;
mod model;
mod steps;

use std::sync::Arc;

use super::StateStore;

pub use cases::check;
pub use model::check_steps;
pub use steps::{OwnedWrite, Step, random_steps};

/// A kind of store, as the checks use it.
pub trait Subject {
    /// A new store that is empty.
    fn create(&mut self) -> Arc<dyn StateStore>;

    /// Closes a store, whose last reference this is, without any warning to it, and opens it again; `None` if such
    /// stores do not outlive that.
    fn reopen(&mut self, store: Arc<dyn StateStore>) -> Option<Arc<dyn StateStore>> {
        drop(store);
        None
    }

    /// False for a store that does not outlive being reopened.
    fn is_durable(&self) -> bool {
        false
    }
}
