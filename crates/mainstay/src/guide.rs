//! The guide: one page for each thing to learn. Every example is compiled by the tests, and most are run.

#[doc = include_str!("../../../docs/guide/collections.md")]
pub mod collections {}
