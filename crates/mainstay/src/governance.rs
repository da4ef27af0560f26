//! Many callers, few connections: resolvers, owners of resources, pools, batch executors, limits, caches and sinks.
//!
//! In `Cargo.toml`: `mainstay = { version = "…", features = ["governance"] }`. With `postgres` instead of `governance` the
//! [sink] for PostgreSQL is there too. The [guide](crate::guide::resource_governance) teaches all of it from the problem up.
//!
//! A database takes a few hundred connections, a file one writer, an account a certain number of requests per second,
//! while the callers are tens of thousands. Actors stand between the two: each owns what there is little of, and the callers
//! go through it.
//!
//! **Tested on one node, for now.** All that must be one in a cluster is an actor here; that its promises hold while roles move
//! between nodes is not shown yet.
//!
//! | to | use |
//! |---|---|
//! | find out which resource an entity lives on, and move it | [`resolve`] |
//! | let one owner, and nobody else, hold the real thing | [`owner`] |
//! | share a few of them among all callers | [`pool`] |
//! | write what many callers bring in one go | [`batch`] |
//! | keep a rate, or a number of things at once | [`limit`] |
//! | keep what is read often close by | [`cache`] |
//! | write rows to files and databases | [`sink`] |

#[doc(inline)]
pub use mainstay_governance::*;
