//! A few owners of a resource, shared by all callers.
