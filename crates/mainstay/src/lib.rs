//! Reliable actors for Rust: virtual actors and services whose state is transactional, replicated and durable, in your own
//! process.
//!
//! This crate is the façade: it has no code of its own, only the names that an application needs, gathered from the
//! crates that make up the system. Import [`prelude`] for what nearly every file uses; the modules have the rest.
//!
//! # Where it stands
//!
//! [Actors](actor) and stateful [services](service) with reliable [collections] run on one [node](Node) or on several, on replicated
//! [partitions](partition), with pools of [workers](worker) beside them; the [guide] teaches them. With the feature `governance` there
//! is `mainstay::governance`: many callers, few connections. [Several nodes](guide::cluster) are young: that page says what
//! is missing.
//!
//! # Errors
//!
//! There is one [`Error`] type. Its [`kind`](Error::kind) says what a caller can do, its text names the thing and the
//! remedy:
//!
//! ```
//! use mainstay::prelude::*;
//!
//! let error = "durable".parse::<Level>().unwrap_err();
//! assert_eq!(error.kind(), ErrorKind::Invalid);
//! assert!(error.to_string().contains("use \"persisted\", \"volatile\" or \"none\""));
//! ```

pub mod actor;
pub mod collections;
#[cfg(feature = "governance")]
pub mod governance;
pub mod guide;
pub mod node;
pub mod partition;
pub mod prelude;
pub mod service;
#[cfg(feature = "testkit")]
pub mod testkit;
pub mod worker;

#[doc(inline)]
pub use mainstay_api::*;
