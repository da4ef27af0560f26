//! Where rows go: files and databases.

pub mod csv;
#[cfg(feature = "postgres")]
pub mod postgres;
