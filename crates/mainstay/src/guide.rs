//! The guide: one page for each thing to learn. Every example is compiled by the tests, and most are run.

#[doc = include_str!("../../../docs/guide/actors.md")]
pub mod actors {}

#[doc = include_str!("../../../docs/guide/cluster.md")]
pub mod cluster {}

#[doc = include_str!("../../../docs/guide/collections.md")]
pub mod collections {}

#[doc = include_str!("../../../docs/guide/configuration.md")]
pub mod configuration {}

#[doc = include_str!("../../../docs/guide/observability.md")]
pub mod observability {}

#[cfg(feature = "governance")]
#[doc = include_str!("../../../docs/guide/resource-governance.md")]
pub mod resource_governance {}

/// The page that everybody reads first; its example is compiled with the others.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
pub mod readme {}
