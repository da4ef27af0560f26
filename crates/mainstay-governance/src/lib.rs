//! Many callers, few connections: the resource governance pattern on Mainstay.
//!
//! A database takes a few hundred connections, a file one writer, an account a certain number of requests per second,
//! while the callers are tens of thousands. This crate puts actors between the two: each owns what there is little of, and
//! the callers go through it. It is built on the public API of [`mainstay`] alone. The page `mainstay::guide::resource_governance`
//! teaches it from the problem up.
//!
//! Applications have it as `mainstay::governance`, by the feature `governance` of `mainstay`, and the examples are written so. A crate
//! that depends on `mainstay-governance` itself has the same types by its name.
//!
//! **Tested on one node, for now.** All that must be one in a cluster is an actor here; that its promises hold while roles move
//! between nodes is not shown yet.
//!
//! | to | use |
//! |---|---|
//! | find out which resource an entity lives on, and move it | [`resolve`] |
//! | let one owner alone hold the real thing | [`owner`] |
//! | share a few of them among all callers | [`pool`] |
//! | write what many callers bring in one go | [`batch`] |
//! | keep a rate, or a number of things at once | [`limit`] |
//! | keep what is read often close by | [`cache`] |
//! | write rows to files and databases | [`sink`] |
#![allow(
    clippy::disallowed_methods,
    reason = "built as an application is: its tasks and its clock are tokio's, which the test kit can stop and pause"
)]

// What the macros write names `::mainstay`. That crate re-exports this one, so the names come from the room below it.
extern crate mainstay_api as mainstay;

pub mod batch;
pub mod cache;
pub mod limit;
pub mod owner;
pub mod pool;
pub mod resolve;
pub mod sink;

pub mod metric;
pub mod settings;

mod as_services;
mod formats;
mod lease;
#[cfg(all(feature = "testkit", unix))]
pub mod testkit;
mod unserved;

pub use as_services::AsServices;
