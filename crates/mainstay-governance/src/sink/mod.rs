//! Where rows go: files and databases.

pub mod csv;
