//! Tests of the lock manager as its user sees it.

mod driver;
mod granting;
