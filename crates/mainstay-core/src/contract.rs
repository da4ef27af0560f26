//! Data contracts.
