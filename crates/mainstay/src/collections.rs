//! Reliable collections: state that changes in transactions. The [guide](crate::guide::collections) teaches them.

#[doc(inline)]
pub use mainstay_api::collections::*;
