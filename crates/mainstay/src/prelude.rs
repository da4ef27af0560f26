//! What nearly every file of an application imports: `use mainstay::prelude::*;`.
//!
//! Kept short on purpose, because every name in it is taken from the application. It shadows the two-parameter
//! `Result` of the standard library with one whose error defaults to [`Error`], and so stays compatible with it.

#[doc(inline)]
pub use mainstay_api::prelude::*;
