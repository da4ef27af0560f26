//! Where rows go: files and databases.

#[cfg(feature = "postgres")]
pub mod postgres;
