//! A process that takes part in the system.

#[doc(inline)]
pub use mainstay_api::node::*;
