//! Where rows go: files and databases.
