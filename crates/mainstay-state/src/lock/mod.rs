//! Locks: who may read and write which key, until when, and who has to wait.
//!
//! A transaction has a [`LockOwner`]. Its path: [`try_acquire`](LockOwner::try_acquire) looks into the owner's own
//! list, then grants in the one [`Shard`](table) of the [`LockTable`] that has the key, without a future or an allocation,
//! and with one look at the clock for an operation. [`acquire`](LockOwner::acquire), if that fails, puts the request into the queue of the key,
//! looks for a deadlock, and waits. [`release_all`](LockOwner::release_all) gives each key to the requests that wait for it.
//!
//! # Who is granted what
//!
//! A request is granted if its mode is compatible with those of all other holders ([`LockMode`] has the table), and if
//! it overtakes no other: each key has one queue, and only its front is served. A *conversion*, the request of a
//! transaction that holds the key in a weaker mode, stands before all requests of transactions that hold nothing, and behind
//! the conversions that came before it; a sole holder can always convert, because no other can convert before it.
//!
//! # Why no deadlock stays unseen
//!
//! A waiting request has an edge to each holder whose mode is in its way, and to each request ahead in its queue. A
//! deadlock is a cycle of these edges. It is looked for at one moment only: when a request begins to wait, from that
//! request. That is enough, because nothing else makes a way between two transactions where there was none:
//!
//! - *A new wait* adds edges from the waiting request and, if it is a conversion, which goes before the plain requests,
//!   edges from these to it. All of them touch it, so every new cycle goes through it, and is found from it.
//! - *A grant from the queue* makes a waiter a holder. It was at the front, so all who now have an edge to the holder
//!   had one to the waiter.
//! - *A grant without waiting* of a plain request happens only if the queue is empty, and so adds no edge. A conversion
//!   is granted past a queue of plain requests only if there is no other strong holder. Then the one at the front waits
//!   either for the strong holder that converts, or, if there is none, for sharers, and so wants the key for itself,
//!   which every holder is in the way of. So it waited for the converting transaction before, and all others wait for
//!   it.
//! - *A release, a time-out, a dropped future* take edges away.
//!
//! Requests begin to wait, and leave a queue without being granted, under one lock, that of the waits. Of the requests
//! of a cycle one is therefore the last to wait, and the search from it sees all others. Grants and releases go on
//! during the search, but not in a cycle: its members wait, so they release nothing, and none of them is granted what
//! another one holds or is ahead for. For the same reason no cycle is reported that was not there: a transaction that
//! is seen to wait has waited, with the locks it holds, since before the search began.
//!
//! # Collections
//!
//! Every transaction shares the collections that it uses, so that they are not cleared or dropped meanwhile. These
//! locks are taken with [`try_share`](LockOwner::try_share), which lists the transaction where its thread lists it
//! ([`Sharers`](sharers)) instead of with the key in the table. All of the above holds for the table, and so:
//!
//! - A transaction that wants a collection alone [bars](LockOwner::bar) that first, which puts all that are listed into the table,
//!   and all that come later as well. So no transaction ever waits for one that is listed.
//! - A transaction that begins to wait puts itself into the table first. So the locks of all that wait are there.
//!
//! The locks of this module are taken in the order waits, then one part of the list of sharers, then one shard; nothing is
//! called while one of them is held.

mod mode;
mod transaction_id;

mod owner;
mod request;

mod entry;
mod held;
mod holders;
mod queue;
mod sharers;
mod table;

mod deadlock;
mod timeout;
mod wait;
mod waits;

#[cfg(test)]
mod tests;

pub use deadlock::Deadlock;
pub use mode::LockMode;
pub use timeout::{LockHolder, LockTimeout};
pub use transaction_id::TransactionId;
pub use wait::{LockWait, WaitsFor};

pub(crate) use owner::LockOwner;
pub(crate) use table::LockTable;
