//! The guide: the pattern from the problem up. Every example is compiled by the tests, and all that need no database are run.

#[doc = include_str!("../../../docs/guide/resource-governance.md")]
pub mod resource_governance {}
