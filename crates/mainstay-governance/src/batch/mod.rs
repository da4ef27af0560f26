//! What many callers bring, written in one go.
