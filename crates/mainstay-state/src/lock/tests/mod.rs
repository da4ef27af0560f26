//! Tests of the lock manager as its user sees it.

mod driver;
mod model;

mod cancelling;
mod deadlocks;
mod granting;
mod sharing;
mod sizes;
mod timeouts;

mod schedules;
mod threads;

mod measure;
